"""Collects findings from all parts of a status and derives the health of the object from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hearth.model import limits
from hearth.plan.health.general import condition_types, vocabulary
from hearth.plan.health.general.condition_types import Said, Shape
from hearth.plan.health.general.status_fields import (
    CONDITIONS,
    COUNTED,
    ITEM_ERRORS,
    MAIN,
    NO_ERRORS,
    STATUS,
    WORDS,
    Role,
    find_role,
    find_wanted_names,
)
from hearth.plan.health.general.vocabulary import Meaning
from hearth.plan.health.health_result import Fields, HealthResult, HealthState, is_outdated

STATES: Final[Mapping[Meaning, HealthState]] = {
    Meaning.FAILED: HealthState.FAILED,
    Meaning.RESTING: HealthState.READY,
    Meaning.UNKNOWN: HealthState.UNKNOWN,
    Meaning.WAITING: HealthState.PROGRESSING,
    Meaning.READY: HealthState.READY,
}
"""In order of precedence: the first meaning with a finding decides."""
ITEM_MEANINGS: Final[Mapping[Meaning, Meaning]] = {Meaning.RESTING: Meaning.READY, Meaning.UNKNOWN: Meaning.WAITING}
"""Weaker meanings for findings about a part: a resting or unreachable part does not make the whole object so."""
SUSPENDED: Final = "Suspended"
DIGITS: Final = 9
"""Digits of a count in a text."""
IN_PROGRESS: Final = frozenset({Shape.BUSY, Shape.PROGRESSING})
PARTS: Final = frozenset(
    {Shape.POSITIVE, Shape.OVER, Shape.DEFINITE, Shape.MILESTONE, Shape.SCHEDULED, Shape.RUNNING, Shape.NEGATED}
)
"""Shapes of conditions that a decisive condition summarizes."""
TEXT_KEYS: Final = ("message", "description", "reason")
"""Fields of an error that is a map."""
EMPTY: Final[tuple[Any, ...]] = (None, "", 0, [], {})


def find_error(value: Any) -> str | None:
    """Return the finding of a field of errors, or None if it reports no error. Of a list, the first entry counts."""
    if isinstance(value, list):
        value = next((item for item in value if item), None)
    if isinstance(value, Mapping):
        texts = (value.get(key) for key in TEXT_KEYS)
        # A map of empty fields means that no error occurred.
        named = next((key for key, each in value.items() if each not in EMPTY), None)
        value = next((text for text in texts if isinstance(text, str) and text), named)
    if not isinstance(value, str) or not value.strip() or value.strip().lower() in NO_ERRORS:
        return None
    return value


class Findings:
    """Findings about one object, by meaning. The first finding of each meaning counts."""

    __slots__ = ("_assumed", "_doubted", "_found", "has_succeeded", "is_work", "missing_evidence")

    def __init__(self, *, is_work: bool) -> None:
        """is_work: whether the object runs to completion."""
        self._found: dict[Meaning, tuple[str, str]] = {}
        self._doubted: tuple[str, str] | None = None
        """A failure that counts only as progress if another signal is positive."""
        self._assumed: tuple[str, str] | None = None
        """A failure without a failing word. It counts as progress while anything is waiting."""
        self.is_work = is_work
        self.has_succeeded = False
        """Whether the object is work, and its main word means success."""
        self.missing_evidence = ""
        """The name of the first signal whose meaning is unknown, or ""."""

    def __bool__(self) -> bool:
        return bool(self._found) or self._doubted is not None or self._assumed is not None

    def add(self, meaning: Meaning, reason: str, message: str = "") -> None:
        """Add a finding with the object's own reason and message."""
        self._found.setdefault(meaning, (reason, message))

    def add_doubted(self, reason: str, message: str) -> None:
        """Add an uncertain failure. It counts only as progress if another signal is positive."""
        self._doubted = self._doubted or (reason, message)

    def add_part_failed(self, reason: str, message: str) -> None:
        """Add the failing word of a part. A plain error of a part counts as progress, because the part may recover."""
        if reason.lower() in vocabulary.PLAIN_ERRORS:
            self.add(Meaning.WAITING, reason, message)
        else:
            self.add_doubted(reason, message)

    def add_missing_evidence(self, name: str) -> None:
        """Record the name of a signal whose meaning is unknown."""
        self.missing_evidence = self.missing_evidence or name

    def add_text(self, name: str, text: str) -> None:
        """Add the main word of the object, or of an item. A text outside the vocabulary means waiting."""
        meaning = vocabulary.read(text)
        if meaning is Meaning.UNREAD:
            self.add_missing_evidence(name)
            return
        if meaning is Meaning.READY and vocabulary.is_at_work(text, of_work=self.is_work):
            meaning = Meaning.WAITING
        self.add(meaning or Meaning.WAITING, vocabulary.make_reason(text), f"its {name} is {text}")

    def add_condition(self, said: Said) -> None:
        """Add the finding of a condition, if it has one."""
        if said.meaning is None or said.meaning is Meaning.UNREAD:
            self.add_missing_evidence(f"condition {said.type}")
            return
        reason = vocabulary.make_reason(said.reason or name_negative(said))
        if said.is_assumed and said.meaning is Meaning.FAILED:
            self._assumed = self._assumed or (reason, said.message)
        else:
            self.add(said.meaning, reason, said.message)

    def add_conditions(self, conditions: list[Said]) -> Said | None:
        """Add the findings of the conditions, and return the decisive condition, if there is one."""
        decisive = find_decisive(conditions)
        of_parts = decisive is not None and decisive.is_of_parts
        runs = self.is_work and decisive is not None and decisive.type in condition_types.DECISIVE
        if any(said.may_be_retried for said in conditions) and any(map(is_in_progress, conditions)):
            # While work is in progress, it is retried, so it has failed only if a condition reports an error.
            conditions = [
                replace(said, meaning=Meaning.WAITING) if said.may_be_retried else said for said in conditions
            ]
            decisive = find_decisive(conditions)
        if decisive is not None and of_parts:
            self.add(Meaning.WAITING, vocabulary.make_reason(decisive.reason), decisive.message)
        elif decisive is not None:
            self.add_condition(decisive)
        # The conditions of the steps may stay True after the work is complete.
        is_over = self.is_work and decisive is not None and decisive.type in condition_types.FINAL
        for said in conditions:
            if said is decisive or (is_over and is_in_progress(said)):
                continue
            has_failed = said.type in condition_types.FINAL and said.meaning is Meaning.FAILED
            counts_beside = has_failed or (said.type in condition_types.BESIDE and said.meaning is not Meaning.READY)
            # Work is Ready as soon as it is accepted, and may stay Running after it is Complete.
            counts_beside = counts_beside or (runs and said.shape is Shape.RUNNING)
            if decisive is None and said.shape is Shape.UNREAD and tells_by_reason(said):
                self.add(Meaning.WAITING, vocabulary.make_reason(said.reason), said.message)
            elif decisive is None or of_parts or said.shape not in PARTS or counts_beside:
                self.add_condition(said)
            elif said.is_false and said.meaning is not Meaning.READY and is_of_beside_parts(said.type):
                self.add_condition(replace(said, meaning=Meaning.WAITING))
        if not self and not self.is_work and is_settled(conditions):
            self.add(Meaning.READY, "Reconciled", "none of its conditions says that it is in progress or has failed")
        return decisive

    def add_item(self, name: str, item: Mapping[str, Any], fields: Fields) -> bool:
        """Add the findings of an item within the status. Return whether there are any. fields: of the object."""
        inner = Findings(is_work=self.is_work)
        status = item.get(STATUS)
        if isinstance(status, Mapping):
            # The item has the form of a whole object.
            item = {**item, STATUS: None, **status}
        conditions = item.get(CONDITIONS)
        if not isinstance(conditions, list):
            conditions = [item] if isinstance(item.get("type"), str) else []
        said = [inner.read_condition(each) for each in conditions if not is_outdated(each, fields)]
        inner.add_conditions([each for each in said if each is not None])
        if conditions and not said:
            inner.add(Meaning.WAITING, "NotObserved", f"the conditions of {name} describe an older generation")
        by_texts = not inner
        if by_texts:
            inner.add_item_texts(name, item)
            inner.add_item_sides(name, item)
        inner.add_item_errors(name, item)
        if item.get("ready") is False:
            inner.add(Meaning.WAITING, "NotReady", f"{name}.ready is false")
        inner.add_counts(name, item)
        inner.settle()
        for meaning in STATES:
            if meaning is Meaning.FAILED and by_texts and meaning in inner._found:
                self.add_part_failed(*inner._found[meaning])
                return True
            if meaning in inner._found:
                self.add(ITEM_MEANINGS.get(meaning, meaning), *inner._found[meaning])
                return True
        self.missing_evidence = self.missing_evidence or inner.missing_evidence
        return False

    def add_item_texts(self, name: str, item: Mapping[str, Any]) -> None:
        """Add the main words of an item."""
        for key in (*MAIN, *WORDS):
            text = item.get(key)
            if isinstance(text, str) and text and vocabulary.read(text) is not None:
                self.add_text(f"{name}.{key}", text)
            elif isinstance(text, str) and text and key in MAIN:
                self.add_missing_evidence(f"{name}.{key}")

    def add_item_sides(self, name: str, item: Mapping[str, Any]) -> None:
        """Add the words of an item's parts that mean progress or failure."""
        for key in sorted(item)[: limits.HEALTH_PARTS]:
            text = item[key]
            if not isinstance(text, str) or find_role(key) is not Role.SIDE:
                continue
            if (meaning := vocabulary.read(text)) is Meaning.WAITING or meaning is Meaning.FAILED:
                self.add(Meaning.WAITING, vocabulary.make_reason(text), f"its {name}.{key} is {text}")

    def add_item_errors(self, name: str, item: Mapping[str, Any]) -> None:
        """Add the errors of an item, which do not fail the object."""
        for key in ITEM_ERRORS:
            error = find_error(item[key]) if key in item else None
            if error is not None:
                self.add(Meaning.WAITING, vocabulary.make_reason(key), f"{name}: {error}")

    def add_counts(self, name: str, item: Mapping[str, Any]) -> None:
        """Compare each count of an item with the number that the item wants."""
        for key, present in item.items():
            if type(present) is int and present > 0 and find_role(key) is Role.AMISS:
                self.add(Meaning.WAITING, "NotReady", f"{name}.{key} is {present}")
            ratio = read_ratio(present) if isinstance(present, str) and key.startswith(COUNTED) else None
            if ratio is not None:
                self.compare(f"{name}.{key}", *ratio)
            for wanted_key in find_wanted_names(key) if type(present) is int else ():
                wanted = item.get(wanted_key)
                if type(wanted) is int:
                    self.compare(f"{name}.{key}", present, wanted)

    def compare(self, name: str, present: int, wanted: int) -> None:
        """Compare a count with the desired count, and add the finding."""
        if present < wanted:
            self.add(Meaning.WAITING, "NotReady", f"{name} is {present} of {wanted}")
        else:
            self.add(Meaning.READY, "Ready")

    def read_condition(self, item: Any) -> Said | None:
        """Return the finding of an entry in a list of conditions, or None if it is not a condition."""
        return condition_types.read(item, is_work=self.is_work) if isinstance(item, Mapping) else None

    def settle(self) -> None:
        """Resolve uncertain failures by means of the other findings."""
        if self._assumed is not None:
            self.add(Meaning.WAITING if Meaning.WAITING in self._found else Meaning.FAILED, *self._assumed)
        if self._doubted is not None and not (self.is_work and self.has_succeeded):
            is_well = Meaning.READY in self._found and not self.is_work
            self.add(Meaning.WAITING if is_well else Meaning.FAILED, *self._doubted)

    def conclude(self) -> HealthResult | None:
        """Return the result, or None if there are no findings."""
        self.settle()
        for meaning, state in STATES.items():
            found = self._found.get(meaning)
            if found is not None:
                reason = SUSPENDED if meaning is Meaning.RESTING else found[0] or state.value.capitalize()
                return HealthResult(state=state, reason=reason, message=found[1])
        return None


