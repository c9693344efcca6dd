"""Interprets one condition by its type, status, reason and message, for any kind."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.model import limits, value_class
from hearth.plan.health.general import vocabulary
from hearth.plan.health.general.vocabulary import Meaning

_WRITTEN: Final = vocabulary.load()["conditions"]
DECISIVE: Final[tuple[str, ...]] = tuple(_WRITTEN["decisive"])
FINAL: Final = frozenset(_WRITTEN["final"])
OF_PARTS: Final = frozenset(_WRITTEN["of_parts"].split())
BESIDE: Final = frozenset(_WRITTEN["beside"])
BESIDE_PARTS: Final = frozenset(_WRITTEN["beside_parts"])
DEFINITE: Final = frozenset(_WRITTEN["definite"].split())
MILESTONES: Final = frozenset(_WRITTEN["milestones"].split())
IGNORED: Final = frozenset(_WRITTEN["ignored"].split())
IGNORED_LAST: Final = frozenset(word.lower() for word in IGNORED)
RESTING: Final = frozenset(_WRITTEN["resting"].split())
MOMENTARY: Final = frozenset(_WRITTEN["momentary"].split())
UNDER_WAY: Final = frozenset(_WRITTEN["under_way"])
NOT_DONE: Final = frozenset(_WRITTEN["not_done"])
NOT, RUNNING, PARTICIPLE = "not", "Running", "ed"
ERROR, MINOR = "Error", ("Info", "Warning")
"""Values of the field `severity` of a condition (Cluster API, Knative)."""
FALSE_STATUSES: Final = ("False", "false", False)
WAITS_IN_MESSAGE: Final = tuple(vocabulary.load()["waits_in_message"])
PASSES_IN_MESSAGE: Final = tuple(vocabulary.load()["passes_in_message"])
LOOPS: Final = ("Running", "Successful")
"""Reasons of `Running` that operators made with Ansible use for their own loop."""
UNREACHED: Final = frozenset({"lost", "unreachable", "unknown", "disconnected"})
"""Words of the reason of a condition whose controller or node has lost contact."""


class Shape(enum.Enum):
    """The meaning of a condition's status."""

    POSITIVE = "positive"
    """True: ready. False: waiting, or failed if the reason says so."""
    DEFINITE = "definite"
    """Like positive, but False is a failure unless the reason means waiting."""
    OVER = "over"
    """Like positive, but a failing reason counts even with True."""
    ABNORMAL = "abnormal"
    """True: failed. False has no meaning, unless the reason is positive."""
    MOMENTARY = "momentary"
    """Like ABNORMAL, but True is progressing if the reason means a wait."""
    BUSY = "busy"
    """True: progressing. False: failed or ready if the reason says so."""
    NEGATED = "negated"
    """The reverse of positive."""
    MILESTONE = "milestone"
    """False: waiting. True proves nothing."""
    SCHEDULED = "scheduled"
    """False: waiting for capacity, never failed. True proves nothing."""
    PROGRESSING = "progressing"
    """True: progressing, unless the reason means done. False: failed or ready if the reason says so."""
    RUNNING = "running"
    """True: ready, but progressing for kinds that run to completion. The reason `Running` proves nothing."""
    RESTING = "resting"
    """True: at rest, as requested."""
    IGNORED = "ignored"
    UNREAD = "unread"
    """The type contains no known word."""


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def find_shape(type_: str) -> Shape:
    """Return the shape of a condition: from the last word of its type, otherwise from the others."""
    name = type_.rpartition("/")[2]
    words = vocabulary.split(name)
    if not words:
        return Shape.UNREAD
    last = words[-1]
    if name in IGNORED or last in IGNORED_LAST:
        return Shape.IGNORED
    if words[0] == vocabulary.NO or (last in vocabulary.RESTING_ALONE and len(words) > 1):
        # `NoMatchingNode`, `HeartbeatStopped`
        return Shape.BUSY
    known = WHOLE.get(name.lower()) or LAST.get(last)
    if known is not None:
        return known
    if NOT in words[:-1] and vocabulary.WORDS.find(last) is Meaning.READY:
        return Shape.NEGATED
    if len(words) > 1 and last in vocabulary.DIRECTIONS and vocabulary.WORDS.find(words[-2]) is Meaning.WAITING:
        return Shape.BUSY
    meaning = vocabulary.find_meanings(name)[-1] or vocabulary.read(name)
    if meaning is Meaning.READY:
        return Shape.OVER if last in vocabulary.OVER else Shape.DEFINITE if last in DEFINITE else Shape.POSITIVE
    is_done = meaning is None and last.endswith(PARTICIPLE) and last not in NOT_DONE
    shape = Shape.POSITIVE if is_done else _SHAPES.get(meaning, Shape.UNREAD)
    return Shape.MOMENTARY if shape is Shape.ABNORMAL and last in MOMENTARY else shape


