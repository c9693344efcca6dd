"""D4, D5, D6, D12: no definition uses more than its share of resources, and its Stack reports the problem.

N10: Events in templates. The operator may write Events but not list them, so it could not know whether any remain.
"""

from __future__ import annotations

import base64
import re
import sys
from typing import Any

import pytest

from support.threats.api import Object
from support.threats.world import CONFIG_MAPS, Tenant, ThreatWorld, make_config_map, make_stack

WORK = 2.0
"""Maximum CPU seconds that the operator works while a request of /healthz waits. Each of these attacks once took more than ten."""
GROWTH = 64 * 1024 * 1024
"""Bytes that one Stack may use in addition to the memory of its objects."""
BOMB = "\n".join(
    [
        "a0: &a0 [v, v, v, v, v, v, v, v, v, v]",
        *(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)),
        "resources: {}",
    ]
)
RESOURCES = {"a": make_config_map()}
EARLIER = """
import runpy, sys
from hearth.template.compiler import resource_analysis
getattr(resource_analysis, "REFUSED", {}).clear()
sys.argv[0] = "hearth"
runpy.run_module("hearth", run_name="__main__", alter_sys=True)
"""
"""The operator of a version that accepts Events."""


def refer(tenant: Tenant, template: str) -> Object:
    """Create a ConfigMap with a template; return a Stack that references it."""
    metadata = {"name": "template", "namespace": tenant.namespace}
    source = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"template.yaml": template}}
    tenant.author(CONFIG_MAPS).create(source)
    stack = make_stack(tenant.namespace, "evil", {})
    del stack["spec"]["template"]
    stack["spec"]["templateRef"] = {"name": "template"}
    return stack


def attack(threats: ThreatWorld, tenant: Tenant, stack: Object, *, is_refused: bool = True) -> str:
    """Create the Stack and check that others are not affected. Returns why it is refused, or "" if it is complete."""
    threats.canary()
    before = threats.operator.memory
    threats.operator.forget_peak()
    with threats.operator.listened_to() as silence:
        tenant.author().create(stack)
        if not is_refused:
            threats.wait_phase(tenant.namespace, "evil", "CreateComplete")
        message = wait_refusal(threats, tenant) if is_refused else ""
        threats.canary()
    assert silence.longest_work < WORK
    assert threats.operator.peak - before < GROWTH
    assert not threats.operator.read_events("internal error")
    return message


def wait_refusal(threats: ThreatWorld, tenant: Tenant) -> str:
    """Wait until the definition is rejected; return the message of the Stack."""

    def look() -> str | None:
        conditions = threats.find_status(tenant.namespace, "evil").get("conditions") or []
        return next((each["message"] for each in conditions if each["reason"] == "InvalidTemplate"), None)

    return threats.wait_for(look, what="the mistake in the status")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (BOMB, "holds more than 250000 values, aliases expanded"),
        ("resources: " + "[" * 200_000, "line 1, column 111: is nested more than 100 levels deep"),
        ("resources: {a: {manifest: " + "[" * 400 + "]" * 400 + "}}", "is nested more than 100 levels deep"),
    ],
    ids=["aliases of aliases (D4)", "nested so deeply that libyaml ends the process", "nested 400 levels deep (D12)"],
)
def test_a_template_in_a_config_map_is_bounded(threats: ThreatWorld, template: str, expected: str) -> None:
    tenant = threats.tenant()
    assert expected in attack(threats, tenant, refer(tenant, template))


