"""An upper bound of an expression's time and memory, from its syntax tree and the sizes of its inputs.

The bound is rough: it may be many times too high, but must not be too low. The estimator is made once per text, and the
bound is computed for each evaluation. Most expressions need no bound, since they only select and compare. Knows the
syntax tree and the cost of CEL's functions. Must not know limits, nor what happens above them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hearth.model import limits
from hearth.template.cel import cel_environment, syntax_tree, weight
from hearth.template.cel.weight import NODE_BYTES, Weight

ITERATIONS = 10_000
"""The number of iterations after which CEL stops an evaluation."""
STEP = 0.2
"""Microseconds for one node of the tree."""
TEXT_COPY = 0.0008
"""Microseconds for a byte of text that is copied or compared."""
LOOK = 0.05
"""Microseconds for each candidate value when this module resolves a step."""
NODE_COPY = 0.1
"""Microseconds for a value that is converted or compared."""
LIST_COPY = 0.013
"""Microseconds for each element when a list grows by one: CEL copies the list each time."""
LIST_COPY_BYTES = 16
"""Bytes of memory for each such element, which are freed only after the evaluation."""
SEARCH = 0.035
"""Microseconds for a byte of text that is searched."""
INSTRUCTION_TIME, INSTRUCTION_BYTES = 1.0, 200
"""Microseconds and bytes for one instruction of a compiled pattern."""
MATCH, SLOWEST_MATCH = 0.005, 30.0
"""Microseconds for each instruction and character, and the maximum for a character."""
UNICODE_CLASS = 1_200
MOST_REPEATED = 1_000
"""RE2 rejects more, including nested repetitions."""
LARGEST_PATTERN = 1_000_000
_REPETITION = re.compile(r"\{(?:\d*,)?(\d+),?\}")
_CLASS = re.compile(r"\\[pPC]|\[\^|\\[DSW]")
LONGEST_NUMBER = 400
"""Characters of a number as text, or of a number that a pattern of `format` writes with its largest precision."""
MOST_PRECISION = 1_100
SMALL_COUNT = 8
"""Concatenation operands, and values in lists and maps, up to which an expression over small inputs needs no bound."""


class Bound:
    """The largest value that an expression can have. Inputs are measured only when their size matters."""

    __slots__ = ("_count", "_element", "_weight", "values")

    def __init__(
        self,
        nodes: float,
        text: float,
        count: float,
        element: Bound | None = None,
        values: Sequence[Any] | None = None,
    ) -> None:
        """Store the size: nodes: values in it; text: bytes; count: elements of a list or map.

        element: the largest element, None if it is bounded only by the whole; values: the possible values, if known.
        """
        self._weight: Weight | None = Weight(nodes, text)
        self._count: float | None = count
        self._element = element
        self.values = values

    @classmethod
    def of(cls, values: Sequence[Any]) -> Bound:
        """Return the bound of an input that is any of these values."""
        made = cls(1, 0, 0, None, values)
        made._weight = made._count = None
        return made

    @property
    def weight(self) -> Weight:
        """Return its size."""
        if self._weight is None:
            found = [weight.weigh(each, most_nodes=limits.WEIGHED_NODES) for each in self.values or ()]
            self._weight = Weight(
                max((each.nodes for each in found), default=1), max((each.text for each in found), default=0)
            )
        return self._weight

    @property
    def count(self) -> float:
        """Return the number of elements of a list or map."""
        if self._count is None:
            self._count = max((len(each) for each in self.values or () if isinstance(each, list | dict)), default=0)
        return self._count

    @property
    def nodes(self) -> float:
        """Return the number of values in it."""
        return self.weight.nodes

    @property
    def text(self) -> float:
        """Return the bytes of text in it."""
        return self.weight.text

    @property
    def total(self) -> float:
        """Return its bytes."""
        return self.weight.total

    @property
    def copy_time(self) -> float:
        """Return the microseconds to copy or compare all of it."""
        return self.nodes * NODE_COPY + self.text * TEXT_COPY

    @property
    def constant(self) -> Any:
        """Return the value, if there is only one."""
        return self.values[0] if self.values is not None and len(self.values) == 1 else None

    def pick(self, key: Any = None) -> Bound:
        """Return its field or element of that name or number; any, if `key` is None."""
        if self.values is None:
            found = self._element
            return found if found is not None else Bound(self.nodes, self.text, self.nodes)
        return Bound.of(list(take(self.values, key)))

    def iterate(self) -> Bound:
        """Return what a loop iterates over: elements of lists, keys of maps."""
        if self.values is None:
            return self.pick()
        found: list[Any] = []
        for each in self.values:
            if isinstance(each, list | dict):
                found += each
        return Bound.of(found)


def take(values: Iterable[Any], key: Any) -> Iterator[Any]:
    """Yield what the values have under that key; everything if `key` is None."""
    for value in values:
        if isinstance(value, dict):
            if key is None:
                yield from value.values()
            elif key in value:
                yield value[key]
        elif isinstance(value, list):
            if key is None:
                yield from value
            elif isinstance(key, int) and 0 <= key < len(value):
                yield value[key]


SCALAR = Bound(1, 0, 0)


def make_usual(nodes: float, text: float, count: float) -> Bound:
    """Make an object whose parts may all be as large as the whole, with so many elements in each of its lists."""
    made = Bound(nodes, text, count)
    made._element = made  # noqa: SLF001 -- as the name says
    return made


class TooMuch(Exception):
    """The bound exceeds the limit, so that its exact value does not matter."""


@dataclass(slots=True)
class Meter:
    """The sum of the costs of an expression's parts."""

    most: float
    """Microseconds above which the estimate stops, since it would take as long as the evaluation."""
    time: float = 0.0
    """Microseconds."""
    memory: float = 0.0
    """Bytes, as if no memory was freed before the end."""

    def add(self, time: float, memory: float = 0.0) -> None:
        """Add a cost. Raises TooMuch."""
        self.time += time
        self.memory += memory
        if self.time > self.most:
            raise TooMuch

    def look(self, found: Bound) -> Bound:
        """Add a step, and the candidate values that were searched to resolve it."""
        self.add(STEP + LOOK * len(found.values or ()))
        return found

    def make(self, made: Bound, *, time: float = 0.0) -> Bound:
        """Add the creation of a new value."""
        self.add(made.copy_time + time, made.total)
        return made


