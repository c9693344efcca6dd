"""Computes an upper bound of an expression's time and memory, from its syntax tree and the sizes of its inputs.

The bound may be many times too high, but is never too low. An estimator is created once per text, and computes the
bound for each evaluation. Most expressions only select fields and compare them, and need no bound. The limits are in
`hearth.model.limits`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from hearth.model import limits, value_class
from hearth.template.cel import cel_environment, syntax_tree, value_sizes
from hearth.template.cel.value_sizes import (
    NODE_BYTES,
    NODE_COPY,
    SCALAR,
    STEP,
    TEXT_COPY,
    Bound,
    Meter,
    TooMuch,
    Weight,
)

ITERATIONS = 10_000
"""The number of iterations after which CEL stops an evaluation."""
START = 5.0
"""Microseconds for any evaluation."""
LIST_COPY = 0.02
"""Microseconds for each element when a list grows by one: CEL copies the list each time."""
LIST_COPY_BYTES = 16
"""Bytes of memory for each of these elements, which are freed only after the evaluation."""
SMALL_COUNT = 8
"""Maximum concatenation operands, or values in lists and maps, for which an expression over small inputs needs no
bound."""

HARMLESS_NODES = 64
"""Maximum nodes of such an expression: each comparison of two small inputs takes up to 25 microseconds."""

Scope: TypeAlias = Mapping[str, Bound]
Rule: TypeAlias = Callable[[Scope, Meter], Bound]
"""Bounds one node of the tree, given the bounds of its variables."""
SEARCH = 0.035
"""Microseconds for a byte of text that is searched."""
INSTRUCTION_TIME, INSTRUCTION_BYTES = 1.0, 200
"""Microseconds and bytes for one instruction of a compiled pattern."""
MATCH = 0.01
"""Microseconds for each instruction and character, if all instructions are tried at each character."""
UNICODE_CLASS = 1_200
"""Instructions of a class with some hundred ranges of bytes."""
ANY_CHARACTER, GROUP = 12, 2
"""Instructions of the dot, which matches up to four bytes, and of a group."""
IGNORED_CASE = 4
"""Factor of a pattern that ignores case."""
MOST_REPEATED = 1_000
"""RE2 rejects more repetitions, including nested ones."""
LARGEST_PATTERN = 1_000_000
LONGEST_PATTERN = 4_096
"""Characters of a pattern that is read to count its instructions. A longer one exceeds the limit in any case."""
QUOTED = "\\Q"
"""Begins a quotation in a pattern."""
_TOKEN = re.compile(
    r"\{(?P<least>\d+)(?P<open>,?)(?P<most>\d*)\}|\\[pPx]\{[^}]*\}|\\[pP].|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|.",
    re.DOTALL,
)
"""A repetition, an escaped character or class, a class in brackets, or one character."""
_WIDE = re.compile(r"\\[pPC]|\[\^|\[:\^|\\[DSW]")
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")
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
"""Characters of a number in JSON, with the punctuation around it."""
DEEPEST = 100
"""Levels of a value: see `limits.JSON_DEPTH`."""
QUANTITY = 40.0
"""Microseconds for a function of quantities, which is written in Python and exact."""
READ = 0.05
"""Microseconds for a byte of text that is read as a number, a time or characters, or passed to Python and back."""

Function: TypeAlias = Callable[[Meter, Sequence[Bound]], Bound]


def scalar(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that reads its operands and returns a number, a boolean or similar."""
    meter.add(STEP + sum(each.copy_time for each in given))
    return SCALAR


def number(meter: Meter, _given: Sequence[Bound]) -> Bound:
    """Bound a function that reads only the outermost level of its operands."""
    meter.add(STEP)
    return SCALAR


def rewrite(meter: Meter, given: Sequence[Bound], *, growth: float) -> Bound:
    """Bound a function that returns a text `growth` times as long as its operands, or a number as text."""
    whole = value_sizes.join(*given)
    size = growth * whole.text + LONGEST_NUMBER
    return meter.make(Bound(1, size, size), time=whole.copy_time * 10)


