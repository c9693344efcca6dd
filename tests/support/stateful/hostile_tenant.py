"""A hostile tenant in the fake world: it may do anything in its own namespace, and knows the contents of all other
objects.

Every action is one or a few writes that bypass the operator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations, invariants
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.stateful import hostile_specs

NAMESPACE = "hostile"
MANAGER = "kubectl-mallory"
FINALIZER = "hostile.example.com/stays"
STACK, REVISION, CONFIG_MAP = fake_kinds.STACK.kind, fake_kinds.CONTROLLER_REVISION.kind, fake_kinds.CONFIG_MAP.kind
MARK = fake_kinds.HEALTH_MARK.kind
MOST = 4
"""Maximum number of Stacks at a time."""

NINES = "9" * 4301
"""One digit more than Python converts to a number."""
TEXTS = (
    "",
    "{",
    "null",
    "[]",
    "[[1]]",
    "-1",
    "½",
    NINES,
    ",,/,",
    "{}",
    "a/b/c",
    "true",
    '{"theirs":{"spec":1}}',
    "\u202e",
)
"""Values that none of Hearth's annotations have."""
ANNOTATIONS = (
    names.ANNOTATION_IDENTITY,
    names.ANNOTATION_INCARNATION,
    names.ANNOTATION_HASH,
    names.ANNOTATION_REQUIRES,
    names.ANNOTATION_LAST_APPLIED,
    names.ANNOTATION_SUSPENDED,
    names.ANNOTATION_UNHEALTHY,
    names.ANNOTATION_REVISION,
    names.ANNOTATION_KINDS,
)
LABELS = (names.LABEL_STACK_UID, names.LABEL_STACK, names.LABEL_RESOURCE, names.LABEL_BUCKET)


BOMB = '{"resources": {"r": {"manifest": {"apiVersion": "%s", "kind": "Stack", "spec": {"templateRef": %s}}}}}'
ALIASES = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 5))])

STATUSES: tuple[Object, ...] = (
    {"phase": "DeleteComplete"},
    {"phase": "\u202e", "observedGeneration": -1},
    {"target": {"revision": 10**9, "cause": "Spec", "since": "9999-12-31T23:59:59-23:59"}},
    {
        "target": {"revision": 1, "cause": "Rollback", "since": "x"},
        "controllerState": {"protectedRevisions": [10**17], "clearedBreakpoints": ["/", "a/b/c"]},
    },
    {"target": None, "handled": {"retry": "x" * 5000}},
    {"revision": 10**17, "lastCompletedRevision": -1, "problems": [], "conditions": []},
)

FORGED_PHASES = ("DeleteComplete", "\u202e")

