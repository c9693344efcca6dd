"""A manifest, or another value of a template, with expressions: parsed once, assembled for each evaluation.

The constant part is stored as JSON, because parsing JSON is the fastest way to copy it. Expressions fill its slots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

import orjson

from hearth.model import limits, packing, value_class
from hearth.model.errors import Mistake
from hearth.model.text import redaction
from hearth.template.blueprint import EvaluationError, Known, Outcome, Pending, Values
from hearth.template.cel import cel_values, expressions
from hearth.template.cel.expressions import Expression, Reads
from hearth.template.text import bounds, error_hints, interpolation

Keys: TypeAlias = tuple[str | int, ...]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InterpolatedString:
    """One string with expressions, as it stands in a template."""

    keys: Keys
    """Its path in the skeleton."""
    path: str
    """Its path in the template."""
    parts: tuple[str | interpolation.ExpressionSource, ...]

    @property
    def is_whole(self) -> bool:
        """Return whether the string is a single expression, so that the type of the value is preserved."""
        return len(self.parts) == 1 and isinstance(self.parts[0], interpolation.ExpressionSource)


class ParsedManifest:
    """A parsed raw value: the skeleton without nulls, the strings with expressions, and syntax errors."""

    def __init__(self, raw: Any, *, path: str, opaque: Keys | None = None) -> None:
        """Parse `raw`, at `path`.

        opaque: the path to a part that is another template and stays unchanged.
        """
        self.strings: list[InterpolatedString] = []
        self.mistakes: list[Mistake] = []
        self.path = path
        self._opaque = opaque
        written = write(raw)
        self.may_be_masked = redaction.may_hold_mask(written)
        self.skeleton: Any = raw if is_plain(written) else self._copy(raw, (), path)

    def copy(self) -> ParsedManifest:
        """Return a copy with its own skeleton, which can be filled in."""
        copied = copy.copy(self)
        copied.skeleton = orjson.loads(orjson.dumps(self.skeleton))
        return copied

    def _copy(self, value: Any, keys: Keys, path: str) -> Any:
        if isinstance(value, str):
            return self._copy_text(value, keys, path) if interpolation.has_expressions(value) else value
        if isinstance(value, dict):
            if keys == self._opaque:
                return value
            return self._copy_map(value, keys, path)
        if isinstance(value, list):
            present = [(at, inner) for at, inner in enumerate(value) if inner is not None]
            return [self._copy(inner, (*keys, to), f"{path}[{at}]") for to, (at, inner) in enumerate(present)]
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            self._note(path, "is an integer of more than 64 bits; write it as text")
        elif not isinstance(value, int | float):
            found = f"is {error_hints.describe(value)}, which JSON cannot represent; write it as text"
            self._note(path, found)
        return value

    def _copy_map(self, value: dict[Any, Any], keys: Keys, path: str) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, inner in value.items():
            if inner is None or not self._is_key(key, path):
                continue
            if inner.__class__ is str and not interpolation.has_expressions(inner):
                # Most values are like this, and need no path.
                copied[key] = inner
            else:
                copied[key] = self._copy(inner, (*keys, key), path + error_hints.write_key(key))
        return copied

    def _copy_text(self, value: str, keys: Keys, path: str) -> str | None:
        """Return the literal text, or None as a placeholder for an expression result."""
        try:
            parts = interpolation.parse(value)
        except interpolation.UnterminatedExpression as error:
            self._note(path, explain(error))
            return None
        if len(parts) == 1 and isinstance(parts[0], str):
            return parts[0]
        self.strings.append(InterpolatedString(keys=keys, path=path, parts=parts))
        return None

    def _note(self, path: str, message: str) -> None:
        if len(self.mistakes) <= limits.MISTAKES:
            self.mistakes.append(Mistake(path=path, message=message))

    def _is_key(self, key: Any, path: str) -> bool:
        if not isinstance(key, str):
            self._note(path, f"has the key {key!r}, which is not text; put it in quotes")
            return False
        if interpolation.has_expressions(key):
            message = "keys cannot contain expressions, only values can; write the whole map as one expression"
            self._note(f"{path}{error_hints.write_key(key)}", message)
        return True


def explain(error: interpolation.UnterminatedExpression) -> str:
    """Describe the error in a text whose expressions cannot be parsed."""
    if error.is_crowded:
        return f"contains more than {limits.EXPRESSIONS_IN_TEXT} expressions; split it"
    if error.is_long:
        return f"has no closing brace within {limits.EXPRESSION_LENGTH} characters after {error_hints.quote(error.rest)}; split it"
    inner = error.rest.removeprefix(interpolation.OPENING)
    if interpolation.is_like_shell(inner) and "}" in inner:
        return (
            f"{error_hints.quote(error.rest)} is not an expression; {interpolation.for_shell(inner.partition('}')[0])}"
        )
    return f"the closing brace after {error_hints.quote(error.rest)} is missing; {interpolation.AS_LITERAL}"


def write(raw: Any) -> bytes | None:
    """Return `raw` as JSON, on which some checks are fastest, or None if JSON cannot represent it."""
    try:
        return orjson.dumps(raw)
    except TypeError:
        return None


def is_plain(written: bytes | None) -> bool:
    """Return whether a value has no expression, no null, and nothing that JSON cannot represent. written: as JSON."""
    return written is not None and b"${" not in written and b"null" not in written


Part: TypeAlias = str | Expression
StandIn: TypeAlias = Callable[[Pending | EvaluationError], str | None]


class Sized(NamedTuple):
    """A value, and its approximate size in bytes as JSON."""

    value: Any
    size: int


@value_class.dataclass(frozen=True, slots=True)
class ManifestSlot:
    """A location in a manifest whose value depends on other resources."""

    way: Keys
    """The path to the map or list that contains it."""
    key: str | int
    parts: tuple[Part, ...] = field(repr=False)
    """One expression, or the pieces of a text; none if the location is always dropped."""

    @property
    def path(self) -> str:
        """Return its path in the template, for messages."""
        return next((part.path for part in self.parts if not isinstance(part, str)), "")

    def evaluate(self, given: Values) -> Outcome:
        """Return its value; None drops the location."""
        if not self.parts:
            return Known(None)
        first = self.parts[0]
        if len(self.parts) == 1 and not isinstance(first, str):
            return first.evaluate(given)
        return self.evaluate_text(given)

    def evaluate_within(self, given: Values, size: int) -> Sized | Pending | EvaluationError:
        """Return its value if it fits into one object together with `size` more bytes."""
        try:
            outcome = self.evaluate(given)
            if not isinstance(outcome, Known):
                return outcome
            own = bounds.measure(outcome.value, depth=limits.JSON_DEPTH - len(self.way))
            bounds.refuse_large(size + own)
        except bounds.TooLarge as error:
            return EvaluationError(path=self.path, message=str(error))
        return Sized(outcome.value, own)

    def evaluate_text(self, given: Values) -> Outcome:
        """Join the pieces; a piece that is null drops the location."""
        pieces: list[str] = []
        missing: list[str] = []
        has_null = False
        size = 0
        for part in self.parts:
            if isinstance(part, str):
                size += len(part)
                pieces.append(part)
                continue
            outcome = part.evaluate(given)
            if isinstance(outcome, EvaluationError):
                return outcome
            if isinstance(outcome, Pending):
                missing += outcome.missing
            elif outcome.value is None:
                has_null = True
            else:
                pieces.append(write_piece(outcome.value))
                size += len(pieces[-1])
                bounds.refuse_large(size)
        if missing:
            return Pending(missing=tuple(dict.fromkeys(missing)))
        return Known(None if has_null else "".join(pieces))


def write_piece(value: Any) -> str:
    """Format a value within a text. Raises TooLarge."""
    bounds.measure(value)
    return cel_values.write_text(value)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTemplate:
    """A value of a template, ready for evaluation."""

    raw: bytes = field(repr=False)
    """JSON of a list whose only entry is the value, with null in each slot."""
    slots: tuple[ManifestSlot, ...]
    """In the order of the document."""
    reads: Reads

    @property
    def is_constant(self) -> bool:
        """Return whether it needs no values."""
        return not self.reads

    def has_slot_in(self, field: str) -> bool:
        """Return whether a slot is at, above or below that top-level field."""
        # The first key leads into the list around the value.
        return any((*slot.way, slot.key)[1:2] in ((), (field,)) for slot in self.slots)

    def evaluate(self, given: Values, *, stand_in: StandIn | None = None) -> Outcome:
        """Return a new value for each caller; EvaluationError if it becomes too large.

        stand_in: returns the replacement for a slot without a value; None leaves the slot unchanged.
        """
        if not self.slots:
            found: list[Any] = orjson.loads(self.raw)
            return Known(found[0] if found else None)
        root: list[Any] = orjson.loads(self.raw)
        size = len(self.raw)
        missing: list[str] = []
        dropped: list[tuple[Any, str | int]] = []
        for slot in self.slots:
            outcome = slot.evaluate_within(given, size)
            if stand_in is not None and not isinstance(outcome, Sized):
                text = stand_in(outcome)
                outcome = Sized(text, len(text)) if text is not None else outcome
            if isinstance(outcome, EvaluationError):
                return outcome
            if isinstance(outcome, Pending):
                missing += outcome.missing
                continue
            holder: Any = root
            for key in slot.way:
                holder = holder[key]
            if outcome.value is None:
                dropped.append((holder, slot.key))
            else:
                size += outcome.size
                holder[slot.key] = outcome.value
        if missing:
            return Pending(missing=tuple(dict.fromkeys(missing)))
        # In reverse order, so that the indexes of a list stay valid until they are dropped.
        for holder, key in reversed(dropped):
            del holder[key]
        return Known(root[0] if root else None)


def assemble(skeleton: Any, parts: Mapping[Keys, Sequence[Part] | Any]) -> ManifestTemplate:
    """Make a document of `skeleton` and the results of its expressions; `skeleton` is consumed if there are any.

    parts: by path a list of pieces, or a constant as a `Constant`.
    """
    root = [skeleton]
    slots: list[ManifestSlot] = []
    for keys, found in parts.items():
        way: Keys = (0, *keys[:-1]) if keys else ()
        key = keys[-1] if keys else 0
        holder: Any = root
        for step in way:
            holder = holder[step]
        if not isinstance(found, Constant):
            slots.append(ManifestSlot(way, key, tuple(found)))
        elif found.value is not None:
            holder[key] = found.value
        elif isinstance(holder, dict):
            del holder[key]
        else:
            slots.append(ManifestSlot(way, key, ()))
    document = ManifestTemplate(raw=packing.pack(root), slots=tuple(slots), reads=read_by(slots))
    if slots and document.is_constant:
        return settle(document)
    return document


@value_class.dataclass(frozen=True, slots=True)
class Constant:
    """The value of a string that depends only on parameters; None drops the location."""

    value: Any = field(repr=False)


def settle(template: ManifestTemplate) -> ManifestTemplate:
    """Fill in the slots of a document whose slots need no values."""
    outcome = template.evaluate({})
    assert isinstance(outcome, Known), "dropping slots needs no values"  # noqa: S101 -- for the type checker
    return ManifestTemplate(raw=packing.pack([outcome.value]), slots=(), reads={})


def read_by(slots: Sequence[ManifestSlot]) -> Reads:
    """Return all reads of `slots`."""
    return expressions.merge_reads(part.reads for slot in slots for part in slot.parts if not isinstance(part, str))
