"""What of a definition nobody is to see: which parameters, and whatever is made of them, whether known yet or not.

Follows values through expressions by the paths that these read; knows no API server and no status.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hearth.model import redaction
from hearth.model.child import Path
from hearth.template.blueprint import Known, Outcome

if TYPE_CHECKING:
    from hearth.template.blueprint import Definition, Evaluable, Values
    from hearth.template.cel.field_references import FieldRead
    from hearth.template.compiler.manifest_template import Keys

SHORTEST_DERIVED = 8
"""Characters of a text that was made of a sensitive value from which it is hidden wherever it turns up: shorter ones
are words like `yes` that a test chose."""
SECRET_FIELDS: tuple[Path, ...] = (("data",), ("stringData",))
"""Of a Secret, what nobody is to see."""
PARAMETERS: Path = ("spec", "parameters")
"""Of a nested Stack, what every viewer of Stacks sees; its revision keeps it, too."""
NAMES: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
"""What every message and every request shows."""


@dataclass(slots=True, kw_only=True)
class SensitivityTracker:
    """What is known to be sensitive in one definition; grows while that is compiled."""

    parameters: frozenset[str] = frozenset()
    conditions: set[str] = field(default_factory=set)
    """Those that were decided by a sensitive value."""
    fields: dict[str, set[Path]] = field(default_factory=dict)
    """By resource the fields of its object that hold sensitive values."""
    texts: set[str] = field(default_factory=set, repr=False)
    """The values themselves, as far as they are known."""

    def add(self, value: Any) -> None:
        """A sensitive value."""
        self.texts.update(redaction.find_texts(value))

    def add_derived(self, value: Any) -> None:
        """A value that was made of a sensitive one."""
        self.texts.update(text for text in redaction.find_texts(value) if len(text) >= SHORTEST_DERIVED)

    def covers(self, reads: Iterable[FieldRead]) -> bool:
        """Whether anything of what is read is sensitive."""
        if not (self.parameters or self.fields):
            return False
        return any(self._covers(read.root, read.path) for read in reads)

    def _covers(self, root: str, path: Path) -> bool:
        if root in ("params", "conditions"):
            names: Collection[str] = self.parameters if root == "params" else self.conditions
            return path[0] in names if path else bool(names)
        return any(is_overlapping(path, known) for known in self.fields.get(root, ()))

    def find_parameter(self, reads: Iterable[FieldRead]) -> str:
        """The name of a sensitive parameter that is read, "" for none."""
        for read in reads:
            if read.root == "params" and self._covers("params", read.path):
                return read.path[0] if read.path else min(self.parameters)
        return ""

    def note_field(self, resource: str, keys: Keys) -> None:
        """That place in a resource's manifest holds something sensitive."""
        path: list[str] = []
        for key in keys:
            # What reads say of a list ends before its index.
            if not isinstance(key, str):
                break
            path.append(key)
        self.fields.setdefault(resource, set()).add(tuple(path))

    def note_secret(self, resource: str) -> None:
        """The resource is a Secret."""
        self.fields.setdefault(resource, set()).update(SECRET_FIELDS)


def find_sensitive(definition: Definition) -> frozenset[str]:
    """The parameters whose values nobody is to see: those that say so, and those that a Secret gives and say nothing."""
    found: set[str] = set()
    for name, rules in find_stated(definition.template).items():
        said = rules.get("sensitive") if isinstance(rules, dict) else None
        origin = definition.origins.get(name)
        if said is True or (said is None and origin is not None and origin.kind == "Secret"):
            found.add(name)
    return frozenset(found)


def find_stated(template: Any) -> Mapping[str, Any]:
    """The rules of the parameters by name, whatever the template looks like."""
    stated = template.get("parameters") if isinstance(template, dict) else None
    return stated if isinstance(stated, dict) else {}


def is_overlapping(left: Path, right: Path) -> bool:
    """Whether one lies within the other."""
    return all(one == other for one, other in zip(left, right, strict=False))


def is_name(keys: Keys) -> bool:
    """Whether that place of a manifest holds, or is part of, what is shown everywhere."""
    return any(all(one == other for one, other in zip(keys, name, strict=False)) for name in NAMES)


def is_parameter(keys: Keys) -> bool:
    """Whether that place of a nested Stack's manifest holds, or is part of, the parameters that are given to it."""
    return all(one == other for one, other in zip(keys, PARAMETERS, strict=False))


@dataclass(frozen=True, slots=True)
class RedactedOutput:
    """An output that nobody is to see."""

    inner: Evaluable

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """By resource name what it reads."""
        return self.inner.reads

    def evaluate(self, values: Values) -> Outcome:
        """That there is a value, once there is."""
        outcome = self.inner.evaluate(values)
        return Known(redaction.SENSITIVE) if isinstance(outcome, Known) and outcome.value is not None else outcome
