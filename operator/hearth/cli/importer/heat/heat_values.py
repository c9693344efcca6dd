"""Values of a Heat template during its conversion: JSON that may contain expressions.

The size of each value is limited, so that a small template cannot expand to a huge one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from hearth.model import limits, value_class
from hearth.template.text import interpolation, kubectl_yaml

TEXT_LENGTH: Final = limits.SOURCE_BYTES
"""Maximum number of characters of one text, including all inserted values."""
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORDS: Final = re.compile(r"[\w .,:;/@%+=#&()*<>|!?-]*", re.ASCII)
TRUE: Final = ("true", "t", "yes", "on", "y", "1")
"""Texts that Heat accepts as true, in lower case."""
OPTIONAL: Final = "optional"
"""Type of an expression that reads a conditional resource.

If the resource is absent, a field with only this expression is omitted.
"""
CSV: Final = "csv"
"""Type of a `comma_delimited_list`, which Heat joins when it is part of a text."""


class Lost(Exception):
    """A value that has no equivalent, with the reason."""


@value_class.dataclass(frozen=True, slots=True)
class Expression:
    """An expression and the type of its value, if known. Only `make_expression` creates it."""

    text: str
    type: str = ""


@value_class.dataclass(frozen=True, slots=True)
class Mixed:
    """A text with expressions. Only `join` creates it."""

    parts: tuple[str | Expression, ...]


@value_class.dataclass(frozen=True, slots=True)
class Finished:
    """A value that is written unchanged: the template of a nested Stack, which has its own expressions."""

    value: Any


Value: TypeAlias = Any
"""JSON in which any value can be an Expression, Mixed or Finished."""


def make_expression(text: str, type_: str = "") -> Expression:
    """Return an expression. Raises Lost if no template can contain it."""
    if len(text) > limits.EXPRESSION_LENGTH:
        raise Lost(f"produces an expression of more than {limits.EXPRESSION_LENGTH} characters")
    return Expression(text, type_)


def join(parts: Iterable[str | Expression]) -> str | Mixed:
    """Return the parts as one text. Raises Lost if it is too long."""
    joined: list[str | Expression] = []
    size = 0
    for part in parts:
        size += len(part) if isinstance(part, str) else len(part.text)
        if size > TEXT_LENGTH:
            raise Lost(f"produces a text of more than {TEXT_LENGTH} characters")
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    if sum(isinstance(each, Expression) for each in joined) > limits.EXPRESSIONS_IN_TEXT:
        raise Lost(f"produces a text with more than {limits.EXPRESSIONS_IN_TEXT} expressions")
    if all(isinstance(each, str) for each in joined):
        return "".join(map(str, joined))
    return Mixed(tuple(joined))


def list_parts(value: Value) -> Sequence[str | Expression]:
    """Return the parts of a value inside a text, as Heat writes it."""
    match value:
        case Mixed():
            return value.parts
        case Expression():
            return [write_as_text(value)]
        case str():
            return [value]
        case None:
            return [""]
        case bool() | int() | float():
            return [write_number(value)]
        case _:
            if is_plain(value):
                return [orjson.dumps(value).decode()]
            return [make_expression(f"toJson({to_cel(value)})", "string")]


def write_as_text(expression: Expression) -> Expression:
    """Return an expression that can be part of a text."""
    match expression.type:
        case "csv":
            return make_expression(f"{expression.text}.join(',')", "string")
        case "list" | "map":
            return make_expression(f"toJson({expression.text})", "string")
        case "optional":
            return make_expression(write_present(expression), "string")
        case _:
            return expression


def write_present(expression: Expression) -> str:
    """Return an expression that always has a value: an empty text if the resource is absent."""
    return f"{expression.text}.orValue('')" if expression.type == OPTIONAL else expression.text


def is_plain(value: Value) -> bool:
    """Return whether a value contains no expressions."""
    if isinstance(value, Mapping):
        return all(map(is_plain, value.values()))
    if isinstance(value, list):
        return all(map(is_plain, value))
    return not isinstance(value, Expression | Mixed | Finished)


def to_manifest(value: Value) -> Any:
    """Return a value in the form of a template. Raises Lost for a key that no template can contain."""
    match value:
        case Finished():
            return value.value
        case Expression():
            return f"${{{value.text}}}"
        case Mixed():
            return "".join(
                interpolation.escape(each) if isinstance(each, str) else to_manifest(each) for each in value.parts
            )
        case str():
            return interpolation.escape(value)
        case dict():
            if any(interpolation.has_expressions(str(key)) for key in value):
                raise Lost("has a key that contains `${`, which starts an expression in a template")
            return {str(key): to_manifest(each) for key, each in value.items()}
        case list():
            return [to_manifest(each) for each in value]
        case _:
            return value


def to_cel(value: Value) -> str:
    """Return a value as an expression. Raises Lost if it is too long."""
    match value:
        case Expression():
            text = write_present(value)
        case Mixed():
            parts = [quote(each) if isinstance(each, str) else write_operand(each) for each in value.parts]
            text = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
        case str():
            text = quote(value)
        case None:
            text = "null"
        case bool() | int() | float():
            text = write_number(value)
        case dict():
            text = "{" + ", ".join(f"{quote(str(key))}: {to_cel(each)}" for key, each in value.items()) + "}"
        case _:
            text = "[" + ", ".join(map(to_cel, value)) + "]"
    return make_expression(text).text


def write_operand(expression: Expression) -> str:
    """Return an expression that always evaluates to a string."""
    text = write_as_text(expression)
    return text.text if text.type == "string" else f"string({text.text})"


def quote(text: str) -> str:
    """Return a text as a CEL string literal."""
    return f"'{text}'" if WORDS.fullmatch(text) else orjson.dumps(text).decode()


def write_number(value: float) -> str:
    """Return a boolean or a number as text."""
    return orjson.dumps(value).decode()


def to_string(value: Value) -> Value:
    """Return a value as a text."""
    match value:
        case Expression(type="integer" | "number" | "boolean"):
            return make_expression(f"string({value.text})", "string")
        case Expression(type="optional"):
            return value
        case Expression():
            return write_as_text(value)
        case str() | Mixed() | None:
            return value
        case _:
            return join(list_parts(value))


def to_integer(value: Value) -> Value:
    """Return a value as a whole number. Raises Lost for any other value."""
    match value:
        case bool() | dict() | list():
            raise Lost("is not a number")
        case Expression():
            return value if value.type == "integer" else make_expression(f"int({to_cel(value)})", "integer")
        case Mixed():
            return make_expression(f"int({to_cel(value)})", "integer")
        case int() | None:
            return value
        case _:
            try:
                return int(float(value))
            except (ValueError, OverflowError) as error:
                raise Lost("is not an integer") from error


def to_boolean(value: Value) -> Value:
    """Return a value as a boolean. Raises Lost for any other value."""
    match value:
        case bool() | None:
            return value
        case Expression(type="boolean"):
            return value
        case Expression(type="string"):
            return make_expression(f"{value.text}.lowerAscii() in {to_cel(list(TRUE))}", "boolean")
        case Expression():
            return value
        case str() | int():
            return str(value).lower() in TRUE
        case _:
            raise Lost("is not a boolean")


def to_type(value: Value, type_: str) -> Value:
    """Return a value in a type of Hearth's parameters; unchanged for lists and objects. Raises Lost."""
    match type_:
        case "string":
            return to_string(value)
        case "integer":
            return to_integer(value)
        case "boolean":
            return to_boolean(value)
        case _:
            return value