def test_a_pattern_takes_linear_time(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    stack = make_stack(tenant.namespace, "evil", RESOURCES, parameters={"p": "a" * 40 + "!"})
    stack["spec"]["template"]["parameters"] = {"p": {"type": "string", "pattern": "^(a+)+$"}}
    assert "spec.parameters.p: must match '^(a+)+$', found the text 'aaa" in attack(threats, tenant, stack)


def test_a_glob_takes_linear_time(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    stack = make_stack(tenant.namespace, "evil", {"a" * 40: make_config_map("x")})
    stack["spec"]["environment"] = {"breakpoints": [{"resource": "*a" * 12 + "b", "at": ["PreCreate"]}]}
    attack(threats, tenant, stack, is_refused=False)


def test_a_thousand_misspelt_parameters_are_refused_at_once(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    given = {f"parameterNumber{number:04}x": "v" for number in range(1000)}
    stack = make_stack(tenant.namespace, "evil", RESOURCES, parameters=given)
    stack["spec"]["template"]["parameters"] = {
        f"parameterNumber{number:04}y": {"type": "string", "default": "v"} for number in range(1000)
    }
    message = attack(threats, tenant, stack)
    assert "parameterNumber0000x: is not declared" in message
    assert message.count("did you mean") <= 10


def test_items_are_distinguished_in_linear_time(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    items = [{"name": f"item {number}"} for number in range(3000)]
    stack = make_stack(tenant.namespace, "evil", RESOURCES, parameters={"p": [*items, items[7]]})
    stack["spec"]["template"]["parameters"] = {"p": {"type": "array", "uniqueItems": True}}
    assert "must not have duplicate entries, found [3000] equal to [7]" in attack(threats, tenant, stack)


def test_a_secret_that_cannot_be_read_as_yaml_is_in_no_log(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    texts = {"n": "!!int tagsecret99", "m": "!!bool tagsecret99", "deep": "[" * 400, "long": "9" * 4301, "odd": "0x_"}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    metadata = {"name": "secret", "namespace": tenant.namespace}
    threats.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    stack = make_stack(tenant.namespace, "evil", RESOURCES)
    stack["spec"]["template"]["parameters"] = {name: {"type": "integer"} for name in texts if name != "deep"}
    stack["spec"]["parametersFrom"] = [{"secretRef": {"name": "secret"}}]
    message = attack(threats, tenant, stack)
    assert len(re.findall(r"secret/secret key (?:n|m|long|odd)\): must be of type integer, but is not", message)) == 4

    stack["spec"]["template"]["parameters"] = {"deep": {"type": "object"}}
    tenant.author().apply(stack)
    threats.wait_for(
        lambda: "is nested more than 100 levels deep" in wait_refusal(threats, tenant),
        what="the depth in the status",
    )
    assert "tagsecret99" not in threats.operator.read_log()
    assert "999999" not in threats.operator.read_log()


def test_an_output_that_no_status_can_hold_is_reported(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    deep: object = "${[[[[[[[[[[[[[[[[[[[[[[[[[a.metadata.name]]]]]]]]]]]]]]]]]]]]]]]]]}"
    for _ in range(60):
        deep = [deep]
    stack = make_stack(tenant.namespace, "evil", {"a": make_config_map("x", {"k": "v" * 20_000})})
    outputs = {
        "deep": {"value": deep},
        "long": {"value": "${a.data.k + a.data.k + a.data.k + a.data.k}"},
        "good": {"value": "${a.metadata.name}"},
    }
    stack["spec"]["template"]["outputs"] = outputs
    attack(threats, tenant, stack, is_refused=False)
    status = threats.find_status(tenant.namespace, "evil")
    assert status["outputs"] == {"good": "x"}
    assert status["warnings"] == [
        "outputs.deep: is nested more than 32 levels deep; flatten it",
        "outputs.long: is larger than 65536 bytes; shorten or split it",
    ]


def make_event(namespace: str, api_version: str = "v1") -> dict[str, Any]:
    """A resource of that kind."""
    involved = {"kind": "Pod", "namespace": namespace, "name": "web"}
    return {"manifest": {"apiVersion": api_version, "kind": "Event", "reason": "Mine", "involvedObject": involved}}


def test_n10_an_event_is_refused_with_its_path(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    for name, api_version in (("old", "v1"), ("new", "events.k8s.io/v1")):
        resources = {"note": make_event(tenant.namespace, api_version), "cfg": make_config_map(f"{name}-cfg")}
        author.create(make_stack(tenant.namespace, name, resources))
        stack = threats.wait_phase(tenant.namespace, name, "CreateFailed")
        assert "spec.template.resources.note.manifest.kind: Event reports what happened" in str(stack["status"])
        author.delete("Stack", tenant.namespace, name)
    threats.wait_for(lambda: threats.api.list("Stack", tenant.namespace) == [], what="the end of both")


def test_n10_a_stack_that_has_one_can_be_deleted(threats: ThreatWorld) -> None:
    program = threats.operator.program
    threats.operator.kill()
    threats.operator.program = (sys.executable, "-c", EARLIER)
    threats.operator.start()
    tenant = threats.tenant()
    author = tenant.author()
    resources = {"note": make_event(tenant.namespace), "cfg": make_config_map("cfg")}
    author.create(make_stack(tenant.namespace, "shop", resources))
    threats.wait_for(lambda: threats.find_status(tenant.namespace, "shop").get("phase"), what="a status")
    threats.operator.kill()
    threats.operator.program = program
    threats.operator.start()

    threats.wait_for(
        lambda: "Event reports what happened" in str(threats.find_status(tenant.namespace, "shop")), what="the refusal"
    )
    author.delete("Stack", tenant.namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None, what="its end")
    threats.wait_for(
        lambda: threats.api.get("ConfigMap", tenant.namespace, "cfg") is None, what="the end of its object"
    )
