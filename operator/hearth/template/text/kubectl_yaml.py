"""YAML parsed as kubectl parses it, and written so that kubectl reads the same values.

Values are those of JSON. The scalars of kubectl differ from those of PyYAML: `22:22` and `2024-01-01` are text, `y`,
`1e3` and `0o644` are not. Must not know what the documents mean.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from hearth.model.text import invisible
from hearth.template.text import yaml_values
from hearth.template.text.yaml_values import TAG, Bounds, Document, Excess

__all__ = ("TAG", "Bounds", "Document", "Excess")

BOOLEANS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}
INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
# In this order: a scalar that is not an integer may still be a float, as `08` is.
PLAIN = (
    (
        "bool",
        re.compile(r"(?:[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$"),
        "yYnNtTfFoO",
    ),
    ("null", re.compile(r"(?:~|null|Null|NULL|)$"), "~nN"),
    ("int", INTEGER, "-+0123456789"),
    ("float", FLOAT, "-+.0123456789"),
    ("merge", re.compile(r"<<$"), "<"),
)
"""The types of a scalar without quotes besides text, and the characters that it may begin with."""
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
"""The range of integers that kubectl does not convert to floats."""
EXACT = 2**53
"""Up to here, JSON writers write a float without a fraction as an integer, with the same meaning."""
LONGEST_INTEGER = 1_100
"""Digits: the largest float has 309 decimal or 1,024 binary ones."""
BOUNDS: Final = Bounds()
MISLEADING: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{invisible.INVISIBLE}]")
"""What text is quoted for and written as escapes. A reader must see what the text is."""
UNLIMITED = 2**31 - 1
"""Characters in a line: line breaks would make long lines no easier to read, and harder to compare."""


class Loader(yaml.CSafeLoader):
    """Knows only the tags of JSON values."""

    def construct_json(self, node: yaml.ScalarNode) -> Any:
        """Return the value of a scalar. Raises yaml.YAMLError."""
        kind = node.tag.removeprefix(TAG)
        try:
            return read_scalar(kind, node.value, node.start_mark)
        except ValueError:
            message = f"this value is not a valid {kind}; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from None


Loader.yaml_constructors = {
    # Sets, dates and the other YAML types have no counterpart in JSON.
    **{
        f"{TAG}{name}": Loader.construct_json
        for name in ("null", "bool", "int", "float", "binary", "str", "seq", "map", "value", "timestamp")
    },
    None: yaml.CSafeLoader.construct_undefined,
}
Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in PLAIN:
    Loader.add_implicit_resolver(f"{TAG}{_name}", _pattern, [*_first, ""] if _name == "null" else list(_first))


class Dumper(yaml.CSafeDumper):
    """Writes every value in place, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML requires it
        """Return true: anchors would depend on the program's memory."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote text that any parser might take for another type, or that a reader sees as another one."""
        style = '"' if MISLEADING.search(text) else "|" if "\n" in text else None
        return self.represent_scalar(f"{TAG}str", text, style=style)


Dumper.add_representer(str, Dumper.represent_text)
for _name, _pattern, _first in PLAIN:
    # In addition to PyYAML's own rules, so that both kinds of parsers take text for text.
    Dumper.add_implicit_resolver(f"{TAG}{_name}", _pattern, [*_first, ""] if _name == "null" else list(_first))


def parse_documents(text: str, bounds: Bounds = BOUNDS) -> Iterator[Document]:
    """Yield each document that is not empty, in order. Raises yaml.YAMLError; see `describe`."""
    return (found for found in read(text, bounds) if found is not None)


def read(text: str, bounds: Bounds = BOUNDS) -> Iterator[Document | None]:
    """Read the documents in pieces: None at intervals, when other work may run."""
    yaml_values.check_directives(text, bounds)
    try:
        loader = Loader(text)
        try:
            yield from yaml_values.Builder(loader, read_scalar, bounds).documents()
        finally:
            loader.dispose()
    except UnicodeError:
        raise yaml.YAMLError("contains characters that are not valid UTF-8") from None


def compose(text: str, bounds: Bounds = BOUNDS) -> yaml.Node | None:
    """Compose the nodes of the one document in a text, with the position of each value. Raises yaml.YAMLError."""
    for _ in read(text, bounds):
        pass
    root: yaml.Node | None = yaml.compose(text, Loader=Loader)
    return root


def describe(error: yaml.YAMLError) -> str:
    """Format an error in one line: `line 12, column 3: …`."""
    mark = getattr(error, "problem_mark", None)
    sentences = (getattr(error, "context", None), getattr(error, "problem", None))
    text = ": ".join(sentence for sentence in sentences if sentence) or " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {text}" if mark is not None else text


def write(value: Any) -> str:
    """Write `value` as a YAML document, with unchanged key order and unlimited line length.

    Characters that hide or reorder what stands beside them are written as escapes.
    """
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, width=UNLIMITED, allow_unicode=True)
    # libyaml leaves some as they are. Each text that has one is in double quotes, where an escape has the same meaning.
    return MISLEADING.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def read_scalar(kind: str, text: str, mark: yaml.Mark) -> Any:
    """Return the value of a scalar whose tag ends in `kind`.

    Raises ValueError if the text does not fit, yaml.YAMLError if the tag is not of JSON.
    """
    match kind:
        case "null":
            return None
        case "bool":
            return read_boolean(text)
        case "int":
            return parse_integer(text)
        case "float":
            return read_float(text, mark)
        case "binary":
            return read_binary(text, mark)
    return text


def read_boolean(text: str) -> bool:
    """Parse a boolean. Raises ValueError."""
    if text.lower() not in BOOLEANS:
        raise ValueError
    return BOOLEANS[text.lower()]


def read_float(text: str, mark: yaml.Mark) -> int | float | str:
    """Parse a number; text if it is too large for one. Raises ValueError."""
    if "inf" in text.lower() or "nan" in text.lower():
        raise yaml.constructor.ConstructorError(None, None, f"{text[:10]} is not a JSON number", mark)
    number = float(text.replace("_", ""))
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() and abs(number) < EXACT else number


def read_binary(text: str, mark: yaml.Mark) -> str:
    """Decode base 64 to text."""
    try:
        return base64.b64decode(text.encode("ascii")).decode()
    except ValueError:
        raise yaml.constructor.ConstructorError(None, None, "!!binary does not contain text", mark) from None


def parse_integer(text: str) -> int | float | str:
    """Parse an integer of YAML 1.1 or 1.2; a float if it is too large, text if that is too.

    Raises ValueError.
    """
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > LONGEST_INTEGER:
        return text
    is_old_octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
    number = sign * (int(digits, 8) if is_old_octal else int(digits, 0))
    try:
        return number if SMALLEST <= number <= LARGEST else float(number)
    except OverflowError:
        return text
