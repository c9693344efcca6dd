"""Evaluates expressions whose values are known during compilation to constants, and binds all others.

These are expressions that depend only on parameters, conditions, values, the Stack and absent resources.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hearth.model import limits, value_class
from hearth.model.chunked_work import LARGE, MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.blueprint import EvaluationError, Known, Outcome, Pending, ReadValue, SharingScope, Values
from hearth.template.cel import cel_values, evaluation, expressions, field_references
from hearth.template.cel.evaluation import Evaluator
from hearth.template.cel.expression_validator import ValidExpression
from hearth.template.cel.expressions import Expression, Parsed, Reads
from hearth.template.compiler import manifest_template, sensitivity
from hearth.template.compiler.manifest_template import (
    Constant,
    InterpolatedString,
    Keys,
    ManifestTemplate,
    ParsedManifest,
    Part,
)
from hearth.template.compiler.sensitivity import SensitivityTracker
from hearth.template.text import bounds, error_hints

TOO_COSTLY = "may take too long, and is evaluated at every change; avoid nested loops and growing values"


@value_class.dataclass(frozen=True, slots=True)
class BooleanExpression:
    """An expression that must be true or false."""

    expression: Expression

    @property
    def reads(self) -> Reads:
        """Return its reads by resource name."""
        return self.expression.reads

    def evaluate(self, given: Values) -> Outcome:
        """Return true or false."""
        outcome = self.expression.evaluate(given)
        if isinstance(outcome, Known) and not isinstance(outcome.value, bool):
            message = refuse(self.expression.parsed.text, outcome.value, is_sensitive=self.expression.is_sensitive)
            return EvaluationError(path=self.expression.path, message=message)
        return outcome


def refuse(text: str, value: Any, *, is_sensitive: bool) -> str:
    """Return the error for a test whose result is not true or false."""
    found = "gives something else" if is_sensitive else f"gives {error_hints.describe(value)}"
    return f"must give true or false, {error_hints.quote_expression(text)} {found}; add a comparison"


def ignore_size(size: int) -> None:
    """Accept any size."""


@dataclass(slots=True, kw_only=True)
class PartialEvaluator:
    """Binds the expressions of one definition, and collects errors of expressions that cannot be evaluated."""

    constants: dict[str, Any] = field(repr=False)
    """The values of `params`, `conditions`, `values` and `stack`, and of collections without members."""
    sensitivity: SensitivityTracker = field(default_factory=SensitivityTracker)
    """The sensitive parts of the definition."""
    absent: Collection[str] = frozenset()
    """The resources whose `when` is false."""
    fields: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By resource, the fields of its kind, if known."""
    mistakes: list[Mistake] = field(default_factory=list)
    size: int = 0
    """The known bytes of all documents that were bound so far."""
    on_size: Callable[[int], None] = ignore_size
    """Called with `size` whenever it grows."""
    scope: SharingScope = SharingScope.ANY
    """The Stacks that all bound parts are valid for."""
    evaluator: Evaluator = evaluation.ALONE
    """Evaluates expressions that may take long."""
    kept: dict[int, Any] = field(default_factory=dict, repr=False)
    """By identity: the values that expressions keep until the objects that they also read exist."""
    is_waiting: bool = False
    """Whether an evaluation is incomplete, so that everything must be bound again."""
    collections: Collection[str] = frozenset()
    """The names that are lists of objects: collections, and lists of external objects."""
    externals: Collection[str] = frozenset()
    """The resources that the Stack only reads."""
    given: Mapping[str, ReadValue] = field(default_factory=dict, repr=False)
    """Values of external objects; other references may select some of the same objects."""
    read: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """External objects that `forEach` may create members from and that are known, by name."""
    max_removed: dict[str, int | str] = field(default_factory=dict)
    """How many members may disappear without a user's edit, by collection."""
    unresolved: dict[str, frozenset[str]] = field(default_factory=dict)
    """External objects that a collection's `forEach` reads and that are not known, by collection with unknown members.
    """
    stacks: Collection[str] = frozenset()
    """The resources that are nested Stacks."""
    _member: str = ""
    """The member that is bound now, for messages."""
    _member_names: Collection[str] = frozenset()
    """The constants that differ from member to member."""
    _needs_bound: bool = False
    """Whether the element of the member is large."""
    _shared: dict[tuple[Parsed, str], Expression] = field(default_factory=dict, repr=False)
    """The expressions of a collection that are the same for all its members, by their place."""
    _folded: dict[Parsed, Constant] = field(default_factory=dict, repr=False)
    """The known values of expressions in documents. Hundreds of resources contain the same few."""

    def note(self, path: str, message: str) -> None:
        """Record an error."""
        self.mistakes.append(Mistake(path=path, message=f"{self._member}: {message}" if self._member else message))

    def note_others(self, mistakes: Iterable[Mistake]) -> None:
        """Record these errors, except for paths that already have a more specific error."""
        known = {mistake.path for mistake in self.mistakes}
        for mistake in mistakes:
            if mistake.path not in known:
                self.note(mistake.path, mistake.message)

    def refuse_sensitive(self, path: str, expressions: Iterable[ValidExpression], *, why: str) -> None:
        """Record that a publicly visible path would show a sensitive value. why: the reason and the next step."""
        name = self.sensitivity.find_parameter(read for each in expressions for read in each.parsed.reads.reads)
        what = f"the sensitive parameter '{name}'" if name else "something sensitive"
        self.note(path, f"uses {what}, and {why}")

    @contextlib.contextmanager
    def hide(self, names: Collection[str]) -> Iterator[None]:
        """Treat these names as sensitive within the block."""
        before, self.sensitivity.names = self.sensitivity.names, frozenset(names)
        yield
        self.sensitivity.names = before

    @contextlib.contextmanager
    def for_member(self, constants: Mapping[str, Any], *, name: str) -> Iterator[None]:
        """Bind expressions with these additional constants within the block. name: the member, for messages."""
        outer = self.constants
        large = [key for key, value in constants.items() if not expressions.is_small(value)]
        self.constants = {**outer, **constants}
        for key in large:
            if isinstance(constants[key], dict):
                self.constants[key] = expressions.enlarge(constants[key])
            else:
                self._needs_bound = True
        self._member, self._member_names = name, constants.keys()
        yield
        self.constants, self._member, self._member_names, self._needs_bound = outer, "", frozenset(), False

    @contextlib.contextmanager
    def for_collection(self, name: str, *, sensitive_names: Collection[str]) -> Iterator[None]:
        """Bind expressions of a collection's members within the block. There, its own name means one object."""
        outer, self.collections = self.collections, frozenset(self.collections) - {name}
        self._shared.clear()
        with self.hide(sensitive_names):
            yield
        self._shared.clear()
        self.collections = outer

    def take_read(self, identities: Mapping[str, str]) -> None:
        """Take the given values of these references, by name."""
        known = {name: self.given[name] for name in identities if name in self.given}
        self.read = {name: each.value for name, each in known.items() if each.identity == identities[name]}

    @contextlib.contextmanager
    def for_reading(self, names: Collection[str]) -> Iterator[None]:
        """Bind expressions within the block with the values of external objects."""
        constants, collections = self.constants, self.collections
        self.constants = {**constants, **{name: self.read[name] for name in names}}
        self.collections = frozenset(collections).difference(names)
        yield
        self.constants, self.collections = constants, collections

    def is_same_for_all(self, parsed: Parsed) -> bool:
        """Return whether an expression has the same meaning for every member that is bound."""
        return not any(name in self._member_names for name in parsed.roots)

    def bind(self, valid: ValidExpression, *, path: str) -> Expression | Constant | None:
        """Bind the expression; return its value if already known, or None in case of an error."""
        is_shared = bool(self._member_names) and self.is_same_for_all(valid.parsed)
        if is_shared and (known := self._shared.get((valid.parsed, path))) is not None:
            return known
        self.scope = max(self.scope, find_expression_scope(valid.parsed))
        expression = expressions.bind(
            valid.parsed,
            path=path,
            constants=self.constants,
            absent=self.absent,
            fields=self.fields,
            is_sensitive=self.is_sensitive(valid),
            evaluator=self.evaluator,
            collections=self.collections,
            needs_bound=self._needs_bound,
        )
        blocked = {read.root for read in valid.parsed.required if read.root in self.absent}
        if blocked:
            return self.bind_around(expression, blocked)
        if not expression.names:
            return self.fold(expression)
        self.kept.update({id(value): value for value in find_shared_values(expression.constants)})
        expression = sensitivity.guard_outputs(expression, self.stacks)
        if is_shared:
            self._shared[valid.parsed, path] = expression
        return expression

    def bind_part(self, expression: ValidExpression, *, path: str) -> Expression | Constant | None:
        """Bind an expression of a document, when all constants and absent resources are known."""
        # Expressions of single members are not stored here.
        known = self._folded.get(expression.parsed)
        if known is not None:
            return known
        bound = self.bind(expression, path=path)
        # A text cannot be changed, so all places may share it. Sensitive values are recorded for each place.
        is_text = isinstance(bound, Constant) and isinstance(bound.value, str)
        if is_text and not self.is_sensitive(expression) and self.is_same_for_all(expression.parsed):
            self._folded[expression.parsed] = cast("Constant", bound)
        return bound

    def bind_around(self, expression: Expression, blocked: Collection[str]) -> Constant | None:
        """Evaluate an expression whose conditions skip the absent resources it needs; otherwise record an error."""
        known = {name: value for name, value in expression.constants.items() if name not in blocked}
        outcome = dataclasses.replace(expression, names=(), constants=known).evaluate({})
        if isinstance(outcome, Known):
            return self.keep(expression, outcome.value)
        if self.must_wait(outcome):
            return None
        for name in sorted(blocked):
            text = error_hints.quote_expression(expression.parsed.text)
            next_step = f"read it with `{name}.?…` and orValue(…), or add a `when` here as well"
            self.note(
                expression.path,
                f"'{name}' does not exist because its `when` is false, but {text} needs it; {next_step}",
            )
        return None

    def fold(self, expression: Expression) -> Constant | None:
        """Evaluate an expression that reads no resource."""
        outcome = expression.evaluate({})
        if isinstance(outcome, Known):
            return self.keep(expression, outcome.value)
        if self.must_wait(outcome):
            return None
        message = outcome.message if isinstance(outcome, EvaluationError) else "is not known"
        self.note(expression.path, f"{message}; fix the expression or the parameters that it uses")
        return None

    def must_wait(self, outcome: Outcome) -> bool:
        """Return whether the evaluation is incomplete, and record that."""
        is_evaluating = isinstance(outcome, Pending) and outcome.is_evaluating
        self.is_waiting = self.is_waiting or is_evaluating
        return is_evaluating

    def keep(self, expression: Expression, value: Any) -> Constant:
        """Return the value of an expression as a constant; record it as sensitive if it is."""
        if expression.is_sensitive:
            self.sensitivity.add_derived(value)
        return Constant(value)

    def is_sensitive(self, expression: ValidExpression) -> bool:
        """Return whether an expression reads a sensitive value."""
        return self.sensitivity.covers(field_references.find_object_reads(expression.parsed.reads, self.collections))

    def bind_test(self, expression: ValidExpression, *, path: str) -> BooleanExpression | None:
        """Bind a test that is evaluated repeatedly."""
        bound = self.bind(expression, path=path)
        if bound is None:
            return None
        if isinstance(bound, Constant):
            if not isinstance(bound.value, bool):
                self.note(path, refuse(expression.parsed.text, bound.value, is_sensitive=self.is_sensitive(expression)))
                return None
            return BooleanExpression(
                expressions.bind(expressions.parse(cel_values.write_text(bound.value)), path=path, constants={})
            )
        if not expressions.is_bounded(expression.parsed):
            self.note(path, f"{error_hints.quote_expression(expression.parsed.text)} {TOO_COSTLY}")
        # It is evaluated repeatedly and must answer immediately, so no other process may evaluate it.
        return BooleanExpression(dataclasses.replace(bound, evaluator=evaluation.ALONE))

    def decide(self, expression: ValidExpression, *, path: str) -> bool | None:
        """Evaluate a test that reads no resource; None if it contains an error."""
        bound = self.bind(expression, path=path)
        if not isinstance(bound, Constant):
            return None
        if not isinstance(bound.value, bool):
            self.note(path, refuse(expression.parsed.text, bound.value, is_sensitive=self.is_sensitive(expression)))
            return None
        return bound.value

    def bind_document(
        self, parsed: ParsedManifest, checked_parts: Mapping[Keys, Sequence[str | ValidExpression]]
    ) -> ChunkedWork[ManifestTemplate | None]:
        """Bind a document; None if an expression in it contains an error.

        Raises InvalidDefinition if all documents together become too large.
        """
        parts: dict[Keys, list[Part] | Constant] = {}
        before, size = len(self.mistakes), 0
        for number, mark in enumerate(parsed.strings, start=1):
            if number % MARKS_IN_A_PIECE == 0 or len(mark.parts) > MARKS_IN_A_PIECE:
                yield
            try:
                found = yield from self.bind_mark(mark, checked_parts[mark.keys])
                own = weigh(found, mark)
                size += own
                bounds.refuse_large(size)
                if own > LARGE:
                    yield
            except bounds.TooLarge as error:
                self.note(mark.path, str(error))
                return None
            if found is not None:
                parts[mark.keys] = found
        if len(self.mistakes) > before or self.is_waiting:
            return None
        document = manifest_template.assemble(parsed.skeleton, parts)
        self.count(len(document.raw), parsed.path)
        return document

    def count(self, size: int, path: str) -> None:
        """Add to the size of all documents. Raises InvalidDefinition if it becomes too large."""
        self.size += size
        if self.size > limits.WANTED_BYTES:
            message = f"and the resources before it have more than {limits.WANTED_BYTES} bytes; split the template"
            raise InvalidDefinition([Mistake(path=path, message=message)])
        self.on_size(self.size)

    def bind_mark(
        self, text: InterpolatedString, checked_parts: Sequence[str | ValidExpression]
    ) -> ChunkedWork[list[Part] | Constant | None]:
        """Bind the expressions of one string. Raises TooLarge."""
        bound: list[Part | Constant | None] = []
        for part in checked_parts:
            bound.append(part if isinstance(part, str) else self.bind_part(part, path=text.path))
            if is_collection(bound[-1]):
                yield
        if any(part is None for part in bound):
            return None
        if text.is_whole and isinstance(bound[0], Constant):
            return bound[0]
        return (yield from join([part for part in bound if part is not None]))