WHOLE: Final = {"progressing": Shape.PROGRESSING, "running": Shape.RUNNING, "health": Shape.POSITIVE}
LAST: Final[Mapping[str, Shape]] = {
    **dict.fromkeys(MILESTONES, Shape.MILESTONE),
    **dict.fromkeys(RESTING, Shape.RESTING),
    "scheduled": Shape.SCHEDULED,
}
_SHAPES: Final[Mapping[Meaning | None, Shape]] = {
    Meaning.FAILED: Shape.ABNORMAL,
    Meaning.WAITING: Shape.BUSY,
    Meaning.RESTING: Shape.RESTING,
}


@value_class.dataclass(frozen=True, slots=True)
class Said:
    """The meaning of one condition."""

    meaning: Meaning | None
    """None if it reports nothing about health."""
    shape: Shape
    type: str
    reason: str
    message: str
    is_false: bool = False
    """Whether its status is False."""
    is_assumed: bool = False
    """Whether it counts as failed only because its shape is definite and it is False, not because of a failing word."""
    is_severe: bool = False
    """Whether it calls itself an error by its severity."""

    @property
    def may_be_retried(self) -> bool:
        """Return whether a retry may fix the failure: a positive condition is False and reports no error."""
        is_by_reason = self.shape in RETRIED and self.meaning is Meaning.FAILED and self.is_false
        return self.is_assumed or (is_by_reason and not self.is_severe)

    @property
    def is_of_parts(self) -> bool:
        """Return whether the condition is false because of other conditions, which have more details."""
        words = vocabulary.split(self.reason[: limits.HEALTH_WORD_CHARACTERS])
        return self.meaning is Meaning.FAILED and not OF_PARTS.isdisjoint(words)


def read(item: Mapping[str, Any], *, is_work: bool) -> Said | None:
    """Return the meaning of a condition, or None if it is not a condition. is_work: whether its kind runs to
    completion.
    """
    type_, status, reason, message = item.get("type"), item.get("status"), item.get("reason"), item.get("message")
    if not isinstance(type_, str):
        return None
    reason = reason if isinstance(reason, str) else ""
    type_ = type_[: limits.HEALTH_WORD_CHARACTERS]
    shape = find_shape(type_)
    if is_work and shape is Shape.POSITIVE and type_.endswith(RUNNING):
        shape = Shape.RUNNING
    is_assumed = False
    match status:
        case "True" | True | "true":
            meaning = read_true(shape, reason, is_work=is_work)
            awaits = passes(message) or only_waits(reason, message)
            meaning = Meaning.WAITING if meaning is Meaning.FAILED and awaits else meaning
        case "False" | "false" | False:
            is_empty = repeats(type_, reason) or only_waits(reason, message)
            meaning = read_false(shape, "" if is_empty else reason, item.get("severity"))
            is_assumed = shape is Shape.DEFINITE and (is_empty or vocabulary.read(reason) is not Meaning.FAILED)
            meaning = Meaning.WAITING if meaning is Meaning.FAILED and passes(message) else meaning
        case "Unknown":
            meaning = read_unknown(shape, reason)
        case str() if status and shape in ASSERTING:
            # The status is a word instead of True or False, for example Degraded: neither ready nor false.
            meaning = Meaning.READY if vocabulary.read(status) is Meaning.READY else Meaning.WAITING
        case str() if status and shape is Shape.UNREAD and (said := vocabulary.read(status)) in WORDS_IN_PLACE:
            # `Established` of `APIServerStatus`: only the word has a meaning.
            meaning = said
        case _:
            meaning = None
    is_false = status in FALSE_STATUSES
    text = message if isinstance(message, str) else ""
    is_severe = item.get("severity") == ERROR
    return Said(meaning, shape, type_, reason, text, is_false, is_assumed and not is_severe, is_severe)


def read_true(shape: Shape, reason: str, *, is_work: bool) -> Meaning | None:
    """Return the meaning of a condition that is True."""
    match shape:
        case Shape.PROGRESSING if reason in UNDER_WAY:
            return Meaning.WAITING
        case Shape.RUNNING if reason in LOOPS:
            return None
        case Shape.RUNNING:
            return Meaning.WAITING if is_work else Meaning.READY
        case Shape.UNREAD:
            # `Deployment`, with the reason `InProgress`.
            return Meaning.WAITING if vocabulary.is_pending(reason) else None
    if shape in TRUE_BY_REASON:
        telling, otherwise = TRUE_BY_REASON[shape]
        return telling if vocabulary.read(reason) is telling else otherwise
    return TRUE.get(shape)


