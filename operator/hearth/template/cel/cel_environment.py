"""Creates CEL environments with Hearth's functions, and rewords the errors of the CEL compiler for users.

`hearth.template.cel.type_checker` is the only other module that creates environments.
"""

from __future__ import annotations

import ctypes
import datetime
import enum
import functools
import hashlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson
from cel_expr_python import cel

from hearth.model import value_class
from hearth.template.cel import cel_values
from hearth.template.text import error_hints, quantity

NAMESPACES = frozenset({"base64", "cel", "google", "math", "optional", "strings"})
"""Prefixes of function names. They cannot be used as other names."""
TYPE_NAMES = frozenset("bool bytes double duration dyn int list map null_type string timestamp type uint".split())
"""Names that CEL itself assigns a value."""
LITERALS = frozenset({"false", "in", "null", "true"})
"""Words that cannot even follow a dot."""
KEYWORDS = LITERALS | frozenset(
    "as break const continue else for function if import let loop namespace package return var void while".split()
)
"""Words that CEL reserves."""

LISTED_FIELDS = 6
"""Maximum fields that a message lists; `stack` has three."""
DATA_FUNCTIONS: Final = frozenset({"toJson", "toYaml", "sha256", "merge", "sort", "sum"})
"""Hearth's own functions. Each result is the same for equal inputs, so that nothing is written again without a change."""
FUNCTION_NAMES = DATA_FUNCTIONS | frozenset(
    "all base64 bool bytes charAt contains double duration dyn endsWith exists exists_one filter format has indexOf int "
    "isQuantity join lastIndexOf lowerAscii map matches math optional orValue quantity quote replace reverse size split "
    "startsWith string strings substring timestamp trim type uint upperAscii value".split()
)
"""Names of functions and their prefixes, for hints."""

_CALL = r"\s*(?:\(|//)"
"""The text after the name of a function: its arguments, or a comment before them."""
_OPTIONAL_USES = re.compile(
    rf"\?|\boptional\b|\b(?:first|has|hasValue|last|optFlatMap|optMap|or|orValue|unwrapOpt|value){_CALL}"
)
"""Uses of optional values: their notation, the functions and macros of their extension, and `has`, which becomes one of
them."""
_LIBRARY_USES = re.compile(
    r"\b(?:base64|cel|math|strings)\b|\b(?:charAt|format|indexOf|join|lastIndexOf|lowerAscii|quote|replace|reverse|split"
    rf"|substring|trim|upperAscii){_CALL}"
)
"""The other functions and macros, or the prefixes of their names."""
Look: TypeAlias = Callable[[str], tuple[str, Iterable[str]]]
"""Maps the name of a protobuf message of Hearth to its displayed name and its fields."""
_IMMORTAL = 1 << 40
"""More references than any process ever drops."""


def _keep_none_alive() -> None:
    """Give `None` extra references that are never returned.

    The CEL wrapper returns `None` without counting the reference, so that every null in a result removes one
    permanently. Below Python 3.12, where `None` is not yet immortal, the process would abort after some thousand nulls.
    """
    if sys.version_info < (3, 12):
        ctypes.c_ssize_t.from_address(id(None)).value += _IMMORTAL


_keep_none_alive()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CelError:
    """One error of the compiler."""

    line: int
    column: int
    """Line and column start at 1."""
    message: str
    is_syntax: bool = False
    """Whether the text is not an expression at all, so that it may be meant as text."""


class CelCompileError(ValueError):
    """An expression that CEL rejects, with every error; with none if all errors can be ignored."""

    def __init__(self, faults: tuple[CelError, ...], *, is_final: bool = True) -> None:
        """Create the error. is_final: whether the expression is to blame, not its environment."""
        self.faults = faults
        self.is_final = is_final
        super().__init__("; ".join(fault.message for fault in faults))


def refuse(message: str, *, is_syntax: bool = False) -> CelCompileError:
    """Return the error of an expression that is rejected as a whole."""
    return CelCompileError((CelError(line=1, column=1, message=message, is_syntax=is_syntax),))


class Library(enum.Enum):
    """The extensions of CEL that an expression may need. Each takes 2.6 MiB and some milliseconds to load."""

    NONE = "none"
    OPTIONAL = "optional"
    """Optional values."""
    FULL = "full"
    """Also functions for texts, numbers and base 64, and `cel.bind`."""


