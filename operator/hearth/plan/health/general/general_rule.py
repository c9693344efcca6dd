"""Health of kinds without a rule of their own, from the conditions, words, flags, counts and errors in the status.

It treats all kinds alike. A failure is never terminal, because the controller may still recover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.model import limits
from hearth.plan.health.general import condition_types, vocabulary
from hearth.plan.health.general.condition_types import DECISIVE
from hearth.plan.health.general.findings import SUSPENDED, Findings, find_error, read_ratio
from hearth.plan.health.general.status_fields import (
    BEGINS,
    CONDITIONS,
    COUNTS,
    ENDS,
    FLAGS_PROVING_NOTHING,
    MAIN,
    REPORTING,
    STATUS,
    SUSPEND,
    UNKNOWN,
    Role,
    StatusShape,
    find_role,
    find_wanted_names,
    is_word,
)
from hearth.plan.health.general.vocabulary import Meaning
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    HealthRuleEntry,
    HealthState,
    assess_observed,
    is_outdated,
    progressing,
    read_text,
    ready,
)

NOT_OBSERVED: Final = "NotObserved"
EXISTS: Final = "Exists"
"""The reason of an object without any other information."""
READY_WORD, TYPE = "Ready", "type"
TRUTHS: Final[Mapping[str, bool]] = {"True": True, "true": True, "False": False, "false": False}
TRUE: Final[Mapping[Role, Meaning]] = {Role.BUSY: Meaning.WAITING, Role.RESTING: Meaning.RESTING}
"""The meaning of true booleans without a known name."""
REASON = "reason"
NOTE_WORDS = 3
"""Maximum words of a note that names a state. Longer texts are sentences."""


class FieldReader:
    """Reader of the fields of one status."""

    def __init__(self, findings: Findings, fields: Fields, *, omitted_zeros: Sequence[str] = ()) -> None:
        """findings: receives the results. fields: of the whole object. omitted_zeros: counts that are left out when
        zero.
        """
        self._omitted_zeros = omitted_zeros
        self._findings = findings
        self._fields = fields
        self._parts_left = limits.HEALTH_PARTS
        self._reason: Any = None

    def read(self, status: Mapping[str, Any]) -> None:
        """Read all fields except the conditions."""
        sides: list[tuple[str, str | bool]] = []
        weak: list[str] = []
        speaks_as_whole = bool(self._findings)
        self._reason = status.get(REASON)
        # Sorted, because the cache stores fields in any order and the first finding determines the reason.
        names = sorted(status)[: limits.HEALTH_PARTS]
        for name in names:
            value, role = status[name], find_role(name)
            if role is Role.ERROR:
                self.read_error(name, value)
            elif role is not Role.UNREAD:
                speaks_as_whole = speaks_as_whole or (role is Role.MAIN and isinstance(value, str))
                if value is True and name in FLAGS_PROVING_NOTHING:
                    weak.append(name)
                elif role is Role.SIDE and isinstance(value, str | bool):
                    sides.append((name, value))
                else:
                    self.read_field(role, name, value)
        if not speaks_as_whole:
            self.read_omitted(status)
            for name, side in sides:
                self.read_side(name, side)
            if not self._findings:
                self.read_parts(names, status)
        if weak and not self._findings:
            self._findings.add(Meaning.READY, vocabulary.make_reason(weak[0]))

    def read_omitted(self, status: Mapping[str, Any]) -> None:
        """Compare the counts that are absent because they are zero, if any other count is present."""
        if self._omitted_zeros and not COUNTS.keys().isdisjoint(status):
            for name in self._omitted_zeros:
                if name not in status:
                    self.read_count(Role.OTHER, name, 0)

    def read_failures(self, status: Mapping[str, Any]) -> None:
        """Read signals that count even if `Ready` is true: errors, and a main word that means progress or failure."""
        for name in sorted(status)[: limits.HEALTH_PARTS]:
            value, role = status[name], find_role(name)
            if role is Role.ERROR:
                self.read_error(name, value)
            elif role is Role.MAIN and isinstance(value, str) and vocabulary.is_busy(value):
                # `ScalingDown` together with Ready=True.
                self._findings.add(Meaning.WAITING, vocabulary.make_reason(value), f"its {name} is {value}")
            elif role is Role.MAIN and isinstance(value, str) and vocabulary.read(value) is Meaning.FAILED:
                # `Critical` together with Ready=True: it serves requests, but some of its parts do not.
                self._findings.add(Meaning.WAITING, vocabulary.make_reason(value), f"its {name} is {value}")

    def read_parts(self, names: Sequence[str], status: Mapping[str, Any]) -> None:
        """Read the words and flags within the maps of a status that has no other signal, and its short notes.

        names: the fields to read.
        """
        for name in names:
            value, role = status[name], find_role(name)
            if isinstance(value, dict) and role is not Role.UNREAD:
                for key in self._take_parts(sorted(value)):
                    # In `nodeStatus` the keys are the names of the parts.
                    is_text = role is Role.SIDE and isinstance(value[key], str)
                    self.read_part(f"{name}.{key}", role if is_text else find_role(key), value[key])
            elif role is Role.NOTE and isinstance(value, str) and len(value.split()) <= NOTE_WORDS:
                self.read_part(name, Role.SIDE, value)

    def read_part(self, name: str, role: Role, value: Any) -> None:
        """Read a field within a map of the status, or a short note."""
        if role is Role.SIDE and isinstance(value, str) and vocabulary.read(value) is not None:
            self.read_side(name, value)
        elif role in (Role.SIDE, Role.FLAG) and isinstance(value, bool):
            self.read_flag(name, value)

    def read_field(self, role: Role, name: str, value: Any) -> None:
        """Read a field about the whole object, or about its items."""
        if role is Role.AMISS and (error := find_error(value)):
            self._findings.add(Meaning.WAITING, vocabulary.make_reason(name), error)
        elif isinstance(value, list | dict):
            self.read_items(name, value)
        elif role is Role.MAIN:
            self.read_main(name, value)
        elif type(value) is int:
            self.read_count(role, name, value)
        elif role is Role.FLAG:
            self.read_flag(name, value)
        elif value is True and role in TRUE:
            self._findings.add(TRUE[role], vocabulary.make_reason(name), f"its {name} is true")
        elif role is Role.WORD and isinstance(value, str) and vocabulary.read(value) is not None:
            self._findings.add_text(name, value)

    def read_error(self, name: str, value: Any) -> None:
        """Read a field that is empty unless there is an error."""
        error = find_error(value)
        if error is not None and condition_types.waits(error):
            self._findings.add(Meaning.WAITING, vocabulary.make_reason(name), error)
        elif error is not None:
            self._findings.add_doubted(vocabulary.make_reason(name), error)
        elif value is True:
            self._findings.add(Meaning.FAILED, vocabulary.make_reason(name), f"its {name} is true")

    def read_main(self, name: str, value: Any) -> None:
        """Read the main word. Only the controller knows the meaning of a number."""
        if isinstance(value, str):
            if value in TRUTHS:
                self.read_flag(name, value)
            elif self._reason and vocabulary.is_over(value) and is_short_failure(self._reason):
                # `Complete`, with the reason `Failed`.
                self._findings.add(Meaning.FAILED, vocabulary.make_reason(self._reason), f"its {name} is {value}")
            elif value:
                self._findings.has_succeeded = self._findings.has_succeeded or vocabulary.has_succeeded(value)
                self._findings.add_text(name, value)
            else:
                self._findings.add_missing_evidence(name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._findings.add(Meaning.WAITING, "NotReady", f"its {name} is {value}, a number without a known meaning")

    def read_flag(self, name: str, value: Any) -> None:
        """Read a boolean, or a text that represents one. A text like `1/2` is a count."""
        if isinstance(value, str):
            ratio = read_ratio(value)
            if ratio is not None:
                self._findings.compare(f"its {name}", *ratio)
            value = TRUTHS.get(value)
        if self._findings.is_work and name in vocabulary.AT_WORK:
            # False has no meaning here: work that has ended does not run either.
            if value is True:
                self._findings.add(Meaning.WAITING, vocabulary.make_reason(name), f"its {name} is true")
        elif value is False:
            self._findings.add(Meaning.WAITING, f"Not{vocabulary.make_reason(name)}", f"its {name} is false")
        elif value is True:
            self._findings.add(Meaning.READY, vocabulary.make_reason(name))

    def read_count(self, role: Role, name: str, present: int) -> None:
        """Compare a count with each desired number, or with none if it counts problems."""
        if role is Role.AMISS and present > 0:
            self._findings.add(Meaning.WAITING, "NotReady", f"its {name} is {present}")
        for path in (*COUNTS.get(name, ()), *(("status", each) for each in find_wanted_names(name))):
            wanted: Any = self._fields
            for key in path:
                wanted = wanted.get(key) if isinstance(wanted, Mapping) else None
            if isinstance(wanted, int) and not isinstance(wanted, bool):
                self._findings.compare(f"its {name}", present, wanted)

    def read_side(self, name: str, text: str | bool) -> None:
        """Read the word or flag of a part. It never makes the whole object failed."""
        if isinstance(text, bool):
            self.read_flag(name, text)
            return
        meaning = vocabulary.read(text)
        if meaning is Meaning.FAILED:
            self._findings.add(Meaning.WAITING, vocabulary.make_reason(text), f"its {name} is {text}")
        elif meaning is not None:
            self._findings.add_text(name, text)
        elif text in TRUTHS:
            self.read_flag(name, text)
        elif text and is_word(name):
            self._findings.add_missing_evidence(name)

    def read_items(self, name: str, value: list[Any] | dict[str, Any]) -> None:
        """Read the items that report their own state: the entries of a list or map, or the map itself."""
        if isinstance(value, dict):
            if self._findings.add_item(name, value, self._fields):
                return
            value = [part for each in value.values() for part in find_parts(each)]
        for item in self._take_parts(value):
            if isinstance(item, dict):
                self._findings.add_item(name, item, self._fields)

    def _take_parts(self, parts: list[Any]) -> list[Any]:
        """Return the first parts, as many as the limit still permits."""
        taken = parts[: self._parts_left]
        self._parts_left -= len(taken)
        return taken


def find_parts(value: Any) -> Sequence[Any]:
    """Return the parts in an entry of a map: the entries of a list, but not its conditions, or the entry itself."""
    if not isinstance(value, list):
        return (value,)
    return [item for item in value if isinstance(item, Mapping) and "type" not in item]


def is_short_failure(reason: Any) -> bool:
    """Whether a reason next to the main word names a failure. A sentence does not count."""
    if not isinstance(reason, str) or len(reason[: limits.HEALTH_WORD_CHARACTERS].split()) > NOTE_WORDS:
        return False
    return vocabulary.read(reason) is Meaning.FAILED


class GeneralRule:
    """The general rule for one kind."""

    __slots__ = ("_is_work", "_kind", "_shape")

    def __init__(self, kind: str, shape: StatusShape) -> None:
        """kind: `group/Kind`, for messages. shape: the fields that its schema declares."""
        self._kind = kind
        self._shape = shape
        self._is_work = shape.ends or kind.endswith(vocabulary.WORK)

    def __call__(self, fields: Fields, /) -> HealthResult:
        """Assess the object. Accepts any shape."""
        # This check comes first, because many controllers do not even update the generation of a suspended object.
        return find_suspended(fields) or assess_observed(fields, self._assess)

    def _assess(self, fields: Fields) -> HealthResult:
        status = fields.get(STATUS)
        if not isinstance(status, Mapping) or not status:
            return self._judge_silent({})
        findings = Findings(is_work=self._is_work or not ENDS.isdisjoint(status))
        conditions = status.get(CONDITIONS)
        if isinstance(conditions, Mapping):
            conditions = [{"type": name, **item} for name, item in conditions.items() if isinstance(item, Mapping)]
        is_decided = False
        if isinstance(conditions, list) and conditions:
            conditions = conditions[: limits.HEALTH_PARTS]
            current = [item for item in conditions if isinstance(item, Mapping) and not is_outdated(item, fields)]
            if len(current) < len(conditions) and (outdated := find_outdated(conditions, current)):
                return outdated
            said = [each for each in map(findings.read_condition, current) if each is not None]
            decisive = findings.add_conditions(said)
            for item in current if len(said) < len(current) else ():
                # A list of states in a field that usually contains conditions.
                if TYPE not in item:
                    findings.add_item(CONDITIONS, item, fields)
            is_decided = decisive is not None and decisive.type == READY_WORD and decisive.meaning is Meaning.READY
        reader = FieldReader(findings, fields, omitted_zeros=self._shape.omitted_zeros)
        if is_decided:
            reader.read_failures(status)
        else:
            reader.read(status)
        return findings.conclude() or self._judge_untold(findings, status)

    def _judge_untold(self, findings: Findings, status: Mapping[str, Any]) -> HealthResult:
        """Return the result for an object without any signal whose meaning is known."""
        if findings.missing_evidence:
            return progressing(
                "NotReady", f"its status does not show whether it is ready ({findings.missing_evidence})"
            )
        if self._is_work and ENDS.isdisjoint(status) and not BEGINS.isdisjoint(status):
            return progressing("NotFinished", "it has started, and has not finished")
        return self._judge_silent(status)

    def _judge_silent(self, status: Mapping[str, Any]) -> HealthResult:
        """Return the result for an object that reports nothing about its state."""
        declared = self._shape.declared or frozenset()
        said = any(status.get(name) not in (None, "", [], {}) for name in REPORTING)
        empty = {name for name in self._shape.parts if status.get(name) in ([], {})}
        if (not said and (declared or empty)) or status.get(CONDITIONS) == []:
            names = " or ".join(f"status.{name}" for name in sorted(declared or empty or {CONDITIONS}))
            message = f"the controller of {self._kind} has not set {names}"
            return HealthResult(state=HealthState.PROGRESSING, reason=NOT_OBSERVED, message=message, is_silent=True)
        return ready(EXISTS)


OF_ANY_KIND: Final = GeneralRule("", UNKNOWN)
"""The general rule without a schema."""


def make_entry(kind: str, shape: StatusShape = UNKNOWN) -> HealthRuleEntry:
    """Create the row of a kind. kind: `group/Kind`."""
    return HealthRuleEntry(rule=GeneralRule(kind, shape), paths=shape.paths)


def find_outdated(conditions: list[Any], current: list[Mapping[str, Any]]) -> HealthResult | None:
    """Return progressing if the decisive condition, or every one, describes an older generation of the object."""
    outdated = [item for item in conditions if isinstance(item, Mapping) and item not in current]
    for name in DECISIVE:
        if any(item.get("type") == name for item in outdated):
            message = f"its controller has not reported whether it is {name.lower()} since the last change"
            return progressing(NOT_OBSERVED, message)
    return None if current or not outdated else progressing(NOT_OBSERVED, "its conditions describe an older generation")


def find_suspended(fields: Fields) -> HealthResult | None:
    """Return ready if the spec suspends the object, or progressing while the main word means that it is stopping."""
    spec = fields.get("spec")
    asked = next((name for name in SUSPEND if spec.get(name) is True), None) if isinstance(spec, Mapping) else None
    if asked is None:
        return None
    for name in MAIN:
        text = read_text(fields, f"{STATUS}.{name}")
        if vocabulary.goes_to_rest(text):
            return progressing(vocabulary.make_reason(text), f"its {name} is {text}")
    return ready(SUSPENDED, f"spec.{asked} is true")
