"""One tenant writes anything that the API server accepts, in one namespace.

Others, the process and its memory are hardly affected.
"""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable
from typing import Any

import pytest

from hearth.model import names
from support import soak
from support.stateful import hostile_specs, hostile_tenant
from support.threats import definitions
from support.threats.api import Answer, Api, Object
from support.threats.definitions import FLAGS, NAME, SITES, make_definition, make_site, wait_ready
from support.threats.world import (
    CONFIG_MAPS,
    READ,
    STACKS,
    WRITE,
    Rule,
    Tenant,
    ThreatWorld,
    make_config_map,
    make_stack,
)

MOST = 400.0
"""MiB of memory."""
SOON = 20.0
"""Seconds for a new Stack of another tenant, on a busy machine."""
NAMES = tuple(f"n{number}" for number in range(12))
"""Only a few names, so that objects interact: as children, sources, external objects and namesakes."""
SECRETS = Rule(group="", resources=("secrets",), verbs=(*READ, *WRITE))
MARKS = Rule(group="hearth.dev", resources=("healthmarks", "stacksnapshots", "stacks/status"), verbs=(*READ, *WRITE))
ANNOTATIONS = sorted(
    {value for key, value in vars(names).items() if key.startswith(("ANNOTATION_", "REQUEST_"))}
    | {f"{names.GROUP}/{word}" for word in ("retry", "cleanup", "check", "restart")}
)
EXPRESSIONS = (
    "${params.a}",
    "${string(params)}",
    "${l.map(x, x.metadata.name).join(',')}",
    "${string(l)}",
    "${s.data.a}",
    "${string(s)}",
    "${m.all(x, size(x.data) > 0) ? 'a' : 'b'}",
    "${base64.encode(bytes(s.metadata.name))}",
    "${timestamp(params.a) > timestamp('2020-01-01T00:00:00Z') ? 'a' : 'b'}",
    "${[1, 2].map(x, x / 0).size()}",
    "${unknown.data.a}",
    "${",
)