def find_shared_values(constants: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values that expressions share. A map may be narrowed for each expression, so yield its values."""
    for value in constants.values():
        for inner in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(inner, str | list | Mapping):
                yield inner


def find_expression_scope(parsed: Parsed) -> SharingScope:
    """Return the Stacks for which an expression has the same meaning."""
    if "stack" not in parsed.roots:
        return SharingScope.ANY
    paths = (read.path for read in parsed.reads.reads if read.root == "stack")
    return SharingScope.NAMESPACE if all(path[:1] == ("namespace",) for path in paths) else SharingScope.ONE


def weigh(found: Sequence[Part] | Constant | None, text: InterpolatedString) -> int:
    """Return the known bytes of a bound string. Raises TooLarge."""
    if isinstance(found, Constant):
        return bounds.measure(found.value, depth=limits.JSON_DEPTH - len(text.keys))
    size = 0
    for part in found or ():
        if isinstance(part, str):
            size += len(part)
    return size


def is_collection(part: Part | Constant | None) -> bool:
    """Whether it is a known map or list, which may be large and is then a separate piece of work."""
    return isinstance(part, Constant) and isinstance(part.value, dict | list)


def join(pieces: Sequence[Part | Constant]) -> ChunkedWork[list[Part] | Constant]:
    """Join the pieces of a text, with constants written out; a null piece drops all of it. Raises TooLarge."""
    joined: list[Part] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, Constant):
            if piece.value is None:
                return Constant(None)
            written = manifest_template.write_piece(piece.value)
            if is_collection(piece):
                yield
        elif isinstance(piece, str):
            written = piece
        else:
            joined.append(piece)
            continue
        size += len(written)
        bounds.refuse_large(size)
        if joined and isinstance(joined[-1], str):
            joined[-1] += written
        else:
            joined.append(written)
    if all(isinstance(piece, str) for piece in joined):
        return Constant("".join(str(piece) for piece in joined))
    return joined
