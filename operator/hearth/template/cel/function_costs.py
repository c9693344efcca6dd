"""An upper bound of the cost and the result of each CEL function, by the bounds of its operands.

Knows what the functions do. Must not know the syntax tree, nor limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from hearth.template.cel import syntax_tree, value_bounds
from hearth.template.cel.value_bounds import SCALAR, STEP, TEXT_COPY, Bound, Meter

SEARCH = 0.035
"""Microseconds for a byte of text that is searched."""
INSTRUCTION_TIME, INSTRUCTION_BYTES = 1.0, 200
"""Microseconds and bytes for one instruction of a compiled pattern."""
MATCH = 0.01
"""Microseconds for each instruction and character, if all instructions are tried at each character."""
UNICODE_CLASS = 1_200
MOST_REPEATED = 1_000
"""RE2 rejects more, including nested repetitions."""
LARGEST_PATTERN = 1_000_000
_REPETITION = re.compile(r"\{(?:\d*,)?(\d+),?\}")
_CLASS = re.compile(r"\\[pPC]|\[\^|\\[DSW]")
LONGEST_NUMBER = 400
"""Characters of a number as text, or of a number that a pattern of `format` writes with its largest precision."""
MOST_PRECISION = 1_100
PYTHON = 40.0
"""Microseconds for a call of a function that is written in Python."""
YAML = 60.0
"""Microseconds to write one value, or a character that may need quotes, as YAML."""
HASH = 0.01
"""Microseconds for a byte of a digest."""
LONGEST_INTEGER = 30
"""Characters of a number as JSON, with what stands around it."""
DEEPEST = 100
"""Levels of a value: see `limits.JSON_DEPTH`."""
QUANTITY = 40.0
"""Microseconds for a function of quantities, which is written in Python and exact."""

Function: TypeAlias = Callable[[Meter, Sequence[Bound]], Bound]


def scalar(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that reads its operands and returns a number, a boolean or similar."""
    meter.add(STEP + sum(each.copy_time for each in given))
    return SCALAR


def number(meter: Meter, _given: Sequence[Bound]) -> Bound:
    """Bound a function that reads only the outermost level of its operands."""
    meter.add(STEP)
    return SCALAR