class Writer:
    """Generates the tenant's next write."""

    def __init__(self, rand: random.Random, namespace: str) -> None:
        self.rand = rand
        self.namespace = namespace

    def make_text(self) -> str:
        """A text, possibly a long or an odd one."""
        rand = self.rand
        match rand.randrange(5):
            case 0:
                return rand.choice(EXPRESSIONS)
            case 1:
                return rand.choice(hostile_tenant.TEXTS)
            case 2:
                return rand.choice(string.printable) * rand.choice((1, 300, 70_000, 400_000))
            case 3:
                return str(self.make_value(3)).replace("'", '"')
        return "".join(rand.choices("aäß${}[]()\n\t\"'\\😀\u202e0", k=rand.randrange(20)))

    def make_value(self, depth: int) -> Any:
        """A value of any type."""
        rand = self.rand
        match rand.randrange(8) if depth else rand.randrange(4):
            case 0:
                return rand.choice((None, True, 0, -1, 2**63, 1e300, 0.1))
            case 1 | 2:
                return self.make_text() if depth > 2 else rand.choice(EXPRESSIONS)
            case 3:
                return rand.choice(NAMES)
            case 4 | 5:
                return [self.make_value(depth - 1)] * rand.choice((0, 1, 3, 50))
        return {rand.choice((*NAMES, "a")): self.make_value(depth - 1) for _ in range(rand.randrange(4))}

    def make_map(self, kind: str) -> Object:
        """A ConfigMap or Secret."""
        rand = self.rand
        field = "data" if kind == "ConfigMap" else "stringData"
        labels = {key: rand.choice(("a", "b")) for key in rand.sample((*hostile_tenant.LABELS, "tier"), 2)}
        metadata = {"name": rand.choice(NAMES), "namespace": self.namespace, "labels": labels}
        content = {rand.choice(("a", "template", *NAMES)): self.make_text() for _ in range(rand.randrange(4))}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, field: content}

    def make_resource(self) -> Object:
        """A resource of a template."""
        rand = self.rand
        metadata = rand.choice(
            ({}, {"name": rand.choice(NAMES)}, {"name": self.make_value(1)}, {"namespace": "default"})
        )
        selector = rand.choice(({}, {"matchLabels": {"tier": "a"}}))
        match rand.randrange(7):
            case 0:
                read = {"name": rand.choice(NAMES)} if rand.random() < 0.5 else {"selector": selector}
                version, kind = rand.choice((("v1", "ConfigMap"), ("v1", "Secret"), ("hearth.dev/v1alpha1", "Stack")))
                return {"externalRef": {"apiVersion": version, "kind": kind, "metadata": read}}
            case 1:
                site = make_site(self.namespace, rand.choice(NAMES), title=self.make_value(2))
                return {"manifest": {**site, "metadata": metadata}}
            case 2:
                nested = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": self.make_spec(is_nested=True)}
                return {"manifest": nested}
        more = rand.choice(
            ({}, {}, {"forEach": "l"}, {"forEach": "params.a"}, {"when": "params.a == 'a'"}, {"readyWhen": ["${true}"]})
        )
        kind, field = rand.choice((("ConfigMap", "data"), ("Secret", "stringData")))
        content = {rand.choice(("a", "b")): self.make_value(3) for _ in range(rand.randrange(1, 3))}
        return {"manifest": {"apiVersion": "v1", "kind": kind, "metadata": metadata, field: content}, **more}

    def make_spec(self, *, is_nested: bool = False) -> Object:
        """The spec of a Stack."""
        rand = self.rand
        if rand.random() < 0.3:
            return dict(rand.choice(list(hostile_specs.SPECS.values())))
        resources = {
            rand.choice("lsmabc"): self.make_resource() for _ in range(rand.randrange(1, 2 if is_nested else 6))
        }
        rules = rand.choice(
            ({}, {"type": rand.choice(("string", "array", "object")), "sensitive": rand.random() < 0.3})
        )
        template = {
            "parameters": {"a": rules},
            "resources": resources,
            "outputs": {"o": {"value": rand.choice(EXPRESSIONS)}},
        }
        options: tuple[Object, ...] = (
            {"parameters": {"a": self.make_value(3)}},
            {"parametersFrom": [{rand.choice(("configMapRef", "secretRef")): {"name": rand.choice(NAMES)}}]},
            {"adoptionPolicy": "Adopt"},
            {"deletionPolicy": "Abandon"},
            {"suspended": True},
            {"serviceAccountName": "default"},
            {"rollback": {"onFailure": True}},
            {"rollback": {"toRevision": rand.randrange(4)}},
            {"kubeConfig": {"secretRef": {"name": rand.choice(NAMES)}}},
        )
        return {"template": template, **{key: value for each in rand.sample(options, 2) for key, value in each.items()}}

    def make_stack(self) -> Object:
        """A Stack."""
        return {**make_stack(self.namespace, self.rand.choice(NAMES), {}), "spec": self.make_spec()}

    def make_site(self) -> Object:
        """An instance."""
        option = self.rand.choice(
            ({}, {"stack": {"paused": True}}, {"stack": {"definitionRevision": self.rand.randrange(9)}})
        )
        return make_site(self.namespace, self.rand.choice(NAMES), title=self.make_text(), **option)

    def make_mark(self) -> Object:
        """A HealthMark or a StackSnapshot."""
        kind, spec = self.rand.choice(
            (
                (
                    "HealthMark",
                    {"stackName": self.rand.choice(NAMES), "resource": "a", "reason": self.make_text()[:900]},
                ),
                ("StackSnapshot", {"stackName": self.rand.choice(NAMES)}),
            )
        )
        metadata = {"name": self.rand.choice(NAMES), "namespace": self.namespace}
        return {"apiVersion": "hearth.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def act_once(writer: Writer, account: Api) -> Answer:
    """Write, change, annotate or delete one object."""
    rand, namespace = writer.rand, writer.namespace
    kind = rand.choice(("Stack", "Stack", "Stack", "Site", "ConfigMap", "Secret", "HealthMark"))
    name = rand.choice(NAMES)
    match rand.randrange(10):
        case 0:
            return account.delete(kind, namespace, name)
        case 1 | 2:
            return account.annotate(kind, namespace, name, {rand.choice(ANNOTATIONS): writer.make_text()[:100_000]})
        case 3:
            return account.patch(
                "Stack", namespace, name, {"status": rand.choice(hostile_tenant.STATUSES)}, subresource="status"
            )
        case _:
            make: dict[str, Callable[[], Object]] = {
                "Stack": writer.make_stack,
                "Site": writer.make_site,
                "ConfigMap": lambda: writer.make_map("ConfigMap"),
                "Secret": lambda: writer.make_map("Secret"),
                "HealthMark": writer.make_mark,
            }
            return account.apply(make[kind]())


def plant_witness(threats: ThreatWorld) -> tuple[Tenant, Object]:
    """Create a Stack with a Secret for another tenant; return the state of its objects."""
    tenant = threats.tenant("witness")
    secret = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}}}
    threats.api.create(make_stack(tenant.namespace, "shop", {"a": make_config_map(data={"a": "b"}), "s": secret}))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    return tenant, find_objects(threats, tenant.namespace)


