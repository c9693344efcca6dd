"""Validates the expressions of a template: allowed names, types, and the values that each location accepts.

Each error becomes a `Mistake` with its path, its column and the next step. Nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hearth.model import limits, value_class
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.cel import cel_environment, expressions, type_checker
from hearth.template.cel.expressions import Parsed
from hearth.template.schema import literal_validator
from hearth.template.schema.json_schema import Effort
from hearth.template.schema.shapes import Shape, Type
from hearth.template.text import error_hints, interpolation

_BOOLEAN = ("BOOL", "DYN")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AllowedNames:
    """The names that are allowed in a location."""

    names: Collection[str]
    """In addition to the constants of the template."""
    reads_constants: bool = True
    """Whether parameters, conditions and values are allowed."""
    rule: str
    """The message for a name that exists but is not allowed here."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ValidExpression:
    """An expression without errors."""

    parsed: Parsed
    result: str
    """The type of its result, as CEL writes it."""


@dataclass(slots=True, kw_only=True)
class ExpressionValidator:
    """Validates the expressions of one template, and collects the errors."""

    scope: type_checker.TypeScope
    """Every name that exists, with its type."""
    mistakes: list[Mistake] = field(default_factory=list)
    effort: Effort = field(default_factory=Effort)
    constants: Collection[str] = frozenset({"params", "conditions"})
    """The names of the constants: `values` is one only in a template that has values, otherwise it may be a resource."""
    secrets: Collection[str] = frozenset()
    """The names that are Secrets."""
    externals: Mapping[str, bool] = field(default_factory=dict)
    """By name of an external object: whether it is a list of objects in all namespaces."""
    expressions: int = 0
    """The number of validated expressions."""

    def note(self, path: str, message: str) -> None:
        """Record an error."""
        self.mistakes.append(Mistake(path=path, message=message))

    def examine(
        self, text: str, *, path: str, allowed: AllowedNames, is_within_text: bool = False
    ) -> ValidExpression | None:
        """Validate an expression. Returns None if it has errors. Raises InvalidDefinition if there are too many.

        is_within_text: whether `${…}` is around it, which may be meant as text.
        """
        self.expressions += 1
        if self.expressions > limits.EXPRESSIONS:
            message = f"exceeds the limit of {limits.EXPRESSIONS} expressions; split the template"
            raise InvalidDefinition([Mistake(path=path, message=message)])
        try:
            parsed = expressions.parse(text)
        except cel_environment.CelCompileError as refusal:
            self.note_faults(refusal.faults, text, path, next_step=explain_literal(text) if is_within_text else "")
            return None
        is_sound = self.check_names(parsed, path=path, allowed=allowed)
        if not self.check_collections(parsed, path=path) or not self.check_secrets(parsed, path=path):
            return None
        judgement = self.scope.check(parsed)
        self.note_faults(judgement.faults, text, path)
        if not is_sound or judgement.faults:
            return None
        if judgement.is_optional:
            return self.unwrap(text, judgement.result, path=path)
        return ValidExpression(parsed=parsed, result=judgement.result)

    def unwrap(self, text: str, result: str, *, path: str) -> ValidExpression | None:
        """Return an expression that unwraps the optional result of this one."""
        try:
            return ValidExpression(parsed=expressions.parse_optional(text), result=result)
        except cel_environment.CelCompileError as refusal:
            # CEL rejects the expression with the added step.
            self.note_faults(refusal.faults, text, path)
            return None

    def examine_test(self, text: str, *, path: str, allowed: AllowedNames) -> ValidExpression | None:
        """Validate an expression that must be true or false."""
        expression = self.examine(text, path=path, allowed=allowed)
        if expression is not None and expression.result not in _BOOLEAN:
            found = type_checker.describe_result(expression.result)
            self.note(
                path,
                f"must give true or false, {error_hints.quote_expression(text)} gives {found}; add a comparison",
            )
            return None
        return expression

    def check_names(self, parsed: Parsed, *, path: str, allowed: AllowedNames) -> bool:
        """Return whether every name exists and is allowed here."""
        constants = self.constants if allowed.reads_constants else frozenset[str]()
        wrong = [root for root in parsed.roots if root not in allowed.names and root not in constants]
        known = {*allowed.names, *constants} if wrong else constants
        for root in wrong:
            if root in self.scope.types:
                message = allowed.rule
            else:
                hint = self.effort.hint(root, known)
                message = f"the name '{root}' is not defined{hint or f'; declare it, or {interpolation.AS_LITERAL}'}"
            self.note_name(root, message, parsed, path)
        return not wrong

    def check_collections(self, parsed: Parsed, *, path: str) -> bool:
        """Return whether it reads collections as lists, and other resources as objects."""
        wrong: dict[str, str] = {}
        for read in parsed.reads.reads:
            if not read.steps:
                continue
            if read.root in self.scope.collections and isinstance(read.steps[0], str):
                wrong[read.root] = (
                    f"'{read.root}' is a list of objects, because it has forEach; read all of them, e.g. with "
                    f"{read.root}.map(each, each.metadata.name), or one by its position, e.g. {read.root}[0]"
                )
            elif isinstance(read.steps[0], int) and self.scope.objects.get(read.root) and self.is_object(read.root):
                wrong[read.root] = f"'{read.root}' is one object, not a list; name a field of it, or give it forEach"
        for root, message in wrong.items():
            self.note_name(root, message, parsed, path)
        return not wrong

    def check_secrets(self, parsed: Parsed, *, path: str) -> bool:
        """Return whether it reads no `stringData` of a Secret, which the API server stores as `data`."""
        wrong = dict.fromkeys(
            read.root
            for read in parsed.reads.reads
            if read.is_required and read.root in self.secrets and read.steps[:1] == ("stringData",)
        )
        for root in wrong:
            message = (
                f"'{root}' has no stringData once it exists: the API server stores that as data, in Base64; "
                f"write string(base64.decode({root}.data.key))"
            )
            self.note_name(root, message, parsed, path)
        return not wrong

    def is_object(self, name: str) -> bool:
        """Return whether a name is one object with known fields."""
        return self.scope.types.get(name) == self.scope.objects.get(name)

    def check_fit(self, expression: ValidExpression, shape: Shape, *, path: str) -> None:
        """Check that a location of that shape accepts the result of a whole expression."""
        if not type_checker.fits(expression.result, shape):
            gives = type_checker.describe_result(expression.result)
            text = error_hints.quote_expression(expression.parsed.text)
            self.note(path, f"must be {literal_validator.name_type(shape)}, {text} gives {gives}; {advise(shape)}")

    def check_text(self, shape: Shape, *, path: str) -> None:
        """Check that a location of that shape accepts text, which an interpolated string always is."""
        if shape.type not in (Type.STRING, Type.OPEN):
            wanted = literal_validator.name_type(shape)
            self.note(path, f"must be {wanted}, a string with expressions in it is text; {advise(shape)}")

    def note_name(self, name: str, message: str, parsed: Parsed, path: str) -> None:
        """Record an error at the first place where an expression uses a name."""
        line, column = find_place(parsed.text, expressions.find_offset(parsed, name))
        self.note_faults((cel_environment.CelError(line=line, column=column, message=message),), parsed.text, path)

    def note_faults(
        self, faults: Collection[cel_environment.CelError], text: str, path: str, *, next_step: str = ""
    ) -> None:
        """Record the compiler's errors in the expression `text`."""
        for fault in faults:
            place = f"column {fault.column}" if fault.line == 1 else f"line {fault.line}, column {fault.column}"
            self.note(
                path,
                f"{fault.message} (at {place} of {error_hints.quote_expression(text)}){next_step if fault.is_syntax else ''}",
            )


def explain_literal(text: str) -> str:
    """Return the next step for a `${…}` that cannot be parsed, in case it is meant as text."""
    return f"; {interpolation.for_shell(text) if interpolation.is_like_shell(text) else interpolation.AS_LITERAL}"


def find_place(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of a position, both from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def advise(shape: Shape) -> str:
    """Suggest how to return a type that the location accepts."""
    match shape.type:
        case Type.STRING:
            return "convert with string()"
        case Type.INTEGER:
            return "make the whole string one expression that gives an integer, e.g. with int()"
        case Type.NUMBER:
            return "make the whole string one expression that gives a number, e.g. with double()"
        case Type.BOOLEAN:
            return "make the whole string one expression that gives true or false"
    return f"make the whole string one expression that gives {literal_validator.name_type(shape)}"