def linear(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns a text as long as its operands, or as a number."""
    return _rewrite(meter, given, growth=1)


def encode(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a text in base 64, which has four characters for three bytes."""
    return _rewrite(meter, given, growth=1.4)


def quote(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a quoted text, of which each character may be escaped."""
    return _rewrite(meter, given, growth=2)


def _rewrite(meter: Meter, given: Sequence[Bound], *, growth: float) -> Bound:
    whole = value_bounds.join(*given)
    size = growth * whole.text + LONGEST_NUMBER
    return meter.make(Bound(1, size, size), time=whole.copy_time * 10)


def calculate(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function of quantities, which returns a number or a quantity."""
    return meter.make(Bound(1, LONGEST_NUMBER, 0), time=QUANTITY + sum(each.copy_time for each in given))


def same(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns one of its operands."""
    meter.add(STEP)
    return given[0] if len(given) == 1 else value_bounds.widest(given)


def inner(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns a part of the first operand."""
    return meter.resolve(given[0].pick(given[1].constant if len(given) > 1 else None))


def concatenate(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound sums, and concatenations of texts and lists."""
    return meter.make(value_bounds.join(*given), time=STEP)


def search(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a search for one text in another."""
    meter.add(STEP + _bound_search(given[0], given[1] if len(given) > 1 else SCALAR))
    return SCALAR


def _bound_search(text: Bound, bound: Bound) -> float:
    """Return the microseconds to find all places of a text, each of which may differ from it in the end only."""
    return text.text * (SEARCH + min(text.text, bound.text) * TEXT_COPY / 10)


def match(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a match in RE2, which compiles the pattern each time.

    The match is linear in the text, multiplied by the size of the unfolded pattern.
    """
    pattern = given[1].constant if len(given) > 1 else None
    instructions = count_instructions(pattern) if isinstance(pattern, str) else LARGEST_PATTERN
    meter.add(instructions * INSTRUCTION_TIME, instructions * INSTRUCTION_BYTES)
    meter.add(STEP + given[0].text * instructions * MATCH)
    return SCALAR


def count_instructions(pattern: str) -> float:
    """Estimate an upper limit of the RE2 instructions of an unfolded pattern."""
    repeated = 1
    for counts in _REPETITION.findall(pattern):
        repeated *= max(int(counts[-4:]), 1)
    # A Unicode class has some hundred ranges of bytes.
    classes = len(_CLASS.findall(pattern))
    return min((len(pattern) + UNICODE_CLASS * classes) * min(repeated, MOST_REPEATED), LARGEST_PATTERN)


def replace(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a replacement: each character may be replaced by the new text."""
    text, old, new = (*given, SCALAR, SCALAR)[:3]
    spans = len(old.constant) if isinstance(old.constant, str) and old.constant else 1
    size = text.text + (text.text / spans + 1) * new.text
    return meter.make(Bound(1, size, 0), time=_bound_search(text, old))


def split(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a split: at most as many parts as there are characters."""
    text, separator = (*given, SCALAR)[:2]
    parts = Bound(text.text + 2, text.text, text.text + 1, Bound(1, text.text, 0))
    return meter.make(parts, time=_bound_search(text, separator))


def join_list(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the elements joined with the separator."""
    over, separator = given[0], given[1].text if len(given) > 1 else 0
    size = over.text + over.count * separator
    return meter.make(Bound(1, size, 0), time=over.copy_time)


def write_format(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the format of each value as text, including its fixed parts."""
    whole = value_bounds.join(*given)
    size = 8 * whole.text + whole.nodes * MOST_PRECISION
    return meter.make(Bound(1, size, 0), time=whole.copy_time * 4)


def write_json(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a value written as JSON: a character may take six, each value its punctuation."""
    return _write(meter, given, time=0.4, punctuation=LONGEST_INTEGER)


def write_yaml(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a value written as YAML, by a library in Python: each value has a line with its indent, and may be folded."""
    return _write(meter, given, time=YAML, punctuation=LONGEST_INTEGER + 2 * DEEPEST)


def _write(meter: Meter, given: Sequence[Bound], *, time: float, punctuation: float) -> Bound:
    whole = value_bounds.join(*given)
    size = 6 * whole.text + whole.nodes * punctuation
    spent = PYTHON + whole.copy_time * 10 + (whole.nodes + whole.text) * time
    return meter.make(Bound(1, size, size), time=spent)


def hash_text(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a digest, which has 64 characters."""
    return meter.make(Bound(1, 64, 64), time=PYTHON + sum(each.text for each in given) * HASH)


def merge(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the entries of two maps, which cross into Python and back."""
    whole = value_bounds.join(*given)
    return meter.make(whole, time=PYTHON + whole.copy_time * 20 + whole.nodes)


def sort(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a sorted list. Texts may differ in their ends only."""
    values = given[0]
    rounds = math.log2(max(2.0, values.count))
    spent = PYTHON + values.copy_time * 20 + values.nodes + rounds * (values.count * STEP + values.text * TEXT_COPY)
    return meter.make(values, time=spent)


def add_up(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the sum of a list."""
    meter.add(PYTHON + given[0].copy_time * 20 + given[0].nodes)
    return SCALAR


def boundless(meter: Meter, _given: Sequence[Bound]) -> Bound:
    """Return no bound: an unknown function may take any time."""
    meter.add(math.inf, math.inf)
    return Bound(math.inf, math.inf, math.inf)


_NUMBERS = (
    *("_-_", "-_", "_*_", "_/_", "_%_", "!_", "_&&_", "_||_", "@not_strictly_false", "__not_strictly_false__"),
    *("hasValue", "optional.none", "type", "bool"),
)
_SAME = ("or", "orValue", "value", "optional.of", "optional.ofNonZeroValue", "dyn")
_SCALARS = (
    *("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_in_", "in"),
    *("size", "int", "uint", "double", "timestamp", "duration", "startsWith", "endsWith", "charAt"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
ENCODE = "base64.encode"
QUANTITIES = frozenset(
    {
        *("quantity", "isQuantity", "add", "sub", "isGreaterThan", "isLessThan", "compareTo"),
        *("asInteger", "isInteger", "asApproximateFloat", "sign"),
    }
)
_LINEAR = (*("string", "bytes", "lowerAscii", "upperAscii", "trim", "reverse", "substring", "base64.decode"),)
FUNCTIONS: Mapping[str, Function] = {
    **dict.fromkeys(_NUMBERS, number),
    **dict.fromkeys(_SCALARS, scalar),
    **dict.fromkeys(_LINEAR, linear),
    ENCODE: encode,
    "strings.quote": quote,
    **dict.fromkeys(QUANTITIES, calculate),
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys((syntax_tree.INDEX, syntax_tree.INDEX_OPTIONALLY, syntax_tree.SELECT_OPTIONALLY), inner),
    "_+_": concatenate,
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), search),
    "matches": match,
    "replace": replace,
    "split": split,
    "join": join_list,
    "format": write_format,
    "toJson": write_json,
    "toYaml": write_yaml,
    "sha256": hash_text,
    "merge": merge,
    "sort": sort,
    "sum": add_up,
}
HARMLESS = frozenset({*_NUMBERS, *_SCALARS, *_LINEAR, *_SAME, *QUANTITIES, ENCODE, "_?_:_", "_+_"}) | {
    syntax_tree.INDEX,
    syntax_tree.INDEX_OPTIONALLY,
    syntax_tree.SELECT_OPTIONALLY,
}
"""Functions whose cost is bounded by small inputs, for any use in an expression without loops."""


def count_steps(name: str) -> float:
    """Return how many ordinary nodes of a tree a harmless function takes the time of."""
    if name in QUANTITIES:
        return QUANTITY / STEP
    # Within others, it makes its text longer each time.
    return 8 if name == ENCODE else 1


def find_function(name: str) -> Function:
    """Find the cost rule of a call."""
    return scalar if name.startswith("math.") else FUNCTIONS.get(name, boundless)
