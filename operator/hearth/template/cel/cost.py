"""An upper bound of an expression's time and memory, from its syntax tree and the sizes of its inputs.

The bound is rough: it may be many times too high, but must not be too low. The estimator is made once per text, and the
bound is computed for each evaluation. Most expressions need no bound, since they only select and compare. Knows the
syntax tree. Must not know limits, nor what happens above them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from hearth.model import limits, value_class
from hearth.template.cel import cel_environment, function_costs, syntax_tree, value_bounds
from hearth.template.cel.value_bounds import NODE_COPY, SCALAR, STEP, TEXT_COPY, Bound, Meter, TooMuch
from hearth.template.cel.weight import NODE_BYTES, Weight

ITERATIONS = 10_000
"""The number of iterations after which CEL stops an evaluation."""
START = 5.0
"""Microseconds for any evaluation."""
LIST_COPY = 0.02
"""Microseconds for each element when a list grows by one: CEL copies the list each time."""
LIST_COPY_BYTES = 16
"""Bytes of memory for each such element, which are freed only after the evaluation."""
SMALL_COUNT = 8
"""Concatenation operands, and values in lists and maps, up to which an expression over small inputs needs no bound."""

Scope: TypeAlias = Mapping[str, Bound]
Rule: TypeAlias = Callable[[Scope, Meter], Bound]
"""Bounds one node of the tree, given the bounds of its variables."""


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
            if name not in function_costs.HARMLESS and not name.startswith("math."):
                return False
            grown += name == "_+_"
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
        steps += function_costs.count_steps(name_function(node.call_expr)) if kind == "call_expr" else 1
        nodes += len(syntax_tree.children(node)) if kind in ("list_expr", "struct_expr") else 0
        text += node.const_expr.ByteSize() if kind == "const_expr" else 0
        waiting += [(each, loops) for each in syntax_tree.children(node)]
    return Estimator(_compile(tree.expr), steps=steps, constants=Weight(nodes, text), depth=depth)


def is_odd(node: Any, kind: str) -> bool:
    """Return whether the cost of a node does not follow from the sizes of the inputs alone."""
    if kind == "comprehension_expr":
        return is_binding(node.comprehension_expr)
    return kind == "call_expr" and name_function(node.call_expr) not in function_costs.HARMLESS


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
        return meter.resolve(over.pick(key))

    return rule


def name_function(call: Any) -> str:
    """Return the called function with its namespace: `base64.encode`, `split`."""
    target = call.target.ident_expr.name if call.HasField("target") else ""
    return f"{target}.{call.function}" if target in cel_environment.NAMESPACES else str(call.function)


def _compile_call(call: Any) -> Rule:
    given = [_compile(each) for each in ([call.target] if call.HasField("target") else [])]
    given += [_compile(each) for each in call.args]
    name = name_function(call)
    function = function_costs.find_function(name)
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
        return value_bounds.widest((left(scope, meter), right(scope, meter)))

    return rule


def _compile_collection(nodes: Sequence[Any]) -> Rule:
    rules = [_compile(each) for each in nodes]

    def rule(scope: Scope, meter: Meter) -> Bound:
        parts = [each(scope, meter) for each in rules]
        whole = value_bounds.join(*parts)
        meter.add(STEP + NODE_COPY * len(parts), NODE_BYTES * len(parts))
        return Bound(whole.nodes + 1, whole.text, len(parts), value_bounds.widest(parts))

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
