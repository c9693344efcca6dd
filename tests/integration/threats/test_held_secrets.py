"""Secrets do not leak: no sensitive value leaves the objects that need it, and no name leads to another namespace."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from support.threats.api import Object
from support.threats.world import READ, WRITE, Rule, Tenant, ThreatWorld, make_config_map, make_stack

CORE = "Correct-Horse-7"
VALUE = f"xy {CORE}_Battery!"
NEEDLES = (
    CORE,
    CORE.lower(),
    CORE.upper(),
    CORE[::-1],
    *(base64.b64encode(f"{pad}{VALUE}".encode()).decode()[4:24] for pad in ("", "x", "xx")),
    base64.b64encode(VALUE.encode()).decode()[:16],
)
"""Texts that would show a leak of the value, or of an expression's result from it."""


def make_secret(namespace: str, name: str = "db") -> Object:
    """A Secret whose key is a parameter's name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {"pw": VALUE},
    }


def make_service(**fields: Any) -> Object:
    """A Service of a template."""
    port = {"port": 80, **fields.pop("port", {})}
    return {"manifest": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port], **fields}}}


def make_deployment(*, container: Object | None = None, pods: str = "web", **fields: Any) -> Object:
    """A Deployment of a template."""
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": pods}},
            "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}]},
        },
        **fields,
    }
    return {"manifest": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}}


def make_labelled(value: str) -> Object:
    """A ConfigMap of a template with a label of that value."""
    metadata = {"labels": {"x": value}}
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}}


REFUSED: dict[str, Object] = {
    "label": make_labelled("${params.pw}"),
    "label-base64": make_labelled("${base64.encode(bytes(params.pw)) + '=?'}"),
    "label-part": make_labelled("${params.pw.substring(3) + '?'}"),
    "label-map": make_labelled("${[params.pw].map(x, x + '?')[0]}"),
    "label-case": make_labelled("${params.pw.lowerAscii() + '?'}"),
    "port-name": make_service(port={"name": "${params.pw}"}),
    "service-type": make_service(type="${params.pw}"),
    "selector": make_service(selector={"app": "${params.pw}"}),
    "pods": make_deployment(pods="${params.pw}"),
    "environment": make_deployment(container={"env": [{"name": "${params.pw + '='}", "value": "x"}]}),
    "image-policy": make_deployment(container={"imagePullPolicy": "${params.pw}"}),
    "quantity": make_deployment(container={"resources": {"requests": {"cpu": "${params.pw}"}}}),
    "number": make_deployment(replicas="${int(params.pw)}"),
    "data": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": "${params.pw}"}},
}
"""By Stack name, a resource that the API server refuses, or whose expression fails, because of the secret in it."""

WRONG: dict[str, Object] = {
    "type": {"type": "integer", "sensitive": True},
    "pattern": {"type": "string", "pattern": "^[0-9]+$", "sensitive": True},
    "choice": {"type": "string", "enum": ["a", "b"], "sensitive": True},
    "length": {"type": "string", "maxLength": 3, "sensitive": True},
}
"""By Stack name, a parameter that the secret does not match."""


ACCOUNTS = {
    "able": (
        Rule(group="", resources=("secrets", "configmaps", "services"), verbs=(*READ, *WRITE)),
        Rule(group="apps", resources=("deployments",), verbs=(*READ, *WRITE)),
    ),
    "unable": (Rule(group="", resources=("secrets",), verbs=READ),),
}
"""The rules of each account, by its name."""


@pytest.mark.parametrize("account", [None, "able", "unable"])
@pytest.mark.operator_options("--log-level=debug")
def test_a_sensitive_value_is_written_down_nowhere_but_in_children(threats: ThreatWorld, account: str | None) -> None:
    tenant = threats.tenant()
    threats.api.create(make_secret(tenant.namespace))
    author = tenant.author()
    more: Object = {"parametersFrom": [{"secretRef": {"name": "db"}}]}
    if account is not None:
        made = tenant.make_account(account, *ACCOUNTS[account])
        more["serviceAccountName"] = made.account.split("/")[1]
    for name, resource in REFUSED.items():
        declared = {"pw": {"type": "string", "sensitive": True}}
        template = {"parameters": declared, "outputs": {"pw": {"value": "${params.pw + '.'}"}}}
        author.create(make_stack(tenant.namespace, name, {"r": resource}, template=template, **more))
    for name, parameter in WRONG.items():
        resources = {"r": make_config_map(data={"a": "${string(params.pw)}"})}
        template = {"parameters": {"pw": parameter}}
        author.create(make_stack(tenant.namespace, name, resources, template=template, **more))

    for name in [*REFUSED, *WRONG]:
        threats.wait_phase(tenant.namespace, name, "CreateFailed")

    assert find_leaks(threats, tenant) == []
    threats.operator.restart()
    threats.canary()
    assert find_leaks(threats, tenant) == []
    # Metrics do not contain names of tenants either.
    assert tenant.namespace not in threats.operator.get("/metrics").text


def find_leaks(threats: ThreatWorld, tenant: Tenant) -> list[str]:
    """The places that show a needle."""
    places = {
        "the log": threats.operator.read_log(),
        **{page: threats.operator.get(page).text for page in ("/metrics", "/healthz", "/readyz")},
        **{
            f"{kind} {each['metadata']['name']}": str(each)
            for kind in ("Stack", "Event", "ControllerRevision")
            for each in threats.api.list(kind, tenant.namespace)
        },
    }
    return [f"{place} shows {needle}" for place, text in places.items() for needle in NEEDLES if needle in text]


@pytest.mark.parametrize("field", ["parametersFrom", "templateRef"])
def test_no_name_of_a_source_leads_to_another_namespace(threats: ThreatWorld, field: str) -> None:
    tenant, victim = threats.tenant(), threats.tenant("victim")
    author = tenant.author()
    threats.api.create(make_secret(victim.namespace))
    template = f'{{"resources": {{}}, "outputs": {{"pw": {{"value": "{VALUE}"}}}}}}'
    metadata = {"name": "db", "namespace": victim.namespace}
    threats.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"template": template}})
    kind = "secrets" if field == "parametersFrom" else "configmaps"
    tricks = [
        f"../../{victim.namespace}/{kind}/db",
        f"..%2F..%2F{victim.namespace}%2F{kind}%2Fdb",
        f"x,metadata.namespace={victim.namespace}",
        f"db?namespace={victim.namespace}",
        f"{victim.namespace}/db",
        "db\r\nImpersonate-User: system:admin",
        "db HTTP/1.1\r\n\r\nGET /api/v1/secrets",
        "db#",
        "*",
    ]
    created = []
    for number, name in enumerate(tricks):
        stack = make_source(tenant.namespace, f"trick-{number}", field=field, source=name)
        if author.try_create(stack).is_accepted:
            created.append(stack["metadata"]["name"])

    assert created
    threats.canary()
    for name in created:
        stack = threats.wait_phase(tenant.namespace, name, "CreateFailed")
        assert not stack["status"].get("outputs")
    assert CORE not in str(threats.api.list("Stack", tenant.namespace))
    assert threats.operator.read_events("internal error") == []


def make_source(namespace: str, name: str, *, field: str, source: str) -> Object:
    """A Stack that outputs the data of the source with that name."""
    if field == "templateRef":
        metadata = {"name": name, "namespace": namespace}
        spec = {"templateRef": {"name": source, "key": "template"}}
        return {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": metadata, "spec": spec}
    template = {"parameters": {"pw": {"sensitive": False}}, "outputs": {"pw": {"value": "${params.pw}"}}}
    sources = [{"secretRef": {"name": source}}]
    return make_stack(namespace, name, {"r": make_config_map()}, template=template, parametersFrom=sources)
