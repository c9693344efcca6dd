"""Expressions that take gigabytes or minutes: only they fail, others are not affected, and large legitimate expressions
succeed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.threats.api import Object
from support.threats.world import Tenant, ThreatWorld, make_config_map, make_stack

WORK = 1.0
"""Maximum CPU seconds that the operator works while a request of /healthz waits."""
GROWTH = 64.0
"""MiB."""
TEXT: Object = {"type": "string"}
LIST: Object = {"type": "array"}


def make_bomb(levels: int) -> str:
    """Some 800 characters that repeatedly double a list."""
    text = f"size(a{levels})"
    for level in range(levels, 0, -1):
        text = f"cel.bind(a{level}, a{level - 1}+a{level - 1}, {text})"
    return text.replace("a0", "[1]")


def make_child_bomb(levels: int) -> str:
    """The same with a reference to an object, so that it is evaluated once the object exists."""
    return make_bomb(levels).replace("[1]", "[cfg.data.a]")


BOMBS = [
    pytest.param({"a": f"${{string({make_bomb(21)})}}"}, {}, id="bind-21"),
    pytest.param({"a": f"${{string({make_bomb(24)})}}"}, {}, id="bind-24"),
    pytest.param(
        {"a": '${string(params.list.exists(i, params.text.replace("a", "bb").size() < 0))}'},
        {"text": "a" * 800_000, "list": list(range(1000))},
        id="a-thousand-replacements",
    ),
    pytest.param({"a": "${string(size(params.list.map(i, i)))}"}, {"list": list(range(9000))}, id="a-list-copied-at-each-step"),
    pytest.param({"a": f"${{string(size({'strings.quote(' * 24}params.text{')' * 24}))}}"}, {"text": '"' * 16}, id="quotes-in-quotes"),
    pytest.param({"a": "${string(params.text.matches('((a{0,10}){0,10}){0,10}b'))}"}, {"text": "a" * 800_000}, id="unfolded-pattern"),
]  # fmt: skip


def make(tenant: Tenant, name: str, data: Object, parameters: Object) -> Object:
    """A Stack of a plain ConfigMap, and a ConfigMap with this data."""
    rules = {each: LIST if isinstance(value, list) else TEXT for each, value in parameters.items()}
    resources = {"cfg": make_config_map(f"{name}-cfg"), "bomb": make_config_map(f"{name}-bomb", data)}
    return make_stack(
        tenant.namespace, name, resources, template={"parameters": rules} if rules else None, parameters=parameters
    )


@pytest.mark.parametrize(("data", "parameters"), BOMBS)
def test_an_expression_without_bound_stops_only_itself(threats: ThreatWorld, data: Object, parameters: Object) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    threats.canary()
    before = threats.operator.memory
    threats.operator.forget_peak()

    with threats.operator.listened_to() as silence:
        author.create(make(tenant, "bomb", data, parameters))
        threats.canary()
        wait_verdict(threats, tenant)
        threats.canary()

    print(
        f"silent for {silence.longest:.2f} s ({silence.longest_work:.2f} s of work), {before:.0f} MiB, {threats.operator.peak:.0f} at most"
    )
    assert silence.longest_work < WORK
    assert threats.operator.peak - before < GROWTH
    message = find_refusal(threats, tenant)
    assert "spec.template.resources.bomb.manifest.data.a: expression took more than" in message, message

    threats.operator.restart()
    threats.canary()
    threats.wait_for(lambda: find_refusal(threats, tenant), what="a refusal")
    assert threats.operator.peak - before < GROWTH


def wait_verdict(threats: ThreatWorld, tenant: Tenant) -> None:
    """Wait until the Stack is complete, or reports why it is not."""
    phases = ("CreateComplete", "CreateFailed", "Pending")

    def look() -> bool:
        status = threats.find_status(tenant.namespace, "bomb")
        return status.get("phase") in phases or bool(find_failure(threats, tenant) or find_refusal(threats, tenant))

    threats.wait_for(look, what="a verdict on stack/bomb")


def find_refusal(threats: ThreatWorld, tenant: Tenant) -> str:
    """The message of the Stack about its refused definition."""
    conditions = threats.find_status(tenant.namespace, "bomb").get("conditions") or ()
    return next((each["message"] for each in conditions if each["reason"] == "InvalidTemplate"), "")


@pytest.mark.parametrize("zone", ["'/dev/ptmx'", "params.zone"])
def test_a_device_is_no_time_zone(threats: ThreatWorld, zone: str) -> None:
    tenant = threats.tenant()
    time = f"${{string(timestamp('2020-01-01T00:00:00Z').getHours({zone}))}}"
    threats.canary()

    tenant.author().create(make(tenant, "bomb", {"a": time}, {"zone": "/dev/ptmx"}))
    wait_verdict(threats, tenant)

    threats.canary()
    assert "getHours needs a time zone that is written as text" in find_refusal(threats, tenant)


def test_many_replacements_of_what_nearly_matches_hold_up_no_one(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    parameters = {"a": "a" * 118_000, "b": "a" * 59_000 + "b"}
    data = {f"k{number}": f"${{string(size(params.a.replace(params.b, 'x{number}')))}}" for number in range(400)}
    threats.canary()

    with threats.operator.listened_to() as silence:
        tenant.author().create(make(tenant, "bomb", data, parameters))
        canaries = [threats.canary().complete for _ in range(3)]

    print(f"silent for {silence.longest:.2f} s ({silence.longest_work:.2f} s of work), canaries {max(canaries):.2f} s")
    assert silence.longest_work < WORK


def test_an_expression_without_bound_over_an_object_fails_its_resource_alone(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    threats.canary()
    before = threats.operator.memory
    threats.operator.forget_peak()

    with threats.operator.listened_to() as silence:
        author.create(make(tenant, "bomb", {"a": f"${{string({make_child_bomb(24)})}}"}, {}))
        wait_verdict(threats, tenant)
        threats.canary()

    assert silence.longest_work < WORK
    assert threats.operator.peak - before < GROWTH
    problem = find_failure(threats, tenant)
    assert "expression took more than 128 MiB of memory; simplify it: `string(cel.bind(a1, " in problem["message"]
    assert threats.api.get("ConfigMap", tenant.namespace, "bomb-cfg")


def find_failure(threats: ThreatWorld, tenant: Tenant) -> Any:
    """The problem of a resource whose expression failed, or None."""
    problems = threats.find_status(tenant.namespace, "bomb").get("problems") or ()
    return next((each for each in problems if each.get("reason") == "ExpressionFailed"), None)


def test_many_stacks_with_bombs_hold_up_no_one(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant()
    author = tenant.author()
    threats.canary()
    before = threats.operator.memory
    threats.operator.forget_peak()

    bomb: Any = BOMBS[2].values
    with threats.operator.listened_to() as silence:
        for number in range(10):
            author.create(make(tenant, f"bomb{number}", *bomb))
        other.author().create(make_honest(other))
        threats.wait_phase(other.namespace, "honest", "CreateComplete")
        canary = threats.canary()

    print(
        f"silent for {silence.longest:.2f} s ({silence.longest_work:.2f} s of work), canary {canary.complete:.2f} s, {threats.operator.peak - before:.0f} MiB more"
    )
    assert silence.longest_work < WORK


def make_honest(tenant: Tenant) -> Object:
    """A Stack whose expressions exceed the operator's own limit: 1,500 lines from a list, and one expression that reads
    them.
    """
    lines = "${params.list.map(i, 'line-' + string(i)).join('\\n')}"
    back = "${string(lines.data.a.split('\\n').filter(l, l.endsWith('9')).size())}"
    resources = {"lines": make_config_map("lines", {"a": lines}), "count": make_config_map("count", {"a": back})}
    parameters = {"list": list(range(1500))}
    return make_stack(
        tenant.namespace, "honest", resources, template={"parameters": {"list": LIST}}, parameters=parameters
    )


def test_a_large_honest_expression_has_its_value(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    author.create(make_honest(tenant))
    threats.wait_phase(tenant.namespace, "honest", "CreateComplete")

    lines = threats.api.get("ConfigMap", tenant.namespace, "lines")
    count = threats.api.get("ConfigMap", tenant.namespace, "count")
    assert lines is not None
    assert count is not None
    assert lines["data"]["a"].splitlines() == [f"line-{number}" for number in range(1500)]
    assert count["data"]["a"] == "150"
    assert threats.operator.read_metric("hearth_limit_reached_total", limit="evaluations") == 0
    workers = find_workers(threats)
    assert workers
    threats.operator.kill()
    threats.wait_for(lambda: not any(each.exists() for each in workers), what="the end of evaluator processes")


def find_workers(threats: ThreatWorld) -> list[Path]:
    """The evaluator processes of the operator."""
    assert threats.operator.process is not None
    children = Path(f"/proc/{threats.operator.process.pid}/task/{threats.operator.process.pid}/children").read_text()
    processes = [Path("/proc") / pid for pid in children.split()]
    return [each for each in processes if b"hearth.sandbox.worker" in (each / "cmdline").read_bytes()]


MEMBERS, RULES = 200, 32
"""Objects with 32 rules each."""


@pytest.mark.parametrize("comparisons", [pytest.param(12, id="small"), pytest.param(160, id="refused")])
def test_many_rules_of_one_stack_hold_up_no_one(threats: ThreatWorld, comparisons: int) -> None:
    tenant = threats.tenant()
    rule = " && ".join(["cfg.data == cfg.data"] * comparisons)
    cfg = {
        **make_config_map(data={f"k{number}": "${string(item)}" for number in range(200)}),
        "forEach": "params.list",
        "readyWhen": [f"{rule} && '{number}' != ''" for number in range(RULES)],
    }
    template, parameters = {"parameters": {"list": LIST}}, {"list": list(range(MEMBERS))}
    threats.canary()

    def watch() -> float:
        return max(threats.canary().complete for _ in range(5))

    with threats.operator.listened_to() as silence:
        tenant.author().create(
            make_stack(tenant.namespace, "rules", {"cfg": cfg}, template=template, parameters=parameters)
        )
        slowest = watch()
        threats.wait_phase(tenant.namespace, "rules", "CreateComplete", "CreateFailed", within=240.0)
        slowest = max(slowest, watch())
    print(f"silent for {silence.longest:.2f} s ({silence.longest_work:.2f} s of work), canaries {slowest:.2f} s")
    assert silence.longest_work < WORK

    threats.operator.restart()
    with threats.operator.listened_to() as silence:
        slowest = watch()
    print(f"silent for {silence.longest:.2f} s ({silence.longest_work:.2f} s of work), canaries {slowest:.2f} s")
    assert silence.longest_work < WORK
