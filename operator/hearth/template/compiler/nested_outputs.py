"""Reads of a nested Stack's outputs, of which a sensitive one has no value in the Stack's status.

Must not know which expressions are allowed where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from hearth.model import value_class
from hearth.model.child import Path
from hearth.model.text import redaction
from hearth.template.blueprint import Known, Outcome, Values
from hearth.template.cel.expressions import Expression
from hearth.template.compiler.manifest_template import ManifestTemplate
from hearth.template.compiler.sensitivity import SensitiveOutput
from hearth.template.text import error_hints

OUTPUTS: Final = ("status", "outputs")
NEXT_STEP = (
    "is sensitive, so the status of that Stack does not contain its value; read the Secret that contains it, "
    "e.g. with spec.parametersFrom"
)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class OutputReader(Expression):
    """An expression that reads outputs of nested Stacks, and never takes the placeholder of one for its value."""

    stacks: tuple[str, ...]
    """The resources among `names` that are such Stacks."""

    def evaluate(self, values_: Values) -> Outcome:
        """Evaluate it; SensitiveOutput if it needs a value that is not there. A test may ask whether there is one."""
        outcome = Expression.evaluate(self, values_)
        if isinstance(outcome, Known) and isinstance(outcome.value, bool):
            return outcome
        shown = isinstance(outcome, Known) and redaction.SENSITIVE in redaction.find_texts(outcome.value)
        for name in self.stacks:
            output = find_sensitive(values_.get(name), self.reads[name], or_any=shown)
            if output:
                text = error_hints.quote_expression(self.parsed.text)
                return SensitiveOutput(path=self.path, message=f"{text}: the output '{output}' of '{name}' {NEXT_STEP}")
        return outcome


def guard(expression: Expression, stacks: Collection[str]) -> Expression:
    """Return the expression as an OutputReader if it reads an output of one of these nested Stacks."""
    found = tuple(
        name for name in expression.names if name in stacks and any(map(is_output_read, expression.reads[name]))
    )
    if not found:
        return expression
    fields = {name: getattr(expression, name) for name in Expression.__slots__}
    return OutputReader(**fields, stacks=found)


def is_output_read(path: Path) -> bool:
    """Return whether a read of that path contains an output, or is part of one."""
    return path[: len(OUTPUTS)] == OUTPUTS[: len(path)]


def find_sensitive(found: Any, reads: Collection[Path], *, or_any: bool) -> str:
    """Return the name of a sensitive output of one Stack, or of several, that is read by its name; "" for none.

    or_any: whether it also counts if all outputs are read together.
    """
    for stack in found if isinstance(found, tuple) else (found,):
        for name in list_sensitive(stack):
            if any(path[len(OUTPUTS) :][:1] == (name,) or (or_any and len(path) <= len(OUTPUTS)) for path in reads):
                return name
    return ""


def list_sensitive(stack: Any) -> Iterator[str]:
    """List the names of the outputs whose values a Stack hides."""
    status = stack.get("status") if isinstance(stack, Mapping) else None
    outputs = status.get("outputs") if isinstance(status, Mapping) else None
    if isinstance(outputs, Mapping):
        yield from (name for name, value in outputs.items() if value == redaction.SENSITIVE)


def reads_any(template: ManifestTemplate) -> bool:
    """Return whether the document reads outputs of nested Stacks."""
    return any(isinstance(part, OutputReader) for slot in template.slots for part in slot.parts)