def find_decisive(conditions: list[Said]) -> Said | None:
    """Return the condition that summarizes the other positive ones."""
    by_type = {said.type: said for said in conditions}
    for name in condition_types.DECISIVE:
        # A condition that is False because the work has ended does not decide. The condition with the outcome does.
        if name in by_type and not (by_type[name].is_false and vocabulary.is_over(by_type[name].reason)):
            return by_type[name]
    for name, said in by_type.items():
        if name in condition_types.FINAL and said.meaning is Meaning.READY:
            return said
    return None


def tells_by_reason(said: Said) -> bool:
    """Return whether a condition of an unknown type has a reason that means progress or failure."""
    meaning = vocabulary.read(said.reason) if said.meaning is None else None
    return meaning is Meaning.FAILED or (meaning is Meaning.WAITING and said.is_false)


def read_ratio(text: str) -> tuple[int, int] | None:
    """Return the numbers of a text like `1/2`, or None."""
    present, slash, wanted = text.partition("/")
    is_ratio = bool(slash) and present.isdecimal() and wanted.isdecimal()
    return (int(present[:DIGITS]), int(wanted[:DIGITS])) if is_ratio else None


def is_in_progress(said: Said) -> bool:
    """Return whether a condition means that the object is busy."""
    return said.shape in IN_PROGRESS and said.meaning is Meaning.WAITING


def is_of_beside_parts(type_: str) -> bool:
    """Return whether a False condition counts in addition to the decisive one, judging by the last word of its type."""
    return not condition_types.BESIDE_PARTS.isdisjoint(vocabulary.split(type_)[-1:])


def is_settled(conditions: list[Said]) -> bool:
    """Return whether all conditions are about problems or progress, and all are False."""
    shapes = {said.shape for said in conditions}
    shapes = {Shape.ABNORMAL if shape is Shape.MOMENTARY else shape for shape in shapes}
    is_known = Shape.ABNORMAL in shapes and shapes <= {Shape.ABNORMAL, *IN_PROGRESS} and len(shapes) > 1
    return is_known and all(said.is_false for said in conditions)


def name_negative(said: Said) -> str:
    """Return a reason for a condition that does not give one."""
    is_positive = said.meaning is Meaning.READY or said.shape not in PARTS
    return (
        said.type
        if is_positive
        else f"Not{said.type}"
        if said.meaning is not Meaning.UNKNOWN
        else f"{said.type}Unknown"
    )