def calculate(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function of quantities, which returns a number or a quantity."""
    return meter.make(
        Bound(1, LONGEST_NUMBER, 0), time=QUANTITY + sum(each.copy_time + each.text * READ for each in given)
    )


def read(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that decodes its operand character by character, and returns a time or one character."""
    meter.add(STEP + sum(each.copy_time + each.text * READ for each in given))
    return SCALAR


def same(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns one of its operands."""
    meter.add(STEP)
    return given[0] if len(given) == 1 else value_sizes.widest(given)


def inner(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns a part of the first operand."""
    return meter.pick(given[0], given[1].constant if len(given) > 1 else None)


def concatenate(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound sums, and concatenations of texts and lists."""
    return meter.make(value_sizes.join(*given), time=STEP)


def search(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a search for one text in another."""
    meter.add(STEP + _bound_search(given[0], given[1] if len(given) > 1 else SCALAR))
    return SCALAR


def _bound_search(text: Bound, bound: Bound) -> float:
    """Microseconds to find all occurrences of a text in the worst case, where each candidate differs only at its end."""
    return text.text * (SEARCH + min(text.text, bound.text) * TEXT_COPY / 10)


def match(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a match in RE2, which compiles the pattern each time.

    The match is linear in the text, multiplied by the size of the unfolded pattern.
    """
    pattern = given[1].constant if len(given) > 1 else None
    is_counted = isinstance(pattern, str) and len(pattern) <= LONGEST_PATTERN
    instructions = count_instructions(pattern) if is_counted else LARGEST_PATTERN
    meter.add(instructions * INSTRUCTION_TIME, instructions * INSTRUCTION_BYTES)
    meter.add(STEP + given[0].text * instructions * MATCH)
    return SCALAR


@functools.lru_cache(maxsize=1_024)
def count_instructions(pattern: str) -> float:
    """Estimate an upper limit of the RE2 instructions of an unfolded pattern."""
    if QUOTED in pattern:
        # Brackets within a quotation have no meaning.
        return LARGEST_PATTERN
    groups = [0.0]
    """The instructions of each open group so far."""
    once = last = 0.0
    """The instructions without repetitions, and those of the part that a repetition repeats."""
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token["least"] is not None:
            times = max(int(token["least"][:5]) + len(token["open"]), int(token["most"][:5] or 0), 1)
            # An optional copy takes one instruction more.
            groups[-1] += last * (times - 1) + times
            last = last * times + times
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        else:
            last = _count_in_token(text)
            once += last
            groups[-1] += last
            if text == "(":
                groups.append(GROUP)
    count = min(sum(groups), once * MOST_REPEATED) * (IGNORED_CASE if _IGNORES_CASE.search(pattern) else 1)
    return min(count, LARGEST_PATTERN)


def _count_in_token(text: str) -> float:
    """Estimate the instructions of a character or class."""
    if text == ".":
        return ANY_CHARACTER
    return len(text.encode(errors="replace")) + UNICODE_CLASS * len(_WIDE.findall(text))


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
    whole = value_sizes.join(*given)
    size = 8 * whole.text + whole.nodes * MOST_PRECISION
    return meter.make(Bound(1, size, 0), time=whole.copy_time * 4)


def write(meter: Meter, given: Sequence[Bound], *, time: float, punctuation: float) -> Bound:
    """Bound a value written as JSON or YAML, where a character may take six.

    time: microseconds for a value or character; punctuation: characters around each value.
    """
    whole = value_sizes.join(*given)
    size = 6 * whole.text + whole.nodes * punctuation
    spent = PYTHON + whole.copy_time * 10 + (whole.nodes + whole.text) * time
    return meter.make(Bound(1, size, size), time=spent)


def hash_text(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a digest, which has 64 characters."""
    return meter.make(Bound(1, 64, 64), time=PYTHON + sum(each.text for each in given) * HASH)


def merge(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the entries of two maps, which cross into Python and back."""
    whole = value_sizes.join(*given)
    return meter.make(whole, time=PYTHON + whole.copy_time * 20 + whole.nodes)


def sort(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a sorted list. In the worst case, texts differ only at their ends."""
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
TIME_PARTS = (
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
"""Functions of a time, with an optional time zone."""
_SCALARS = (
    *("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_in_", "in"),
    *("size", "int", "uint", "double", "startsWith", "endsWith"),
    *TIME_PARTS,
)
_READERS = ("timestamp", "duration", "charAt")
ENCODE = "base64.encode"
QUANTITIES = frozenset(
    "quantity isQuantity add sub isGreaterThan isLessThan compareTo asInteger isInteger asApproximateFloat sign".split()
)
_LINEAR = ("string", "bytes", "lowerAscii", "upperAscii", "trim", "reverse", "substring", "base64.decode")
FUNCTIONS: Mapping[str, Function] = {
    **dict.fromkeys(_NUMBERS, number),
    **dict.fromkeys(_SCALARS, scalar),
    **dict.fromkeys(_READERS, read),
    **dict.fromkeys(_LINEAR, functools.partial(rewrite, growth=1)),
    # Base 64 has four characters for three bytes.
    ENCODE: functools.partial(rewrite, growth=1.4),
    # Each character may be escaped.
    "strings.quote": functools.partial(rewrite, growth=2),
    **dict.fromkeys(QUANTITIES, calculate),
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys(syntax_tree.STEPS, inner),
    "_+_": concatenate,
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), search),
    "matches": match,
    "replace": replace,
    "split": split,
    "join": join_list,
    "format": write_format,
    "toJson": functools.partial(write, time=0.4, punctuation=LONGEST_INTEGER),
    # A library in Python writes it: each value has a line with its indent, and may be folded.
    "toYaml": functools.partial(write, time=YAML, punctuation=LONGEST_INTEGER + 2 * DEEPEST),
    "sha256": hash_text,
    "merge": merge,
    "sort": sort,
    "sum": add_up,
}
SLOW = frozenset((*_READERS, *_LINEAR, *QUANTITIES, ENCODE))
"""Functions that take many times as long for a text as copying it."""
HARMLESS = syntax_tree.STEPS.union(_NUMBERS, _SCALARS, _SAME, SLOW, ("_?_:_", "_+_"))
"""Functions whose cost is bounded by small inputs, for a few uses of each in an expression without loops."""


def count_steps(name: str) -> float:
    """Return the time of a harmless function, as a number of ordinary nodes of a tree."""
    if name in QUANTITIES:
        return QUANTITY / STEP
    if name in _READERS:
        return READ / TEXT_COPY
    # Nested calls make the text longer each time.
    return 8 if name == ENCODE else 1


def find_function(name: str) -> Function:
    """Find the cost rule of a call."""
    return scalar if name.startswith("math.") else FUNCTIONS.get(name, boundless)


@value_class.dataclass(frozen=True, slots=True)
class Cost:
    """The maximum cost of an evaluation."""

    time: float
    """Microseconds."""
    memory: float
    """Bytes."""


BOUNDLESS = Cost(time=math.inf, memory=math.inf)


@value_class.dataclass(frozen=True, slots=True)
class Estimator:
    """Bounds one expression for any inputs."""

    rule: Rule = field(repr=False)
    steps: float
    """Nodes of the tree; a call that takes longer counts as several."""
    constants: Weight
    """The lists, maps and texts that the expression itself contains."""
    depth: float
    """The depth of nested loops; infinite if a full estimate is required."""

    def is_surely_small(self, size: Weight) -> bool:
        """Return whether inputs of that size surely stay within the limits of one evaluation."""
        if self.depth > 1:
            return False
        nodes, text = size.nodes + self.constants.nodes, size.text + self.constants.text
        once = self.steps * (STEP + nodes * NODE_COPY + text * TEXT_COPY)
        most = limits.EVALUATION_MICROSECONDS
        return once * max(nodes, 1) <= most and nodes**2 * LIST_COPY <= most

    def estimate(self, data: Mapping[str, Any]) -> Cost:
        """Return the bound for these inputs; infinite if it exceeds the limit of one evaluation."""
        scope = {name: Bound.of((value,)) for name, value in data.items()}
        return self.bound(scope, most=limits.EVALUATION_MICROSECONDS)

    def bound(self, scope: Scope, *, most: float) -> Cost:
        """Return the bound for variables of at most that size; infinite if it exceeds `most` microseconds."""
        meter = Meter(most)
        try:
            meter.add(START)
            for each in scope.values():
                meter.add(each.copy_time, each.total)
            result = self.rule(scope, meter)
            # The result is read from CEL, converted, and written.
            meter.add(3 * result.copy_time, 2 * result.total)
        except TooMuch:
            return BOUNDLESS
        return Cost(time=meter.time, memory=meter.memory)


def is_harmless(text: str, tree: Any) -> bool:
    """Whether the expression stays cheap for all small inputs, so that it needs no bound."""
    is_short = len(text) <= HARMLESS_NODES
    if is_short and "(" not in text and text.count("+") <= SMALL_COUNT and text.count(",") <= SMALL_COUNT:
        return True
    grown = nodes = 0
    waiting = [tree.expr]
    while waiting:
        node = waiting.pop()
        nodes += 1
        match_ = syntax_tree.alternative(node)
        if match_ == "comprehension_expr" or nodes > HARMLESS_NODES:
            return False
        if match_ == "call_expr":
            name = name_function(node.call_expr)
            if name not in HARMLESS and not name.startswith("math."):
                return False
            grown += name == "_+_" or name in SLOW
        elif match_ in ("list_expr", "struct_expr"):
            grown += len(syntax_tree.children(node))
        waiting += syntax_tree.children(node)
    return grown <= SMALL_COUNT


def make_estimator(tree: Any) -> Estimator:
    """Make the estimator for the expression of that tree."""
    steps, nodes, text = 0.0, 0, 0
    depth = 0.0
    waiting: list[tuple[Any, int]] = [(tree.expr, 0)]
    while waiting:
        node, loops = waiting.pop()
        kind = syntax_tree.alternative(node)
        loops += kind == "comprehension_expr" and not is_binding(node.comprehension_expr)
        depth = max(depth, math.inf if is_odd(node, kind) else loops)
        steps += count_steps(name_function(node.call_expr)) if kind == "call_expr" else 1
        nodes += len(syntax_tree.children(node)) if kind in ("list_expr", "struct_expr") else 0
        text += node.const_expr.ByteSize() if kind == "const_expr" else 0
        waiting += [(each, loops) for each in syntax_tree.children(node)]
    return Estimator(_compile(tree.expr), steps=steps, constants=Weight(nodes, text), depth=depth)


def is_odd(node: Any, kind: str) -> bool:
    """Whether the cost of a node depends on more than the sizes of the inputs."""
    if kind == "comprehension_expr":
        return is_binding(node.comprehension_expr)
    return kind == "call_expr" and name_function(node.call_expr) not in HARMLESS


def is_binding(loop: Any) -> bool:
    """Return whether a loop comes from `cel.bind`: it iterates over nothing."""
    return syntax_tree.alternative(loop.iter_range) == "list_expr" and not loop.iter_range.list_expr.elements


def _compile(node: Any) -> Rule:
    match syntax_tree.alternative(node):
        case "const_expr":
            return _compile_constant(node.const_expr)
        case "ident_expr":
            return _compile_name(node.ident_expr.name.removeprefix("."))
        case "select_expr":
            return _compile_select(node.select_expr)
        case "call_expr":
            return _compile_call(node.call_expr)
        case "list_expr" | "struct_expr":
            return _compile_collection(syntax_tree.children(node))
        case "comprehension_expr":
            return _compile_loop(node.comprehension_expr)
    return lambda _scope, _meter: SCALAR


def _compile_constant(constant: Any) -> Rule:
    kind = syntax_tree.alternative(constant)
    found = SCALAR
    if kind in ("string_value", "bytes_value", "int64_value"):
        found = Bound.of((getattr(constant, kind),))
    return lambda _scope, _meter: found


def _compile_name(name: str) -> Rule:
    def rule(scope: Scope, meter: Meter) -> Bound:
        meter.add(STEP)
        # A name that is not a variable is the name of a type.
        return scope.get(name, SCALAR)

    return rule


def _compile_select(select: Any) -> Rule:
    operand, key, is_test = _compile(select.operand), str(select.field), bool(select.test_only)

    def rule(scope: Scope, meter: Meter) -> Bound:
        over = operand(scope, meter)
        if is_test:
            meter.add(STEP)
            return SCALAR
        return meter.pick(over, key)

    return rule


def name_function(call: Any) -> str:
    """Return the called function with its namespace: `base64.encode`, `split`."""
    target = call.target.ident_expr.name if call.HasField("target") else ""
    return f"{target}.{call.function}" if target in cel_environment.NAMESPACES else str(call.function)


def _compile_call(call: Any) -> Rule:
    given = [_compile(each) for each in ([call.target] if call.HasField("target") else [])]
    given += [_compile(each) for each in call.args]
    name = name_function(call)
    function = find_function(name)
    if name != call.function:
        # A namespace is not an operand.
        given = given[1:]
    if call.function == "_?_:_" and len(given) == 3:
        return _compile_choice(*given)
    if not given:
        return lambda _scope, meter: function(meter, (SCALAR,))
    return lambda scope, meter: function(meter, [each(scope, meter) for each in given])


def _compile_choice(test: Rule, left: Rule, right: Rule) -> Rule:
    def rule(scope: Scope, meter: Meter) -> Bound:
        test(scope, meter)
        return value_sizes.widest((left(scope, meter), right(scope, meter)))

    return rule


def _compile_collection(nodes: Sequence[Any]) -> Rule:
    rules = [_compile(each) for each in nodes]

    def rule(scope: Scope, meter: Meter) -> Bound:
        parts = [each(scope, meter) for each in rules]
        whole = value_sizes.join(*parts)
        meter.add(STEP + NODE_COPY * len(parts), NODE_BYTES * len(parts))
        return Bound(whole.nodes + 1, whole.text, len(parts), value_sizes.widest(parts))

    return rule


def _compile_loop(loop: Any) -> Rule:
    over, start, result = _compile(loop.iter_range), _compile(loop.accu_init), _compile(loop.result)
    test, step = _compile(loop.loop_condition), _compile(loop.loop_step)
    binds = is_binding(loop)

    def rule(scope: Scope, meter: Meter) -> Bound:
        begun = start(scope, meter)
        if binds:
            return result({**scope, loop.accu_var: begun}, meter)
        ranged = over(scope, meter)
        meter.look(ranged)
        turns = min(ranged.count, ITERATIONS)
        meter.add(turns * STEP)
        if not turns:
            return result({**scope, loop.accu_var: begun}, meter)
        element = ranged.iterate()
        within = {**scope, loop.iter_var: element, loop.iter_var2: ranged.pick(), loop.accu_var: SCALAR}
        once = Meter(meter.most)
        test(within, once)
        grown = step(within, once)
        meter.add(turns * once.time, turns * once.memory)
        # A list that grows is copied at each step.
        copied = turns * turns if grown.nodes > 1 else 0
        meter.add(copied * LIST_COPY, copied * LIST_COPY_BYTES)
        made = Bound(begun.nodes + turns * grown.nodes, begun.text + turns * grown.text, turns, grown)
        return result({**scope, loop.accu_var: made}, meter)

    return rule
