"""Measures how much a hostile tenant slows down its neighbors on a real API server."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hearth.model import names
from support.stateful import hostile_specs, hostile_tenant
from support.threats.api import MERGE, Api, find_path
from support.threats.world import CONFIG_MAPS, READ, STACKS, WRITE, Rule, ThreatWorld, make_config_map, make_stack

AT_ONCE = 20
ROUNDS = 2
"""Rounds of ordinary Stacks during the attack, and as many before and after it."""
WORSE = 1.5
SLACK = 1.0
"""Seconds of delay that a busy machine causes now and then. Attacks cause longer or endless delays."""
Comparison = Callable[[list[float]], float]
POLL = 0.05
PAUSE = 0.05
"""Seconds between two hostile writes: one tenant with one kubectl."""
RIGHTS = (
    STACKS,
    CONFIG_MAPS,
    Rule(group="hearth.dev", resources=("stacks/status", "healthmarks"), verbs=(*READ, *WRITE)),
    Rule(group="apps", resources=("controllerrevisions",), verbs=(*READ, *WRITE)),
)


def test_twenty_ordinary_stacks_hardly_notice_a_hostile_one(threats: ThreatWorld) -> None:
    compare(threats, statistics.median)


@pytest.mark.soak
@pytest.mark.alone
def test_no_ordinary_stack_notices_a_hostile_one(threats: ThreatWorld) -> None:
    compare(threats, find_percentile)


def compare(threats: ThreatWorld, summarize: Comparison) -> None:
    """Measure ordinary Stacks before, during and after an attack."""
    numbers = itertools.count()
    namespace = threats.make_namespace("ordinary")
    measure(threats, namespace, numbers)  # the first Stacks load shared data for all others
    alone = measure(threats, namespace, numbers)
    hostile = threats.tenant("hostile")
    account = hostile.make_account("mallory", *RIGHTS)

    with attacking(account, hostile.namespace, victim=namespace, threats=threats) as made:
        beside = [seconds for _ in range(ROUNDS) for seconds in measure(threats, namespace, numbers)]
    attacked = len(made)
    threats.api.delete_all("Stack", hostile.namespace)
    alone += measure(threats, namespace, numbers)

    for name, each in (("median", statistics.median), ("p99", find_percentile)):
        print(f"{name} {each(alone):.2f} s alone, {each(beside):.2f} s beside {attacked} hostile writes")
    assert attacked > len(hostile_specs.SPECS)
    assert summarize(beside) < WORSE * summarize(alone) + SLACK
    assert threats.operator.get("/healthz").is_ok


def measure(threats: ThreatWorld, namespace: str, numbers: Iterator[int]) -> list[float]:
    """Seconds from creation to complete of twenty Stacks, created one after the other."""
    begun: dict[str, float] = {}
    took: dict[str, float] = {}

    def look() -> bool:
        for stack in threats.api.list("Stack", namespace):
            name, phase = stack["metadata"]["name"], (stack.get("status") or {}).get("phase")
            if name in begun and phase == "CreateComplete":
                took.setdefault(name, time.monotonic() - begun[name])
        return len(took) == AT_ONCE

    for _ in range(AT_ONCE):
        name = f"shop-{next(numbers)}"
        resources = {"a": make_config_map(data={"v": "1"}), "b": make_config_map(data={"v": "${a.data.v}"})}
        begun[name] = time.monotonic()
        threats.api.create(make_stack(namespace, name, resources))
        look()
        time.sleep(POLL)
    threats.wait_for(look, what=f"{AT_ONCE - len(took)} of {AT_ONCE} ordinary Stacks")
    return list(took.values())


@contextlib.contextmanager
def attacking(account: Api, namespace: str, *, victim: str, threats: ThreatWorld) -> Iterator[list[int]]:
    """Let the hostile tenant write within the block; yields the status codes of its writes."""
    codes: list[int] = []
    is_done = threading.Event()

    def attack() -> None:
        for number in itertools.count():
            for act in (write_stack, annotate, patch_status, forge):
                with contextlib.suppress(AssertionError):  # the object to change was already deleted
                    codes.append(act(account, namespace, number, victim=victim, threats=threats))
                if is_done.wait(PAUSE):
                    return

    thread = threading.Thread(target=attack, daemon=True)
    thread.start()
    try:
        yield codes
    finally:
        is_done.set()
        thread.join()


def write_stack(account: Api, namespace: str, number: int, **_: object) -> int:
    """Write one invalid or expensive Stack after the other, replacing earlier ones."""
    name, spec = list(hostile_specs.SPECS.items())[number % len(hostile_specs.SPECS)]
    data = {"template": hostile_tenant.BOMB % (hostile_specs.STACK_VERSION, '{"name": "bomb", "key": "template"}')}
    metadata = {"name": "bomb", "namespace": namespace}
    account.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    stack = {
        "apiVersion": hostile_specs.STACK_VERSION,
        "kind": "Stack",
        "metadata": {"name": name, "namespace": namespace},
    }
    if number // len(hostile_specs.SPECS) % 2:
        spec = hostile_specs.spec_of({"r": hostile_specs.config(data={"round": str(number)})})
    return account.apply({**stack, "spec": spec}).code


def annotate(account: Api, namespace: str, number: int, **_: object) -> int:
    """Change one of Hearth's annotations on the tenant's own child."""
    found = account.list("ConfigMap", namespace, labelSelector=names.LABEL_RESOURCE)
    assert found
    text = hostile_tenant.TEXTS[number % len(hostile_tenant.TEXTS)]
    key = hostile_tenant.ANNOTATIONS[number % len(hostile_tenant.ANNOTATIONS)]
    return account.annotate("ConfigMap", namespace, found[number % len(found)]["metadata"]["name"], {key: text}).code


def patch_status(account: Api, namespace: str, number: int, **_: object) -> int:
    """Write nonsense into the status of the tenant's own Stack."""
    found = account.list("Stack", namespace)
    assert found
    path = find_path("Stack", namespace, found[number % len(found)]["metadata"]["name"])
    status = hostile_tenant.STATUSES[number % len(hostile_tenant.STATUSES)]
    return account.send("PATCH", f"{path}/status", body={"status": status}, content_type=MERGE).code


def forge(account: Api, namespace: str, number: int, *, victim: str, threats: ThreatWorld) -> int:
    """Create a copy of an ordinary Stack's child, including its labels and annotations."""
    found = threats.api.list("ConfigMap", victim, labelSelector=names.LABEL_RESOURCE)
    assert found
    raw = found[number % len(found)]
    said = {key: raw["metadata"].get(key) or {} for key in ("labels", "annotations")}
    metadata = {"name": f"forged-{number}", "namespace": namespace, "finalizers": [hostile_tenant.FINALIZER], **said}
    return account.try_create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": raw["data"]}).code


def find_percentile(seconds: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(seconds, n=100)[98]