def find_library(text: str) -> Library:
    """Find the extensions that an expression may need. A false match only costs memory."""
    if _LIBRARY_USES.search(text) is not None:
        return Library.FULL
    return Library.OPTIONAL if _OPTIONAL_USES.search(text) is not None else Library.NONE


@functools.cache
def load_extensions(library: Library) -> tuple[Any, ...]:
    """Load extensions. Most templates use none, or optional values only."""
    if library is Library.NONE:
        return ()
    from cel_expr_python.ext import ext_optional

    if library is Library.OPTIONAL:
        return (ext_optional.ExtOptional(),)
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_strings

    others = (ext_strings.ExtStrings(), ext_math.ExtMath(), ext_encoders.ExtEncoders(), ext_bindings.ExtBindings())
    return (*load_extensions(Library.OPTIONAL), *others)


def new_environment(
    *,
    library: Library,
    variables: Mapping[str, Any] | None = None,
    pool: Any = None,
    quantity_type: Any = cel.Type.STRING,
) -> Any:
    """Create an environment with Hearth's functions.

    quantity_type: the type of quantities: text for evaluation, a separate type for type checks.
    """
    return cel.NewEnv(
        descriptor_pool=pool,
        variables=variables or {},
        extensions=load_extensions(library),
        functions=[
            *quantity_functions(quantity_type),
            *data_functions(is_for_checks=quantity_type is not cel.Type.STRING),
        ],
    )


def quantity_functions(own: Any) -> list[Any]:
    """Return the quantity functions of the API server's CEL."""
    kinds = cel.Type

    def member(name: str, returns: Any, implementation: Callable[..., Any], *others: Any) -> Any:
        overload = cel.Overload(
            f"quantity_{name}", return_type=returns, parameters=[own, *others], is_member=True, impl=implementation
        )
        return cel.FunctionDecl(name, [overload])

    def either(name: str, implementation: Callable[[str, str], str]) -> Any:
        overloads = [
            cel.Overload(
                f"quantity_{name}_{suffix}",
                return_type=own,
                parameters=[own, other],
                is_member=True,
                impl=lambda left, right: implementation(left, str(right)),
            )
            for suffix, other in (("quantity", own), ("int", kinds.INT))
        ]
        return cel.FunctionDecl(name, overloads)

    def function(name: str, returns: Any, implementation: Callable[[str], Any]) -> Any:
        overload = cel.Overload(
            f"string_{name}", return_type=returns, parameters=[kinds.STRING], is_member=False, impl=implementation
        )
        return cel.FunctionDecl(name, [overload])

    return [
        function("quantity", own, quantity.normalize),
        function("isQuantity", kinds.BOOL, quantity.is_quantity),
        member("isGreaterThan", kinds.BOOL, lambda left, right: quantity.compare(left, right) > 0, own),
        member("isLessThan", kinds.BOOL, lambda left, right: quantity.compare(left, right) < 0, own),
        member("compareTo", kinds.INT, quantity.compare, own),
        member("asInteger", kinds.INT, quantity.as_integer),
        member("isInteger", kinds.BOOL, quantity.is_integer),
        member("asApproximateFloat", kinds.DOUBLE, quantity.as_float),
        member("sign", kinds.INT, quantity.sign),
        either("add", quantity.add),
        either("sub", quantity.subtract),
    ]


def data_functions(*, is_for_checks: bool) -> list[Any]:
    """Return the functions that templates need and CEL lacks: JSON, YAML, digests, merged maps, sorted lists, sums.

    is_for_checks: for the type checker, which knows types that no value has at run time.
    """
    kinds = cel.Type
    every = ("STRING", "INT", "UINT", "DOUBLE", "BOOL", "NULL", "MAP", "LIST", "BYTES", "TIMESTAMP", "DURATION")
    any_value = [[kinds.DYN]] if is_for_checks else [[getattr(kinds, name)] for name in every]

    def function(name: str, parameters: Sequence[list[Any]], returns: Any, implementation: Callable[..., Any]) -> Any:
        overloads = [
            cel.Overload(f"{name}_{at}", return_type=returns, parameters=each, is_member=False, impl=implementation)
            for at, each in enumerate(parameters)
        ]
        return cel.FunctionDecl(name, overloads)

    maps = [[kinds.DYN, kinds.DYN]] if is_for_checks else [[kinds.MAP, kinds.MAP]]
    lists = [[kinds.DYN]] if is_for_checks else [[kinds.LIST]]
    return [
        function("toJson", any_value, kinds.STRING, to_json),
        function("toYaml", any_value, kinds.STRING, to_yaml),
        function("sha256", [[kinds.STRING]], kinds.STRING, hash_text),
        function("merge", maps, kinds.MAP, merge_maps),
        function("sort", lists, kinds.LIST, sort_list),
        function("sum", lists, kinds.DYN if is_for_checks else kinds.DOUBLE, add_up),
    ]


