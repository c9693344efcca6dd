"""Health of a kind without a rule of its own: by suspension, conditions, words, flags, counts and errors of its status.

Knows no kind by its name. Never terminal: a controller may still recover.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model import limits
from hearth.plan.health.general import vocabulary
from hearth.plan.health.general.condition_types import DECISIVE
from hearth.plan.health.general.field_reader import FieldReader
from hearth.plan.health.general.findings import SUSPENDED, Findings
from hearth.plan.health.general.status_fields import (
    BEGINS,
    CONDITIONS,
    ENDS,
    MAIN,
    REPORTING,
    STATUS,
    SUSPEND,
    UNKNOWN,
    StatusShape,
)
from hearth.plan.health.general.vocabulary import Meaning
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    HealthRuleEntry,
    assess_observed,
    is_outdated,
    progressing,
    read_text,
    ready,
)

NOT_OBSERVED: Final = "NotObserved"
EXISTS: Final = "Exists"
"""The reason of an object of which nothing else is known."""
READY_WORD, TYPE = "Ready", "type"


class GeneralRule:
    """The general rule for one kind."""

    __slots__ = ("_is_work", "_kind", "_shape")

    def __init__(self, kind: str, shape: StatusShape) -> None:
        """kind: `group/Kind`, for messages. shape: what its schema declares."""
        self._kind = kind
        self._shape = shape
        self._is_work = shape.ends or kind.endswith(vocabulary.WORK)

    def __call__(self, fields: Fields, /) -> HealthResult:
        """Assess the object. Accepts any shape."""
        # First, since many a controller leaves an object alone while it is suspended, its generation included.
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
                # A list of states, although its name is that of conditions.
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
        """Return the verdict on an object of which nothing tells how it is."""
        if findings.untold:
            return progressing("NotReady", f"its status does not tell whether it is ready ({findings.untold})")
        if self._is_work and ENDS.isdisjoint(status) and not BEGINS.isdisjoint(status):
            return progressing("NotFinished", "it has started, and has not finished")
        return self._judge_silent(status)

    def _judge_silent(self, status: Mapping[str, Any]) -> HealthResult:
        """Return the verdict on an object that says nothing of itself."""
        declared = self._shape.declared or frozenset()
        said = any(status.get(name) not in (None, "", [], {}) for name in REPORTING)
        empty = {name for name in self._shape.parts if status.get(name) in ([], {})}
        if (not said and (declared or empty)) or status.get(CONDITIONS) == []:
            names = " or ".join(f"status.{name}" for name in sorted(declared or empty or {CONDITIONS}))
            message = f"the controller of {self._kind} has not set {names}"
            return HealthResult(state=WAITING_STATE, reason=NOT_OBSERVED, message=message, is_silent=True)
        return ready(EXISTS)


WAITING_STATE: Final = progressing("", "").state
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
    """Return ready if the spec asks for rest, or progressing while the main word says that the object goes to rest."""
    spec = fields.get("spec")
    asked = next((name for name in SUSPEND if spec.get(name) is True), None) if isinstance(spec, Mapping) else None
    if asked is None:
        return None
    for name in MAIN:
        text = read_text(fields, f"{STATUS}.{name}")
        if vocabulary.goes_to_rest(text):
            return progressing(vocabulary.make_reason(text), f"its {name} is {text}")
    return ready(SUSPENDED, f"spec.{asked} is true")
