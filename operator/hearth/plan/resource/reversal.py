"""How a rollback can undo the change of one object: completely, with a new object, or not at all. Pure.

Judges the object before and after a change by its kind and its field owners, as far as the API server, the built-in
controllers and the operator itself decide. Must not know what other controllers do with an object.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hearth.model import names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION
from hearth.plan.ownership import apply_obstacles, field_ownership, overwritten_fields
from hearth.plan.ownership.apply_obstacles import Owners
from hearth.plan.resource import data_kinds
from hearth.plan.state import run_policy
from hearth.template.blueprint import Replacement
from hearth.template.text import quantity

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
DEFINITION: Final = CUSTOM_RESOURCE_DEFINITION.key
STORAGE: Final = ("spec", "resources", "requests", "storage")
CLAIM_TEMPLATES: Final = "volumeClaimTemplates"
RETENTION: Final = "persistentVolumeClaimRetentionPolicy"
DATA_PARTS: Final[Mapping[str, tuple[str, ...]]] = {"ConfigMap": ("data", "binaryData"), "Secret": ("data",)}
DATA_LOSSES: Final[Mapping[str, str]] = {
    CLAIM: "its data is deleted with it, unless its volume has the reclaim policy Retain",
    "Namespace": "all objects in it are deleted with it",
    DEFINITION: "all objects of its kind are deleted with it",
}
"""Effect of a deletion on data that no rollback restores, by `Kind.key`."""
HISTORY: Final = "its history for kubectl rollout undo"
LOSSES: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment.apps": (HISTORY,),
    "DaemonSet.apps": (HISTORY,),
    "StatefulSet.apps": (HISTORY,),
    "CronJob.batch": ("the history of its Jobs",),
    "Job.batch": ("the logs of its Pods",),
    "Pod": ("its logs",),
    "ServiceAccount": ("tokens that are bound to it",),
    f"{names.STACK}.{names.GROUP}": ("what its objects lose",),
    f"{names.GROUP_KIND}.{names.GROUP}": ("what its members lose",),
}
"""What a new object of the kind does not have, in addition to `find_addresses`, by `Kind.key`."""
CUSTOM_LOSS: Final = "data of that kind, if it holds any"
EXTERNAL: Final = "its external address"
RUN_REASON: Final = "its Pods run, and a rollback does not undo their work"


class UndoGrade(enum.StrEnum):
    """How a change can be undone. A closed set, the best first."""

    REVERSIBLE = "reversible"
    """A rollback restores the same objects with the same fields."""
    RECREATES = "recreates"
    """A rollback makes a new object, or assigns a new address."""
    ONE_WAY = "one-way"
    """A rollback cannot undo it."""


GRADES: Final = tuple(UndoGrade)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """How a rollback undoes one change."""

    grade: UndoGrade
    field: str = ""
    """The field or policy that makes it one-way: `spec.resources.requests.storage`; "" for none."""
    reason: str = ""
    """Why, as one clause, or ""."""
    lost: tuple[str, ...] = ()
    """What the new object of `RECREATES` does not have."""


@value_class.dataclass(frozen=True, slots=True)
class AssignedAddress:
    """An address that the API server or a load balancer chose."""

    type: str
    """`its cluster IP`."""
    value: str


COMPLETE: Final = Undo(grade=UndoGrade.REVERSIBLE)
CLAIMS_STAY: Final = Undo(
    grade=UndoGrade.REVERSIBLE, reason="claims that its controller creates meanwhile stay, unused"
)


def find_worst(grades: Iterable[UndoGrade]) -> UndoGrade:
    """Return the worst grade, or `REVERSIBLE` if there is none."""
    return max(grades, key=GRADES.index, default=UndoGrade.REVERSIBLE)


def grade_creation(kind: str, after: Object, *, kept_by: str = "", is_once: bool = False) -> Undo:
    """Return how a rollback undoes a creation: by a deletion.

    kind: `Kind.key`; kept_by: the field that prevents the deletion, "" for none; is_once: `completion: Once`.
    """
    if is_running(kind, after, is_once=is_once):
        return make_run_undo(kind)
    if kept_by:
        return make_one_way(kept_by, "the object stays after a rollback")
    is_set = kind == data_kinds.STATEFUL_SET and data_kinds.has_claims(after)
    return CLAIMS_STAY if is_set and not deletes_claims(after, "whenDeleted") else COMPLETE


def grade_deletion(kind: str, before: Object, *, is_once: bool = False) -> Undo:
    """Return how a rollback undoes a deletion: by a new object."""
    if kind in DATA_LOSSES:
        return make_one_way("", DATA_LOSSES[kind])
    if kind == VOLUME and object_fields.text(before, "spec", "persistentVolumeReclaimPolicy") != "Retain":
        return make_one_way("spec.persistentVolumeReclaimPolicy", "it is not Retain, so the data is deleted as well")
    is_set = kind == data_kinds.STATEFUL_SET and data_kinds.has_claims(before)
    if is_set and deletes_claims(before, "whenDeleted"):
        return make_one_way(f"spec.{RETENTION}.whenDeleted", "it is Delete, so its claims are deleted with it")
    for part in DATA_PARTS.get(kind, ()):
        if (foreign := next(find_foreign_keys(before, part), "")) != "":
            return make_one_way(foreign, "another program wrote it, and the Stack does not know its value")
    is_rerun = is_running(kind, before, is_once=is_once)
    return Undo(
        grade=UndoGrade.RECREATES,
        reason="the new object runs again unless its work stays finished" if is_rerun else "",
        lost=tuple(find_losses(kind, before)),
    )


def grade_release(*, is_adopted: bool, adopts: bool) -> Undo:
    """Return how a rollback undoes a release: the object has no owner, so the Stack may have to adopt it.

    is_adopted: whether the Stack adopted the object before; adopts: whether a policy lets it adopt this one.
    """
    if is_adopted or adopts:
        return COMPLETE
    reason = "the object stays without an owner, and only a resource with adoptionPolicy: Adopt takes it back"
    return make_one_way("deletionPolicy", reason)


def grade_replacement(
    old: tuple[str, Object], new: tuple[str, Object], replacement: Replacement, *, is_once: bool = False
) -> Undo:
    """Return how a rollback undoes a replacement: by another replacement.

    old, new: `Kind.key` and the object; possibly only the manifest of the new one.
    """
    kind, before = old
    if replacement is Replacement.KEEP_CLAIMS:
        if (grown := find_grown_template(before, new[1])) != "":
            return make_one_way(grown, "claims that have grown never shrink")
        return Undo(grade=UndoGrade.RECREATES, lost=LOSSES[data_kinds.STATEFUL_SET])
    creation = grade_creation(*new, is_once=is_once)
    deletion = grade_deletion(kind, before, is_once=is_once)
    if replacement is Replacement.CREATE_FIRST and kind == data_kinds.STATEFUL_SET and data_kinds.has_claims(before):
        deletion = with_loss(deletion, "the data since then, whose claims stay, unused")
    return creation if creation.grade is UndoGrade.ONE_WAY else deletion


def grade_adoption(before: Object, after: Object) -> Undo:
    """Return how a rollback undoes the adoption of an existing object: it releases the object in its present state."""
    changed = next(
        overwritten_fields.find_changed_fields(overwritten_fields.strip(before), overwritten_fields.strip(after)), ""
    )
    if changed:
        return make_one_way(changed, "a rollback releases the adopted object with its new fields")
    return COMPLETE


def make_one_way(field: str, reason: str) -> Undo:
    """Return the undo of an irreversible change."""
    return Undo(grade=UndoGrade.ONE_WAY, field=field, reason=reason)


def make_run_undo(kind: str, *, field: str = "") -> Undo:
    """Return the undo for an object that runs to completion: its work is irreversible."""
    usual = "spec.template" if kind == run_policy.JOB else "spec" if kind == run_policy.POD else "completion"
    reason = RUN_REASON if kind in (run_policy.JOB, run_policy.POD) else "it runs once, and a rollback does not undo it"
    return make_one_way(field or usual, reason)


def with_loss(undo: Undo, loss: str) -> Undo:
    """Return the undo with another loss, unless it is one-way."""
    if undo.grade is UndoGrade.ONE_WAY:
        return undo
    return Undo(grade=undo.grade, reason=undo.reason, lost=(*undo.lost, loss))


def deletes_claims(raw: Object, event: str) -> bool:
    """Return whether a StatefulSet deletes its claims at that event: `whenDeleted`."""
    return object_fields.text(raw, "spec", RETENTION, event) == "Delete"


def is_running(kind: str, raw: Object, *, is_once: bool) -> bool:
    """Return whether an object runs to completion, and neither waits nor is suspended."""
    if not (is_once or run_policy.is_run(kind, raw)):
        return False
    spec = object_fields.mapping(raw, "spec")
    return spec.get("suspend") is not True and not (kind == run_policy.JOB and spec.get("parallelism") == 0)


def find_losses(kind: str, before: Object) -> Iterator[str]:
    """Yield the properties that a new object of this kind does not have."""
    yield from LOSSES.get(kind, ())
    yield from dict.fromkeys(address.type for address in find_addresses(kind, before))
    group = kind.partition(".")[2]
    if group not in data_kinds.KNOWN_GROUPS and group != names.GROUP:
        yield CUSTOM_LOSS


def find_addresses(kind: str, raw: Object) -> Iterator[AssignedAddress]:
    """Yield the addresses that were assigned to an object, and that its definition does not set."""
    if kind == "Service":
        owners = overwritten_fields.find_owners(raw).at("f:spec")
        address = object_fields.text(raw, "spec", "clusterIP")
        if address not in ("", "None") and owners.at("f:clusterIP").ours is None:
            yield AssignedAddress("its cluster IP", address)
        yield from find_node_ports(raw, owners)
    balanced = object_fields.entries(raw, "status", "loadBalancer", "ingress")
    for each in (*balanced, *object_fields.entries(raw, "status", "addresses")):
        address = next((each[key] for key in ("ip", "hostname", "value") if isinstance(each.get(key), str)), "")
        if address:
            yield AssignedAddress(EXTERNAL, address)


def find_node_ports(raw: Object, spec_owners: Owners) -> Iterator[AssignedAddress]:
    """Yield the node ports that were assigned to a Service."""
    owners = spec_owners.at("f:ports")
    for port in object_fields.entries(raw, "spec", "ports"):
        element = next((each for each in owners.list_items() if apply_obstacles.is_named(port, each)), "")
        if port.get("nodePort") and owners.at(element).at("f:nodePort").ours is None:
            yield AssignedAddress("its node port", str(port["nodePort"]))
    health = object_fields.number(raw, "spec", "healthCheckNodePort")
    if health and spec_owners.at("f:healthCheckNodePort").ours is None:
        yield AssignedAddress("its node port for health checks", str(health))


def find_foreign_keys(raw: Object, part: str) -> Iterator[str]:
    """Yield the keys of a ConfigMap or Secret that only other managers own."""
    owners = overwritten_fields.find_owners(raw).at(f"f:{part}")
    for key in object_fields.mapping(raw, part):
        below = owners.at(f"f:{key}")
        if below.ours is None and below.others:
            yield field_ownership.join(part, key)


def find_grown_template(before: Object, after: Object) -> str:
    """Return the first claim template whose size grows, as a path; "" for none."""
    sizes = {
        object_fields.text(each, "metadata", "name"): object_fields.find(each, *STORAGE)
        for each in object_fields.entries(before, "spec", CLAIM_TEMPLATES)
    }
    for each in object_fields.entries(after, "spec", CLAIM_TEMPLATES):
        name = object_fields.text(each, "metadata", "name")
        if is_larger(object_fields.find(each, *STORAGE), sizes.get(name)):
            return f"spec.{CLAIM_TEMPLATES}[{name}].{'.'.join(STORAGE)}"
    return ""


def is_larger(new: Any, old: Any) -> bool:
    """Return whether one quantity is larger than another. True if they differ and one is known only at run time."""
    if old is None or new == old:
        return False
    try:
        return quantity.compare(str(new), str(old)) > 0
    except ValueError:
        return True