def read_false(shape: Shape, reason: str, severity: Any) -> Meaning | None:
    """Return the meaning of a condition that is False."""
    said = vocabulary.read(reason)
    if severity == ERROR and shape in ASSERTING:
        return Meaning.FAILED
    if severity in MINOR and said is not Meaning.RESTING:
        said = Meaning.WAITING
    telling, otherwise = FALSE.get(shape, (frozenset(), None))
    return said if said in telling else otherwise


def repeats(type_: str, reason: str) -> bool:
    """Return whether the reason of a false condition only negates its type: `Unavailable` for `Available`."""
    return reason[:2] == "Un" and reason[2:].lower() == type_.lower()


def only_waits(reason: str, message: Any) -> bool:
    """Return whether the reason is a generic error and the message describes a wait."""
    return vocabulary.is_plain(reason) and contains(message, WAITS_IN_MESSAGE)


def passes(message: Any) -> bool:
    """Return whether the next reconcile is likely to fix the error in the message."""
    return contains(message, PASSES_IN_MESSAGE)


def waits(error: str) -> bool:
    """Return whether an error message describes a wait, or an error that the next reconcile fixes."""
    return contains(error, (*WAITS_IN_MESSAGE, *PASSES_IN_MESSAGE))


def contains(message: Any, phrases: Sequence[str]) -> bool:
    """Return whether the first part of a message has one of the phrases."""
    if not isinstance(message, str):
        return False
    text = message[: limits.HEALTH_MESSAGE_CHARACTERS].lower()
    return any(phrase in text for phrase in phrases)


def read_unknown(shape: Shape, reason: str) -> Meaning | None:
    """Return the meaning of a condition that is Unknown: it is in progress, unless contact was lost."""
    if shape not in ASSERTING and shape not in (Shape.SCHEDULED, Shape.RUNNING):
        return None
    words = vocabulary.split(reason[: limits.HEALTH_WORD_CHARACTERS])
    return Meaning.WAITING if UNREACHED.isdisjoint(words) else Meaning.UNKNOWN


RETRIED: Final = frozenset({Shape.POSITIVE, Shape.MILESTONE})
"""Shapes of conditions whose failing reason only means a retry while the object is busy."""
ASSERTING: Final = frozenset({Shape.POSITIVE, Shape.OVER, Shape.DEFINITE, Shape.MILESTONE})
WORDS_IN_PLACE: Final = frozenset({Meaning.FAILED, Meaning.WAITING, Meaning.READY})
"""Meanings that count if the status is a word instead of True or False and the type has no known word."""
NOT_READY: Final = (frozenset({Meaning.FAILED, Meaning.RESTING}), Meaning.WAITING)
NOT_BUSY: Final = (frozenset({Meaning.FAILED, Meaning.READY}), None)
FALSE: Final[Mapping[Shape, tuple[frozenset[Meaning], Meaning | None]]] = {
    Shape.POSITIVE: NOT_READY,
    Shape.OVER: NOT_READY,
    Shape.MILESTONE: NOT_READY,
    Shape.DEFINITE: (frozenset({Meaning.WAITING, Meaning.RESTING}), Meaning.FAILED),
    Shape.SCHEDULED: (frozenset(), Meaning.WAITING),
    Shape.NEGATED: (frozenset(), Meaning.READY),
    Shape.PROGRESSING: NOT_BUSY,
    Shape.BUSY: NOT_BUSY,
    Shape.RUNNING: (frozenset({Meaning.FAILED}), None),
    Shape.ABNORMAL: (frozenset({Meaning.READY}), None),
    Shape.MOMENTARY: (frozenset({Meaning.READY}), None),
}
"""Reasons that decide the meaning of False, and its meaning with any other reason."""
TRUE_BY_REASON: Final[Mapping[Shape, tuple[Meaning, Meaning]]] = {
    Shape.NEGATED: (Meaning.FAILED, Meaning.WAITING),
    Shape.OVER: (Meaning.FAILED, Meaning.READY),
    # `Degraded` with the reason `UnavailablePod`: the missing Pods may still be created.
    Shape.MOMENTARY: (Meaning.WAITING, Meaning.FAILED),
    Shape.PROGRESSING: (Meaning.READY, Meaning.WAITING),
}
"""Reasons that decide the meaning of True, and its meaning with any other reason."""
TRUE: Final[Mapping[Shape, Meaning]] = {
    Shape.POSITIVE: Meaning.READY,
    Shape.DEFINITE: Meaning.READY,
    Shape.ABNORMAL: Meaning.FAILED,
    Shape.BUSY: Meaning.WAITING,
    Shape.RESTING: Meaning.RESTING,
}