def to_json(value: Any) -> str:
    """Write a value as JSON on one line, keys sorted. Raises UnrepresentableValue."""
    return orjson.dumps(to_plain(value), option=orjson.OPT_SORT_KEYS).decode()


def to_yaml(value: Any) -> str:
    """Write a value as YAML, keys sorted, without a line break at the end. Raises UnrepresentableValue."""
    from hearth.template.text import kubectl_yaml

    # A JSON round trip sorts the keys.
    return kubectl_yaml.write(orjson.loads(to_json(value))).rstrip("\n")


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it; nulls stay, unlike in a manifest. Raises UnrepresentableValue."""
    match value:
        case dict():
            return {cel_values.convert_key(key): to_plain(item) for key, item in value.items()}
        case list():
            return [to_plain(item) for item in value]
        case (
            None | bool() | int() | str() | float() | bytes() | bytearray() | datetime.datetime() | datetime.timedelta()
        ):
            return cel_values.convert(value)
    # An unsigned integer has its own class.
    return int(value)


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def merge_maps(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the entries of both maps; the second map wins."""
    return {**first, **second}


def sort_list(values: Sequence[Any]) -> list[Any]:
    """Return a list of texts or of numbers in order. Raises ValueError for any other."""
    is_text = all(isinstance(each, str) for each in values)
    if not is_text and not all(is_number(each) for each in values):
        raise ValueError("sort takes a list of texts or a list of numbers")
    return sorted(values)


def add_up(values: Sequence[Any]) -> float:
    """Return the sum of a list of numbers, or 0 for an empty list. Raises ValueError."""
    if not all(is_number(each) for each in values):
        raise ValueError("sum takes a list of numbers")
    return math.fsum(values)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that sorts among others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def compile_text(environment: Any, text: str, *, is_checked: bool, look: Look = lambda name: (name, ())) -> Any:
    """Compile an expression. Raises CelCompileError.

    look: describes a message when an expression reads a field that it lacks.
    """
    try:
        return environment.compile(text, disable_check=not is_checked)
    except RuntimeError as error:
        output = str(error)
        is_final = _FAULT.search(output) is not None
        raise CelCompileError(parse_faults(output, text, look), is_final=is_final) from None


_FAULT = re.compile(r"^(?:\w+: )?ERROR: <input>:(\d+):(\d+): (.*?)(?: \[\w+\])?$", re.MULTILINE)
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


def parse_faults(output: str, text: str, look: Look) -> tuple[CelError, ...]:
    """Parse the compiler's errors, except follow-up errors and errors that Hearth accepts."""
    complaints = _FAULT.findall(output)
    if any(message.startswith(_SYNTAX) for _, _, message in complaints):
        # Errors after the first syntax error only follow from it, and some have no position.
        complaints = complaints[:1]
    found = dict.fromkeys(
        CelError(
            line=int(line),
            column=int(column) + skip_dot(text, int(line), int(column)),
            message=reword_error(message, look),
            is_syntax=message.startswith(_SYNTAX) or _RESERVED.fullmatch(message) is not None,
        )
        for line, column, message in complaints
        if not _ECHO.search(message) and not _CHOICE_OF_NULL.search(message)
    )
    return tuple(found) if complaints else (CelError(line=1, column=1, message=clean(output)),)


def skip_dot(text: str, line: int, column: int) -> int:
    """Return the distance to the name of a field if the position is the dot before it."""
    lines = text.split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    return len(rest) - len(rest.lstrip(".?")) if rest.startswith(".") else 0


def clean(message: str) -> str:
    """Remove the status codes from a runtime message of CEL."""
    return _STATUS.sub("", _STATUS.sub("", message.strip()))