def find_objects(threats: ThreatWorld, namespace: str) -> Object:
    """The versions of the objects of Stacks in a namespace, by kind and name."""
    found = [
        each
        for kind in ("ConfigMap", "Secret")
        for each in threats.api.list(kind, namespace, labelSelector=names.LABEL_RESOURCE)
    ]
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in found}


def attack(threats: ThreatWorld, *, seed: int, seconds: float, pause: float = 0.02) -> None:
    """Let one tenant write for some time. Raises AssertionError if others are affected."""
    threats.operator.restart(*FLAGS)
    template = {
        "parameters": {"title": {"type": "string"}},
        "resources": {"p": make_config_map(data={"t": "${params.title}"})},
    }
    threats.api.create(make_definition(template, options=["serviceAccountName", "kubeConfig"]))
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")
    witness, before = plant_witness(threats)
    tenant = threats.tenant()
    account = tenant.make_account("mallory", STACKS, CONFIG_MAPS, SECRETS, SITES, MARKS)
    writer = Writer(random.Random(seed), tenant.namespace)
    until, count, accepted, canaries = time.monotonic() + seconds, 0, 0, list[float]()
    with threats.operator.listened_to() as silence:
        while time.monotonic() < until:
            for _ in range(40):
                accepted += act_once(writer, account).is_accepted
                count += 1
                time.sleep(pause)
            canaries.append(threats.canary(within=SOON).complete)
    print(
        f"seed {seed}: {count} writes, {accepted} accepted; canary {max(canaries):.2f} s at most; /healthz silent for {silence.longest:.2f} s; "
        f"{threats.operator.memory:.0f} MiB, peak {threats.operator.peak:.0f}"
    )
    assert accepted > count / 3
    served = {tenant.namespace, witness.namespace}
    assert find_objects(threats, witness.namespace) == before
    everywhere = [
        each for kind in ("ConfigMap", "Secret") for each in threats.api.list(kind, labelSelector=names.LABEL_RESOURCE)
    ]
    strange = [each["metadata"] for each in everywhere if each["metadata"]["namespace"] not in served]
    assert [each for each in strange if not each["namespace"].startswith("canary")] == []
    assert threats.operator.peak < MOST
    assert threats.operator.read_metric("hearth_internal_errors_total") == 0, threats.operator.read_log()[-6000:]
    assert threats.operator.get("/healthz").is_ok
    threats.operator.restart()
    threats.canary(within=SOON)


@pytest.fixture
def served(threats: ThreatWorld) -> Any:
    """Serve definitions; remove the definition at the end."""
    yield threats
    definitions.remove(threats)


@pytest.mark.installed("definitions")
def test_a_random_tenant_hurts_only_itself(served: ThreatWorld) -> None:
    attack(served, seed=1, seconds=5.0)


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.installed("definitions")
def test_random_tenants_hurt_only_themselves(served: ThreatWorld) -> None:
    attack(served, seed=soak.seed(), seconds=float(soak.amount(180, full=900)))