def to_list(value: Value) -> list[Value]:
    """Return the elements of a list in the template, which can also be written as text. Raises Lost."""
    if isinstance(value, str):
        return [each.strip() for each in value.split(",")] if value else []
    if not isinstance(value, list):
        raise Lost("is a list that is only known at run time; list its elements in the template")
    return value


def select(expression: Expression, path: Sequence[Value]) -> Expression:
    """Return the part of an expression's value at a path of keys and positions. Raises Lost."""
    text = expression.text
    for step in path:
        match step:
            case int():
                text += f"[{step}]"
            case str() if step.isdecimal() and expression.type in (CSV, "list"):
                text += f"[{step}]"
            case str() if IDENTIFIER.fullmatch(step):
                text += f".{step}"
            case str():
                text += f"[{quote(step)}]"
            case Expression() if expression.type in (CSV, "list"):
                text += f"[{to_integer(step).text}]"
            case _:
                text += f"[{to_cel(step)}]"
    if not path or expression.type == OPTIONAL:
        return make_expression(text, expression.type)
    return make_expression(text, "string" if expression.type == CSV else "")


def to_yaml(value: Value) -> Value:
    """Return a value written as YAML."""
    return kubectl_yaml.write(value) if is_plain(value) else make_expression(f"toYaml({to_cel(value)})", "string")