# A follow-up error, or an error about a type of Hearth, which is not the user's error.
_ECHO = re.compile(r"'\*error\*'|expression of type 'hearth_types_\d+\.\w+' cannot be the operand")
# `test ? value : null` drops a key; only a type checker rejects its two types.
_CHOICE_OF_NULL = re.compile(r"overload for '_\?_:_' applied to .*\bnull_type\b")
_OVERLOAD = re.compile(r"found no matching overload for '(\S+)' applied to '(.*)'")
_FIELD = re.compile(r"undefined field '(\w+)' not found in struct '([\w.]+)'")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'.*")
_EXPECTING = re.compile(r"^(Syntax error: .*) expecting \{.*\}$")
_TYPE_PACKAGE = re.compile(r"\bhearth_types_\d+\.")
_RESERVED = re.compile(r"reserved identifier: (\w+)")
_SYNTAX = "Syntax error: "
_BREAKS = (
    (re.compile(r"missing (.*) at '<EOF>'"), "{0} is missing at the end of the expression"),
    (re.compile(r"mismatched input '<EOF>' expecting ('.*')"), "the expression ends too early: {0} is missing"),
    (re.compile(r".* input '<EOF>'.*"), "the expression ends too early"),
    (re.compile(r"token recognition error at: '(['\"]).*", re.DOTALL), "the quote {0} is not closed"),
    (re.compile(r"token recognition error at: '(.*?)\s*'", re.DOTALL), "unexpected '{0}'"),
    (re.compile(r"(?:\w+ )+input '(.*?)'(?: expecting .*)?", re.DOTALL), "unexpected '{0}'"),
    (re.compile(r"missing (.*) at ('.*')"), "{0} is missing before {1}"),
)
"""Patterns of errors from CEL's parser, each with the text for users."""


def reword_break(message: str) -> str:
    """Reword a parser error. The message names the expected token only if there is exactly one."""
    for pattern, words in _BREAKS:
        if match := pattern.fullmatch(message):
            return words.format(*match.groups())
    return message


def reword_error(message: str, look: Look) -> str:
    """Reword an error of CEL's compiler for readers who do not know its internals."""
    if message.startswith(_SYNTAX):
        return reword_break(_EXPECTING.sub(r"\1", message).removeprefix(_SYNTAX))
    if match := _RESERVED.fullmatch(message):
        return f"'{match[1]}' is a word of CEL"
    if match := _FIELD.fullmatch(message):
        name, fields = look(match[2])
        listed = sorted(fields)
        hint = error_hints.did_you_mean(match[1], listed)
        others = f"; it has {error_hints.list_words(listed)}" if not hint and 0 < len(listed) <= LISTED_FIELDS else ""
        return f"there is no field '{match[1]}' in {name}{hint or others}"
    message = strip_package(message)
    if match := _OVERLOAD.fullmatch(message):
        next_step = advise(match[1], match[2])
        return f"{name_operator(match[1])} cannot be applied to {match[2]}; {next_step}"
    if match := _UNDECLARED.fullmatch(message):
        hint = error_hints.did_you_mean(match[1], FUNCTION_NAMES)
        return f"there is no function or name '{match[1]}'{hint or '; docs/language.md lists all functions'}"
    return message[0].lower() + message[1:]


def advise(operator: str, operands: str) -> str:
    """Suggest a fix if an operator does not accept its operands."""
    if "null_type" in operands:
        return "test with has()"
    if operator.startswith("_[") and operands.endswith("string)"):
        return "name fields after a dot"
    return "convert with string(), int() or double()"


def strip_package(message: str) -> str:
    """Replace the names of Hearth's own types in `message` with their displayed names."""
    return _TYPE_PACKAGE.sub("", message)


_SPELT = {"_?_:_": "? :", "_[_]": "[ ]", "_?._": ".?", "_[?_]": "[? ]", "-_": "-", "!_": "!", "@in": "in"}


def name_operator(function: str) -> str:
    """Return `'+'` for `_+_`, `size()` for `size`."""
    if function in _SPELT:
        return f"'{_SPELT[function]}'"
    operator = function.strip("_@")
    return f"{operator}()" if operator.replace("_", "").isalnum() else f"'{operator}'"
