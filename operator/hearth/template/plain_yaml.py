"""YAML read as kubectl reads it, and written so that kubectl reads the same back.

Values are those of JSON. kubectl's own words for true and numbers differ from those of PyYAML: `22:22` and `2024-01-01`
are text, `y`, `1e3` and `0o644` are not. Must not know what the documents mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

TAG = "tag:yaml.org,2002:"
BOOLEANS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}
INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
# In this order: what is no whole number may still be a float, as `08` is.
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
"""What a scalar without quotes may be besides text, and the characters that it may begin with."""
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
"""Of the whole numbers that kubectl keeps whole."""
EXACT = 2**53
"""Up to here a float that has no fraction is written as a whole number by whoever writes JSON, and means the same."""
UNLIMITED = 2**31 - 1
"""Characters in a line: breaking long ones would make them no easier to read, and harder to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a YAML text."""

    value: Any
    number: int
    """Counts from 1, empty documents included."""
    line: int
    """Where it begins, from 1."""


class Loader(yaml.CSafeLoader):
    """Makes the values of JSON alone, and takes no key twice in one mapping."""

    def construct_json(self, node: yaml.Node) -> Any:
        """The value of a node of any kind."""
        if isinstance(node, yaml.ScalarNode):
            return self.construct_plain(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.construct_object(item, deep=True) for item in node.value]
        return self.construct_unique(node)

    def construct_plain(self, node: yaml.ScalarNode) -> Any:
        """The value of a scalar."""
        text: str = node.value
        match node.tag.removeprefix(TAG):
            case "null":
                return None
            case "bool":
                return BOOLEANS[text.lower()]
            case "int":
                return parse_integer(text)
            case "float":
                return self.construct_finite(node)
            case "binary":
                return self.construct_binary(node)
            case _:
                return text

    def construct_finite(self, node: yaml.ScalarNode) -> Any:
        """A number; text where it is too large for one."""
        if "inf" in node.value.lower() or "nan" in node.value.lower():
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} is no number in JSON", node.start_mark)
        number = float(node.value.replace("_", ""))
        if not math.isfinite(number):
            return node.value
        return int(number) if number.is_integer() and abs(number) < EXACT else number

    def construct_binary(self, node: yaml.ScalarNode) -> str:
        """The text behind base 64."""
        try:
            return bytes(self.construct_yaml_binary(node)).decode()
        except UnicodeDecodeError as error:
            raise yaml.constructor.ConstructorError(None, None, "!!binary holds no text", node.start_mark) from error

    def construct_unique(self, node: yaml.Node) -> dict[str, Any]:
        """A mapping with text for keys; what `<<` merges in yields to what is stated."""
        assert isinstance(node, yaml.MappingNode)  # noqa: S101 -- the only kind of node that is left
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            if key_node.tag != f"{TAG}merge":
                key = self.construct_key(key_node)
                if key in seen:
                    message = f"the key {key!r} stands here a second time, first in line {seen[key]}"
                    raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
                seen[key] = key_node.start_mark.line + 1
        self.flatten_mapping(node)
        return {self.construct_key(key): self.construct_object(value, deep=True) for key, value in node.value}

    def construct_key(self, node: yaml.Node) -> str:
        """A key of JSON."""
        key = self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, str | int | float):
            return str(key)
        raise yaml.constructor.ConstructorError(None, None, "a key must be text", node.start_mark)


Loader.yaml_constructors = {
    # Sets, dates and whatever else YAML knows have no counterpart in JSON.
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
    """Writes everything out where it stands, text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- asked of each value
        """Always: anchors would come and go with the program's memory."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quoted where any reader might take it for something else."""
        return self.represent_scalar(f"{TAG}str", text, style="|" if "\n" in text else None)


Dumper.add_representer(str, Dumper.represent_text)
for _name, _pattern, _first in PLAIN:
    # Beside PyYAML's own, so that readers of either kind take text for text.
    Dumper.add_implicit_resolver(f"{TAG}{_name}", _pattern, [*_first, ""] if _name == "null" else list(_first))


def parse_documents(text: str) -> Iterator[Document]:
    """Each document that is not empty, one after the other. Raises yaml.YAMLError; see `describe`."""
    loader = Loader(text)
    number = 0
    try:
        while loader.check_node():
            number += 1
            node: Any = loader.get_node()
            value = loader.construct_document(node)
            if value is not None:
                yield Document(value=value, number=number, line=node.start_mark.line + 1)
    finally:
        loader.dispose()


def describe(error: yaml.YAMLError) -> str:
    """`line 12, column 3: …`: an error in one line."""
    mark = getattr(error, "problem_mark", None)
    sentences = (getattr(error, "context", None), getattr(error, "problem", None))
    text = ": ".join(sentence for sentence in sentences if sentence) or " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {text}" if mark is not None else text


def write(value: Any) -> str:
    """`value` as a YAML document, keys in their order, lines as long as they are."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, width=UNLIMITED, allow_unicode=True)
    return text


def parse_integer(text: str) -> int | float:
    """The number that an integer of YAML 1.1 or 1.2 states; a float where it is too large."""
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    is_old_octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
    number = sign * (int(digits, 8) if is_old_octal else int(digits, 0))
    return number if SMALLEST <= number <= LARGEST else float(number)
