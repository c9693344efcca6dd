"""Tracks sensitive values in a definition: sensitive parameters, and all values derived from them.

Values are followed through the paths that expressions read, even before they are known. The status of a nested Stack
does not contain its sensitive outputs, so an expression that needs one fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hearth.model import child, field_paths, object_fields, value_class
from hearth.model.child import Child, Path
from hearth.model.object_list import ObjectList
from hearth.model.text import redaction
from hearth.template.blueprint import Definition, Evaluable, EvaluationError, Known, Outcome, Values
from hearth.template.cel.expressions import Expression
from hearth.template.cel.field_references import FieldRead
from hearth.template.compiler.manifest_template import Keys, ManifestTemplate
from hearth.template.text import error_hints

SHORTEST_DERIVED = 8
"""Minimum characters of a text derived from a sensitive value for redaction everywhere. Shorter ones are words like
`yes` that a test selected."""
SECRET_FIELDS: tuple[Path, ...] = (("data",), ("stringData",))
"""The sensitive fields of a Secret."""
PARAMETERS: Path = ("spec", "parameters")
"""The field of a nested Stack that every viewer of Stacks sees. Its revision stores it, too."""
NAMES: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
"""The fields that every message and every request shows."""
OUTPUTS: Final = ("status", "outputs")
NEXT_STEP = (
    "is sensitive, so the status of that Stack does not contain its value; read the Secret that contains it, "
    "e.g. with spec.parametersFrom"
)


@dataclass(slots=True, kw_only=True)
class SensitivityTracker:
    """The known sensitive parts of one definition; grows during compilation."""

    parameters: frozenset[str] = frozenset()
    constants: dict[str, set[str]] = field(default_factory=dict)
    """By section, the conditions and values that were derived from a sensitive value."""
    fields: dict[str, set[Path]] = field(default_factory=dict)
    """By resource, the fields of its object that contain sensitive values."""
    names: frozenset[str] = frozenset()
    """Sensitive names, other than resources, in the part that is being compiled."""
    texts: set[str] = field(default_factory=set, repr=False)
    """The values themselves, if known."""

    def add(self, value: Any) -> None:
        """Add a sensitive value."""
        self.texts.update(redaction.find_texts(value))

    def add_derived(self, value: Any) -> None:
        """Add a value that was derived from a sensitive one."""
        self.texts.update(text for text in redaction.find_texts(value) if len(text) >= SHORTEST_DERIVED)

    def covers(self, reads: Iterable[FieldRead]) -> bool:
        """Return whether any of the reads is sensitive."""
        if not (self.parameters or self.fields):
            return False
        return any(self._covers(read.root, read.path) for read in reads)

    def _covers(self, root: str, path: Path) -> bool:
        names: Collection[str] = self.parameters if root == "params" else self.constants.get(root, ())
        if names:
            return path[0] in names if path else True
        if root in self.names:
            return True
        return any(field_paths.is_overlapping(path, known) for known in self.fields.get(root, ()))

    def find_parameter(self, reads: Iterable[FieldRead]) -> str:
        """Return the name of a sensitive parameter that is read, "" for none."""
        for read in reads:
            if read.root == "params" and self._covers("params", read.path):
                return read.path[0] if read.path else min(self.parameters)
        return ""

    def note_field(self, resource: str, keys: Keys) -> None:
        """Record that a path in a resource's manifest contains a sensitive value."""
        path: list[str] = []
        for key in keys:
            # The paths of reads end before a list index.
            if not isinstance(key, str):
                break
            path.append(key)
        self.fields.setdefault(resource, set()).add(tuple(path))

    def note_secret(self, resource: str) -> None:
        """Record that the resource is a Secret."""
        self.fields.setdefault(resource, set()).update(SECRET_FIELDS)


def find_sensitive(definition: Definition) -> frozenset[str]:
    """Find the parameters that are declared sensitive, and undeclared ones from a Secret."""
    found: set[str] = set()
    for name, rules in find_stated(definition.template).items():
        sensitive = object_fields.find(rules, "sensitive")
        origin = definition.origins.get(name)
        if sensitive is True or (sensitive is None and origin is not None and origin.kind == "Secret"):
            found.add(name)
    return frozenset(found)


def find_stated(template: Any) -> Mapping[str, Any]:
    """Return the rules of the parameters by name, for a template of any form."""
    return object_fields.mapping(template, "parameters")


def is_name(keys: Keys) -> bool:
    """Whether that path of a manifest contains, or lies within, a field that is shown everywhere."""
    return any(field_paths.is_overlapping(keys, name) for name in NAMES)


def is_parameter(keys: Keys) -> bool:
    """Return whether that path of a nested Stack's manifest contains, or is part of, its parameters."""
    return field_paths.is_overlapping(keys, PARAMETERS)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveOutput(EvaluationError):
    """The error of an expression that needs the value of a sensitive output."""


@value_class.dataclass(frozen=True, slots=True)
class RedactedOutput:
    """An output whose value is sensitive, or may depend on a sensitive output."""

    inner: Evaluable
    is_sensitive: bool
    """Whether each value of it is sensitive."""

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """Return its reads by resource name."""
        return self.inner.reads

    def evaluate(self, values: Values) -> Outcome:
        """Return a placeholder for a sensitive value once there is one."""
        outcome = self.inner.evaluate(values)
        has_value = isinstance(outcome, Known) and outcome.value is not None
        is_hidden = (self.is_sensitive and has_value) or isinstance(outcome, SensitiveOutput)
        return Known(redaction.SENSITIVE) if is_hidden else outcome


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class OutputReader(Expression):
    """An expression that reads outputs of nested Stacks, and never takes the placeholder of one for its value."""

    stacks: tuple[str, ...]
    """The resources among `names` that are nested Stacks."""

    def evaluate(self, values_: Values) -> Outcome:
        """Evaluate it; SensitiveOutput if it needs an unavailable value. A test may check whether there is one."""
        outcome = Expression.evaluate(self, values_)
        if isinstance(outcome, Known) and isinstance(outcome.value, bool):
            return outcome
        shown = isinstance(outcome, Known) and redaction.SENSITIVE in redaction.find_texts(outcome.value)
        for name in self.stacks:
            output = find_sensitive_output(values_.get(name), self.reads[name], or_any=shown)
            if output:
                text = error_hints.quote_expression(self.parsed.text)
                return SensitiveOutput(path=self.path, message=f"{text}: the output '{output}' of '{name}' {NEXT_STEP}")
        return outcome


def guard_outputs(expression: Expression, stacks: Collection[str]) -> Expression:
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


def find_sensitive_output(found: Any, reads: Collection[Path], *, or_any: bool) -> str:
    """Return the name of a sensitive output of one Stack, or of several, that is read by its name; "" for none.

    or_any: whether it also counts if all outputs are read together.
    """
    wanted = {path[len(OUTPUTS)] for path in reads if len(path) > len(OUTPUTS)}
    reads_all = or_any and any(len(path) <= len(OUTPUTS) for path in reads)
    for stack in found.sources if isinstance(found, ObjectList) else (found,):
        hidden = stack.hidden_outputs if isinstance(stack, Child) else child.list_hidden_outputs(stack)
        if hidden and (name := child.find_hidden_output(hidden, wanted, or_any=reads_all)):
            return name
    return ""


def reads_outputs(template: ManifestTemplate) -> bool:
    """Return whether the document reads outputs of nested Stacks."""
    return any(isinstance(part, OutputReader) for slot in template.slots for part in slot.parts)
