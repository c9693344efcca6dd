"""The conditions of a Stack other than the kstatus conditions, in one table.

To add a type, add a row: its Event, its word in lists, its command in `kubectl stack why` and its documentation. The
module also defines the reasons why another cluster cannot be used.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from hearth.model import value_class
from hearth.model.phases import ConditionType
from hearth.plan.target import approved_steps

WHY_CHECK: Final = "kubectl stack check {name} -n {namespace} --wait"
WHY_HISTORY: Final = "kubectl stack history {name} -n {namespace}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExtraCondition:
    """Extra condition that is true."""

    type: ConditionType
    reason: str
    """One CamelCase word."""
    message: str


class ClusterReason(enum.StrEnum):
    """Reasons why another cluster cannot be used. All but the first need a user or a change of that cluster."""

    UNREACHABLE = "ClusterUnreachable"
    """It does not answer. The Stack continues automatically when it does."""
    UNAUTHORIZED = "ClusterUnauthorized"
    """It does not accept the credentials."""
    REPLACED = "ClusterReplaced"
    """Another cluster answers at the address of the one that has the objects. Only the reason of an Event."""
    ABANDONED = "ClusterAbandoned"
    """The credentials were deleted with the namespace, so the objects are left behind. Only the reason of an Event."""
    CHANGED = "ClusterChanged"
    """The spec refers to a different cluster than the one that has the objects."""
    INVALID = "KubeConfigInvalid"
    NOT_FOUND = "SourceNotFound"
    FORBIDDEN = "SourceForbidden"
    TOO_MANY = "TooManyClusters"
    TOO_LARGE = "ClusterTooLarge"
    """Its server sends more objects than are cached."""


class Severity(enum.StrEnum):
    """The type of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ConditionTraits:
    """The meaning of a type for users."""

    meaning: str
    """When it is True, for the documentation."""
    event: Severity | None = None
    """Severity of the Event when it becomes True. None: another part of the status has one."""
    word: str = ""
    """Word in lists of Stacks. Empty if the phase or another word shows it."""
    is_cause: bool = False
    """Whether it needs a person, so that `kubectl stack why` shows it even for a Stack that is ready."""
    command: str = ""
    """Command that `kubectl stack why` suggests for details, with {name} and {namespace}."""


TOO_MANY_REMOVED: Final = "TooManyRemoved"
"""The reason of a Stack that waits for consent, because a change removes too many resources."""
STOPS: Final = (str(ConditionType.STOPPED), TOO_MANY_REMOVED, approved_steps.REASON)
"""The reasons of `Ready` for a Stack that waits for a person."""
TABLE: Final[Mapping[ConditionType, ConditionTraits]] = {
    ConditionType.PAUSED: ConditionTraits(
        meaning="`spec.paused` is true; the message lists the pending steps", event=Severity.NORMAL
    ),
    ConditionType.CHANGE_HELD: ConditionTraits(
        meaning="the newest definition waits for [`spec.window`](window.md) or for an [approval](plans.md), and the "
        "previous revision keeps running",
        event=Severity.NORMAL,
        word="change held",
        is_cause=True,
    ),
    ConditionType.EXPIRING: ConditionTraits(
        meaning="the Stack [expires](lifetime.md#delete-a-stack-after-a-time) soon",
        event=Severity.WARNING,
        word="expiring",
        is_cause=True,
    ),
    ConditionType.STOPPED: ConditionTraits(
        meaning="a [breakpoint](breakpoints.md) or [`spec.maxRemoved`](lifetime.md#limit-removals) stops an action",
        word="stopped",
    ),
    ConditionType.ROLLING_BACK: ConditionTraits(
        meaning="a [rollback](rollback.md) is not complete", event=Severity.NORMAL
    ),
    ConditionType.DRIFTED: ConditionTraits(
        meaning="fields differ from the definition and are not repaired; see [drift](drift.md)",
        event=Severity.WARNING,
        word="drifted",
        is_cause=True,
        command=WHY_CHECK,
    ),
    ConditionType.DRIFT_CONFLICT: ConditionTraits(
        meaning="another manager changes the same fields repeatedly; see [drift](drift.md)",
        event=Severity.WARNING,
        word="drift conflict",
        is_cause=True,
        command=WHY_CHECK,
    ),
    ConditionType.WRITES_DELAYED: ConditionTraits(
        meaning="writes are [undone repeatedly](retries.md#writes-that-are-undone-repeatedly)",
        event=Severity.WARNING,
        word="writes delayed",
        is_cause=True,
    ),
    ConditionType.UNHEALTHY: ConditionTraits(
        meaning="an object is marked and cannot be replaced now; see [health marks](health-marks.md)",
        event=Severity.WARNING,
        word="unhealthy",
        is_cause=True,
    ),
    ConditionType.DELETION_BLOCKED: ConditionTraits(
        meaning="a deletion waits for something outside the operator, which the message names",
        word="deletion blocked",
    ),
    ConditionType.CHECK_PENDING: ConditionTraits(
        meaning="a requested [check](check.md) cannot run", word="check pending", is_cause=True
    ),
    ConditionType.CLUSTER_UNREACHABLE: ConditionTraits(
        meaning="the [other cluster](clusters.md) of the Stack cannot be used",
        event=Severity.WARNING,
        word="cluster unreachable",
    ),
    ConditionType.REVISION_TAMPERED: ConditionTraits(
        meaning="another writer changed a stored revision; see [below](#signed-records)",
        word="tampered",
        is_cause=True,
        command=WHY_HISTORY,
    ),
    ConditionType.INTERNAL_ERROR: ConditionTraits(
        meaning="the operator has a bug that affects this Stack; it retries, and its log has the location",
        event=Severity.WARNING,
        word="internal error",
        is_cause=True,
    ),
    ConditionType.SUSPEND_RECORD_INVALID: ConditionTraits(
        meaning="a child has an annotation `hearth.dev/suspended` that the operator did not write",
        event=Severity.WARNING,
        word="suspend record invalid",
        is_cause=True,
    ),
}
"""Each type, with its traits."""


# Words that a list shows for a Stack in addition to its phase: `paused, drifted`. `kubectl get` shows them in
# one column, because a column of a CRD can show one field only.

REJECTED: Final = "definition rejected"
NOT_APPLIED: Final = "definition not applied"
"""The definition itself may be valid: a source, a permission, a revision or a cluster is missing."""
MISTAKEN: Final = frozenset({"InvalidTemplate", "SpecUnreadable"})
"""Reasons of a rejection for errors in the definition itself."""


def describe_rejection(reason: str) -> str:
    """Return the word for a definition that is not applied for that reason; "" without one."""
    if not reason:
        return ""
    return REJECTED if reason in MISTAKEN else NOT_APPLIED


def is_unapplied(words: str) -> bool:
    """Return whether the definition in the spec is not applied. words: `status.state`."""
    return not {REJECTED, NOT_APPLIED}.isdisjoint(words.split(", "))


def find_state_words(
    conditions: Collection[str], *, is_paused: bool, is_suspended: bool, is_rolled_back: bool, rejection: str
) -> Iterator[str]:
    """Yield the words.

    conditions: the types of the True conditions; is_rolled_back: whether the target differs from the definition in the
    spec; rejection: the word for a definition in the spec that is not applied, "" if it is applied.
    """
    if rejection:
        yield rejection
    if is_paused:
        yield "paused"
    if is_suspended:
        yield "suspended"
    if is_rolled_back:
        yield "rolled back"
    for type_, traits in TABLE.items():
        if traits.word and type_ in conditions:
            yield traits.word