Scope: TypeAlias = Mapping[str, Bound]
Rule: TypeAlias = Callable[[Scope, Meter], Bound]
"""Bounds one node of the tree, given the bounds of its variables."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The maximum cost of an evaluation."""

    time: float
    """Microseconds."""
    memory: float
    """Bytes."""


BOUNDLESS = Cost(time=math.inf, memory=math.inf)


@dataclass(frozen=True, slots=True)
class Estimator:
    """Bounds one expression for any inputs."""

    rule: Rule = field(repr=False)
    steps: float
    """Nodes of the tree."""
    depth: float
    """The depth of nested loops; infinite if a full estimate is required."""

    def is_surely_small(self, size: Weight) -> bool:
        """Return whether inputs of that size surely stay within the limits of one evaluation."""
        if self.depth > 1:
            return False
        once = self.steps * (STEP + size.nodes * NODE_COPY + size.text * TEXT_COPY)
        most = limits.EVALUATION_MICROSECONDS
        return once * max(size.nodes, 1) <= most and size.nodes**2 * LIST_COPY <= most

    def estimate(self, data: Mapping[str, Any]) -> Cost:
        """Return the bound for these inputs; infinite if it exceeds the limit of one evaluation."""
        scope = {name: Bound.of((value,)) for name, value in data.items()}
        return self.bound(scope, most=limits.EVALUATION_MICROSECONDS)

    def bound(self, scope: Scope, *, most: float) -> Cost:
        """Return the bound for variables of at most that size; infinite if it exceeds `most` microseconds."""
        meter = Meter(most)
        try:
            for each in scope.values():
                meter.add(each.copy_time, each.total)
            result = self.rule(scope, meter)
            # The result is read from CEL, converted, and written.
            meter.add(3 * result.copy_time, 2 * result.total)
        except TooMuch:
            return BOUNDLESS
        return Cost(time=meter.time, memory=meter.memory)


def widest(bounds: Any) -> Bound:
    """Return a bound that is at least as large as each of them."""
    nodes, text, count = 1.0, 0.0, 0.0
    for each in bounds:
        nodes, text, count = max(nodes, each.nodes), max(text, each.text), max(count, each.count)
    return Bound(nodes, text, count)


def join(*bounds: Bound) -> Bound:
    """Return the bound of their concatenation."""
    return Bound(
        sum(each.nodes for each in bounds), sum(each.text for each in bounds), sum(each.count for each in bounds)
    )


# ---------------------------------------------------------------- functions

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
    """Bound a function that returns a text as long as its operands, or twice that."""
    whole = join(*given)
    return meter.make(
        Bound(1, 2 * whole.text + LONGEST_NUMBER, 2 * whole.text + LONGEST_NUMBER), time=whole.copy_time * 10
    )