Act: TypeAlias = Callable[["Mallory", int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One action; the numbers select from existing objects, so that it fits any world."""

    act: str
    number: int = 0
    other: int = 0


@dataclass(slots=True)
class Mallory:
    server: FakeServer
    uids: set[str] = field(default_factory=set)
    """UIDs of all Stacks that the tenant has had."""
    stored: set[tuple[object, ...]] = field(default_factory=set)
    """The metadata of each revision that the operator stored for these Stacks."""
    is_acting: bool = False
    made: int = 0

    def settle(self) -> None:
        """Create the namespace and the objects that its Stacks refer to."""
        self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, manager=MANAGER)
        reference = '{"name": "bomb", "key": "template"}'
        self.create("v1", "ConfigMap", "bomb", data={"template": BOMB % (hostile_specs.STACK_VERSION, reference)})
        self.create("v1", "ConfigMap", "aliases", data={"template": ALIASES})
        self.server.watchers.append(self._note)

    def _note(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if kind == REVISION and after is not None and is_hostile(after) and not self.is_acting:
            self.stored.add(describe_revision(after))
        if kind == STACK and raw is not None and is_hostile(raw):
            self.uids.add(raw["metadata"]["uid"])

    def do(self, deed: Deed) -> None:
        """Perform one action; writes that the server rejects have no effect."""
        self.is_acting = True
        with contextlib.suppress(errors.ApiStatusError):
            ACTS[deed.act](self, deed.number, deed.other)
        self.is_acting = False

    def find_unnamed(self) -> list[str]:
        """Its Stacks whose forged revisions or forged status were not noticed."""
        wrong = []
        for stack in self.own(STACK):
            if "deletionTimestamp" in stack["metadata"]:
                continue
            uid, status = stack["metadata"]["uid"], expectations.status_of(stack)
            revisions = [raw for raw in self.own(REVISION) if is_of(raw, uid)]
            is_forged = any(describe_revision(raw) not in self.stored for raw in revisions)
            is_named = expectations.find_condition(stack, "RevisionTampered").get("status") == "True"
            if is_forged != is_named:
                wrong.append(
                    f"RevisionTampered of {stack['metadata']['name']} is {is_named}, and should be {is_forged}"
                )
            if (
                status.get("phase") in FORGED_PHASES
                or status.get("observedGeneration") != stack["metadata"]["generation"]
            ):
                wrong.append(f"the forged status of {stack['metadata']['name']} stands: {status.get('phase')}")
        return wrong

    # ------------------------------------------------------------ its objects

    def create(self, version: str, kind: str, name: str, *, metadata: Object | None = None, **fields: Any) -> Object:
        """An object in its namespace."""
        whole = {"name": name, "namespace": NAMESPACE, **(metadata or {})}
        return self.server.create({"apiVersion": version, "kind": kind, "metadata": whole, **fields}, manager=MANAGER)

    def own(self, kind: Kind) -> list[Object]:
        """Its objects of a kind, by name."""
        found = [raw for raw in self.server.list_all(kind) if is_hostile(raw)]
        return sorted(found, key=lambda raw: str(raw["metadata"]["name"]))

    def children(self) -> list[tuple[Kind, Object]]:
        """The objects of its Stacks."""
        found = [(kind, raw) for kind, raw in self.server.everything() if is_hostile(raw)]
        return [(kind, raw) for kind, raw in found if names.LABEL_RESOURCE in invariants.labels_of(raw)]

    def others(self) -> list[Object]:
        """The objects of others' Stacks."""
        found = [raw for _, raw in self.server.everything() if not is_hostile(raw)]
        return [raw for raw in found if names.LABEL_RESOURCE in invariants.labels_of(raw)]

    def patch(self, raw: Object, patch: Object) -> None:
        """Change one of its objects."""
        metadata = raw["metadata"]
        self.server.patch(self.server.find_kind(raw), metadata["namespace"], metadata["name"], patch, manager=MANAGER)

    def pick(self, found: list[Any], number: int) -> Iterator[Any]:
        """One of these, if there is any."""
        yield from found[number % len(found) :][:1] if found else ()

    def next_name(self, prefix: str) -> str:
        """A name that was never used."""
        self.made += 1
        return f"{prefix}-{self.made}"


def describe_revision(raw: Object) -> tuple[object, ...]:
    """All that the signature of a revision covers, and the signature."""
    annotations, metadata = invariants.annotations_of(raw), raw["metadata"]
    covered = (names.ANNOTATION_REVISION, names.ANNOTATION_HASH, names.ANNOTATION_KINDS, names.ANNOTATION_SIGNATURE)
    owners = tuple(each.get("uid") for each in metadata.get("ownerReferences") or ())
    stack = invariants.labels_of(raw).get(names.LABEL_STACK_UID)
    return (metadata["name"], stack, owners, *(annotations.get(key) for key in covered))


def is_of(raw: Object, stack_uid: str) -> bool:
    """Whether a revision has the label of a Stack and any signature.

    A revision without one is from an earlier version.
    """
    is_signed = bool(invariants.annotations_of(raw).get(names.ANNOTATION_SIGNATURE))
    return is_signed and invariants.labels_of(raw).get(names.LABEL_STACK_UID) == stack_uid


def is_hostile(raw: Object) -> bool:
    """Whether an object is in its namespace."""
    return bool(raw["metadata"].get("namespace") == NAMESPACE)


# ------------------------------------------------------------ acts


def write_stack(mallory: Mallory, number: int, other: int) -> None:
    """Write a nonsense Stack, either a new one or over an existing one."""
    spec = list(hostile_specs.SPECS.values())[number % len(hostile_specs.SPECS)]
    stacks = [raw for raw in mallory.own(STACK) if names.LABEL_RESOURCE not in invariants.labels_of(raw)]
    if len(stacks) < MOST:
        mallory.create(hostile_specs.STACK_VERSION, "Stack", mallory.next_name("stack"), spec=spec)
        return
    mallory.server.replace({**stacks[other % len(stacks)], "spec": spec}, manager=MANAGER)


def delete_something(mallory: Mallory, number: int, other: int) -> None:
    """A Stack, a child or a revision."""
    kind = (STACK, STACK, REVISION, CONFIG_MAP)[other % 4]
    for raw in mallory.pick(mallory.own(kind), number):
        mallory.server.delete(kind, NAMESPACE, raw["metadata"]["name"])


def patch_status(mallory: Mallory, number: int, other: int) -> None:
    """Write nonsense into the status of a Stack."""
    for raw in mallory.pick(mallory.own(STACK), number):
        status = STATUSES[other % len(STATUSES)]
        mallory.server.patch_status(STACK, NAMESPACE, raw["metadata"]["name"], status, manager=MANAGER)


def copy_status(mallory: Mallory, number: int, other: int) -> None:
    """Copy the status of another Stack, including signatures, to a Stack."""
    found = [raw["status"] for raw in mallory.server.list_all(STACK) if not is_hostile(raw) and "status" in raw]
    for raw in mallory.pick(mallory.own(STACK), number):
        for status in mallory.pick(found, other):
            mallory.server.patch_status(STACK, NAMESPACE, raw["metadata"]["name"], status, manager=MANAGER)


def tamper_revision(mallory: Mallory, number: int, other: int) -> None:
    """Change the metadata of a stored revision."""
    keys = (names.ANNOTATION_REVISION, names.ANNOTATION_HASH, names.ANNOTATION_KINDS, names.ANNOTATION_SIGNATURE)
    for raw in mallory.pick(mallory.own(REVISION), number):
        key = keys[other % len(keys)]
        text = ("77", "k12345678:" + "a" * 32, "v1/Secret", "k12345678:" + "b" * 32)[(number + other) % 4]
        mallory.patch(raw, {"metadata": {"annotations": {key: text}}})


def annotate_child(mallory: Mallory, number: int, other: int) -> None:
    """Change or remove one of our annotations."""
    for _, raw in mallory.pick(mallory.children(), number):
        key, text = ANNOTATIONS[other % len(ANNOTATIONS)], (*TEXTS, None)[(number + other) % (len(TEXTS) + 1)]
        mallory.patch(raw, {"metadata": {"annotations": {key: text}}})


def label_child(mallory: Mallory, number: int, other: int) -> None:
    """Change or remove one of our labels, or let it name another user's Stack."""
    for _, raw in mallory.pick(mallory.children(), number):
        stolen = [invariants.labels_of(each)[names.LABEL_STACK_UID] for each in mallory.others()]
        texts = (None, "", "x", *sorted(set(stolen)))
        mallory.patch(raw, {"metadata": {"labels": {LABELS[other % len(LABELS)]: texts[number % len(texts)]}}})


def annotate_stack(mallory: Mallory, number: int, other: int) -> None:
    """Set an annotation to a verb or to nonsense."""
    for raw in mallory.pick(mallory.own(STACK), number):
        key = (*ANNOTATIONS, names.REQUEST_RETRY, names.REQUEST_CLEANUP)[other % (len(ANNOTATIONS) + 2)]
        mallory.patch(raw, {"metadata": {"annotations": {key: TEXTS[(number + other) % len(TEXTS)]}}})


def forge_child(mallory: Mallory, number: int, other: int) -> None:
    """Copy another tenant's child with its labels and annotations, with or without a finalizer."""
    for raw in mallory.pick(mallory.others(), number):
        claimed = {names.ANNOTATION_REQUIRES: "a/1,b/1,c/1,d/1"} if other % 5 == 0 else {}
        metadata = {
            "labels": dict(invariants.labels_of(raw)),
            "annotations": {**invariants.annotations_of(raw), **claimed},
            "finalizers": [FINALIZER] if other % 2 else [],
        }
        fields = {key: raw[key] for key in ("spec", "data") if key in raw}
        name = mallory.next_name("forged") if other % 3 else raw["metadata"]["name"]
        mallory.create(raw["apiVersion"], raw["kind"], name, metadata=metadata, **fields)


def forge_revision(mallory: Mallory, number: int, other: int) -> None:
    """Create a revision for another tenant's Stack, or change the content of an own one."""
    owners = [raw for raw in mallory.server.list_all(REVISION) if other % 2 or is_hostile(raw)]
    for raw in mallory.pick(owners, number):
        claimed = ("1", "2", "3", "77", str(2**63 - 1), NINES, "-1", "")[(number + other) % 8]
        annotations = {**invariants.annotations_of(raw), names.ANNOTATION_REVISION: claimed}
        metadata = {
            "labels": dict(invariants.labels_of(raw)),
            "annotations": annotations,
            "ownerReferences": raw["metadata"].get("ownerReferences", []),
        }
        name = mallory.next_name("forged") if other % 3 else raw["metadata"]["name"]
        if is_hostile(raw) and not other % 3:
            mallory.server.delete(REVISION, NAMESPACE, name)
        data = {"template": hostile_specs.SPECS["quiet"]["template"], "parameters": {"stolen": True}}
        mallory.create("apps/v1", "ControllerRevision", name, metadata=metadata, revision=1, data=data)


def mark(mallory: Mallory, number: int, other: int) -> None:
    """A HealthMark on nothing, on itself, or on another's Stack."""
    target = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nothing"}
    places = (("shop", "a"), ("ghost", "x"), ("stack-1", "r/s/t"), ("stack-1", "r0"))
    named: list[Object] = [{"stackName": stack, "resource": resource} for stack, resource in places]
    said = [*named, {"target": target}][number % (len(named) + 1)]
    spec = {**said, "markUnhealthy": other % 2 == 0, "reason": TEXTS[other % len(TEXTS)] or "x"}
    mallory.create(MARK.api_version, MARK.name, mallory.next_name("mark"), spec=spec)


def write_source(mallory: Mallory, number: int, other: int) -> None:
    """Change a source that its Stacks read."""
    name = f"source-{number % 3}"
    data = {"n": ("7", "!!int tagsecret99", "[" * 400, "0x_", "&a [*a]", NINES, "{}")[other % 7]}
    live = mallory.server.find(CONFIG_MAP, NAMESPACE, name)
    if live is None:
        mallory.create("v1", "ConfigMap", name, data=data)
    else:
        mallory.server.replace({**live, "data": data}, manager=MANAGER)


ACTS: Mapping[str, Act] = {
    "write-stack": write_stack,
    "delete": delete_something,
    "patch-status": patch_status,
    "copy-status": copy_status,
    "tamper-revision": tamper_revision,
    "annotate-child": annotate_child,
    "label-child": label_child,
    "annotate-stack": annotate_stack,
    "forge-child": forge_child,
    "forge-revision": forge_revision,
    "mark": mark,
    "write-source": write_source,
}

acts = strategies.builds(
    Deed, act=strategies.sampled_from(tuple(ACTS)), number=strategies.integers(0, 99), other=strategies.integers(0, 7)
)