def same(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns one of its operands."""
    meter.add(STEP)
    return given[0] if len(given) == 1 else widest(given)


def inner(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a function that returns a part of the first operand."""
    return meter.look(given[0].pick(given[1].constant if len(given) > 1 else None))


def concatenate(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound sums, and concatenations of texts and lists."""
    return meter.make(join(*given), time=STEP)


def search(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a search for one text in another."""
    text, sought = given[0].text, given[1].text if len(given) > 1 else 0
    meter.add(STEP + text * (SEARCH + min(text, sought) * TEXT_COPY / 10))
    return SCALAR


def match(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a match in RE2, which compiles the pattern each time.

    The match is linear in the text, multiplied by the size of the unfolded pattern.
    """
    pattern = given[1].constant if len(given) > 1 else None
    instructions = count_instructions(pattern) if isinstance(pattern, str) else LARGEST_PATTERN
    meter.add(instructions * INSTRUCTION_TIME, instructions * INSTRUCTION_BYTES)
    meter.add(STEP + given[0].text * min(instructions * MATCH, SLOWEST_MATCH))
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
    return meter.make(Bound(1, size, 0), time=text.text * SEARCH)


def split(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound a split: at most as many parts as there are characters."""
    text = given[0]
    return meter.make(Bound(text.text + 2, text.text, text.text + 1, Bound(1, text.text, 0)))


def join_list(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the elements joined with the separator."""
    over, separator = given[0], given[1].text if len(given) > 1 else 0
    size = over.text + over.count * separator
    return meter.make(Bound(1, size, 0), time=over.copy_time)


def write_format(meter: Meter, given: Sequence[Bound]) -> Bound:
    """Bound the format of each value as text, including its fixed parts."""
    whole = join(*given)
    size = 8 * whole.text + whole.nodes * MOST_PRECISION
    return meter.make(Bound(1, size, 0), time=whole.copy_time * 4)


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
    *("isQuantity", "isGreaterThan", "isLessThan", "compareTo", "asInteger", "isInteger", "asApproximateFloat", "sign"),
)
_LINEAR = (
    *("string", "bytes", "lowerAscii", "upperAscii", "trim", "reverse", "substring", "strings.quote"),
    *("base64.encode", "base64.decode", "quantity", "add", "sub"),
)
_FUNCTIONS: Mapping[str, Function] = {
    **dict.fromkeys(_NUMBERS, number),
    **dict.fromkeys(_SCALARS, scalar),
    **dict.fromkeys(_LINEAR, linear),
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys((syntax_tree.INDEX, syntax_tree.INDEX_OPTIONALLY, syntax_tree.SELECT_OPTIONALLY), inner),
    "_+_": concatenate,
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), search),
    "matches": match,
    "replace": replace,
    "split": split,
    "join": join_list,
    "format": write_format,
}
_HARMLESS = frozenset({*_NUMBERS, *_SCALARS, *_LINEAR, *_SAME, "_?_:_", "_+_"}) | {
    syntax_tree.INDEX,
    syntax_tree.INDEX_OPTIONALLY,
    syntax_tree.SELECT_OPTIONALLY,
}
"""Functions whose cost is bounded by small inputs, for any use in an expression without loops."""


def find_function(name: str) -> Function:
    """Find the cost rule of a call."""
    return scalar if name.startswith("math.") else _FUNCTIONS.get(name, boundless)


# ---------------------------------------------------------------- the tree


def is_harmless(text: str, tree: Any) -> bool:
    """Return whether small inputs alone keep the expression of that text and tree cheap, so that it needs no bound."""
    if "(" not in text and text.count("+") <= SMALL_COUNT and text.count(",") <= SMALL_COUNT:
        return True
    grown = 0
    waiting = [tree.expr]
    while waiting:
        node = waiting.pop()
        match_ = syntax_tree.alternative(node)
        if match_ == "comprehension_expr":
            return False
        if match_ == "call_expr":
            name = name_function(node.call_expr)
            if name not in _HARMLESS and not name.startswith("math."):
                return False
            grown += name == "_+_"
        elif match_ in ("list_expr", "struct_expr"):
            grown += len(syntax_tree.children(node))
        waiting += syntax_tree.children(node)
    return grown <= SMALL_COUNT


def make_estimator(tree: Any) -> Estimator:
    """Make the estimator for the expression of that tree."""
    steps = 0
    depth = 0.0
    waiting: list[tuple[Any, int]] = [(tree.expr, 0)]
    while waiting:
        node, loops = waiting.pop()
        steps, kind = steps + 1, syntax_tree.alternative(node)
        loops += kind == "comprehension_expr" and not is_binding(node.comprehension_expr)
        is_odd = (kind == "call_expr" and name_function(node.call_expr) not in _HARMLESS) or (
            kind == "comprehension_expr" and is_binding(node.comprehension_expr)
        )
        depth = max(depth, math.inf if is_odd else loops)
        waiting += [(each, loops) for each in syntax_tree.children(node)]
    return Estimator(_compile(tree.expr), steps=steps, depth=depth)


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
        # A name that is not a variable is a type name.
        return scope.get(name, SCALAR)

    return rule


def _compile_select(select: Any) -> Rule:
    operand, key, is_test = _compile(select.operand), str(select.field), bool(select.test_only)

    def rule(scope: Scope, meter: Meter) -> Bound:
        over = operand(scope, meter)
        if is_test:
            meter.add(STEP)
            return SCALAR
        return meter.look(over.pick(key))

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
        return widest((left(scope, meter), right(scope, meter)))

    return rule


def _compile_collection(nodes: Sequence[Any]) -> Rule:
    rules = [_compile(each) for each in nodes]

    def rule(scope: Scope, meter: Meter) -> Bound:
        parts = [each(scope, meter) for each in rules]
        whole = join(*parts)
        meter.add(STEP + NODE_COPY * len(parts), NODE_BYTES * len(parts))
        return Bound(whole.nodes + 1, whole.text, len(parts), widest(parts))

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
