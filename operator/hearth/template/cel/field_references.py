"""Finds the names that an expression reads and the exact paths below them. Loop variables of CEL are excluded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.model import value_class
from hearth.model.child import Path
from hearth.template.cel import cel_environment, syntax_tree


class Each:
    """The step to every element of a list, or to one that is only known at evaluation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "EACH"


EACH: Final = Each()
Step: TypeAlias = str | int | Each


@value_class.dataclass(frozen=True, slots=True)
class FieldRead:
    """One path that an expression reads."""

    root: str
    steps: tuple[Step, ...]
    is_required: bool
    """Whether the expression fails if it is missing: it is neither under `has()` nor behind `.?`."""

    @property
    def path(self) -> Path:
        """Return the steps up to the first index or computed key; () is all of `root`."""
        fields: list[str] = []
        for step in self.steps:
            if not isinstance(step, str):
                break
            fields.append(step)
        return tuple(fields)

    @property
    def element(self) -> FieldRead:
        """Return the read of each element, if the root is a list: without the first step."""
        return FieldRead(self.root, self.steps[1:], self.is_required)

    def __str__(self) -> str:
        """Return the path in expression syntax: `db.status.conditions[*].reason`."""
        return self.root + "".join(_write_step(step) for step in self.steps)


def _write_step(step: Step) -> str:
    match step:
        case str():
            return f".{step}" if step.isidentifier() else f"['{step}']"
        case int():
            return f"[{step}]"
    return "[*]"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionReads:
    """All reads of an expression."""

    reads: tuple[FieldRead, ...]
    intermediate: tuple[FieldRead, ...]
    """Paths that must exist before an optional step, for example `web.status` in `web.status.?x`. They are not read
    themselves."""
    is_dynamic: bool
    """Whether a key or index is computed, so that a missing one cannot be detected beforehand."""
    counted: frozenset[str]
    """Names whose elements the expression only counts or iterates over."""


def find_object_reads(reads: ExpressionReads, lists: Collection[str]) -> Iterator[FieldRead]:
    """Return the paths that are read of each object. For the names in `lists`, the paths are read of each element.

    A list that is only counted or iterated over is not read itself: the body of a loop reads the fields it needs.
    """
    for read in reads.reads:
        if read.root not in lists:
            yield read
        elif read.steps:
            yield read.element
        elif read.root not in reads.counted:
            yield read


_Scope: TypeAlias = Mapping[str, FieldRead | None]
"""The paths of the loop variables; None for a variable that is not a path."""
_ALL = (EACH,)


def find_reads(tree: Any) -> ExpressionReads:
    """Find the reads of the expression of that tree."""
    reader = _Reader()
    reader.use(reader.visit(tree.expr, {}))
    return ExpressionReads(
        reads=tuple(reader.reads),
        intermediate=tuple(reader.intermediate),
        is_dynamic=reader.is_dynamic,
        counted=frozenset(reader.counted - reader.whole),
    )


def list_offsets(tree: Any) -> list[tuple[str, int]]:
    """List every place where an expression reads a name: the name, and its offset in the text, in characters."""
    reader = _Reader()
    reader.visit(tree.expr, {})
    return [(name, syntax_tree.find_offset(tree, node)) for name, node in reader.names]


def is_missing(value: Any, steps: tuple[Step, ...]) -> bool:
    """Return whether `value` has nothing under `steps`; under EACH, whether any element has nothing.

    A null counts as present.
    """
    for at, step in enumerate(steps):
        if isinstance(step, Each):
            if isinstance(value, list):
                return any(is_missing(element, steps[at + 1 :]) for element in value)
            return False
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return True
        elif not isinstance(value, list) or not 0 <= step < len(value):
            return True
        value = value[step]
    return False


def shorten(paths: Iterable[Path]) -> frozenset[Path]:
    """Return `paths` without paths that lie below another path."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not kept or path[: len(kept[-1])] != kept[-1]:
            kept.append(path)
    return frozenset(kept)


class _Reader:
    """One traversal of one tree. A visit returns the path of a node; a caller that does not extend it records it."""

    def __init__(self) -> None:
        self.reads: dict[FieldRead, None] = {}
        self.intermediate: dict[FieldRead, None] = {}
        self.names: list[tuple[str, Any]] = []
        self.is_dynamic = False
        self.counted: set[str] = set()
        self.whole: set[str] = set()

    def use(self, read: FieldRead | None) -> None:
        """Record a path that is not extended further."""
        if read is not None:
            self.reads[read] = None
            if not read.steps:
                self.whole.add(read.root)

    def count(self, read: FieldRead | None) -> None:
        """Record a path whose elements are counted or iterated over."""
        if read is not None:
            self.reads[read] = None
            if not read.steps:
                self.counted.add(read.root)

    def visit(self, node: Any, scope: _Scope) -> FieldRead | None:
        """Return the path of `node`, if it is one."""
        match syntax_tree.alternative(node):
            case "ident_expr":
                return self.visit_name(node, scope)
            case "select_expr":
                return self.visit_select(node.select_expr, scope)
            case "call_expr":
                return self.visit_call(node.call_expr, scope)
            case "comprehension_expr":
                return self.visit_comprehension(node.comprehension_expr, scope)
            case "list_expr" | "struct_expr":
                self.use_all(syntax_tree.children(node), scope)
        return None

    def use_all(self, nodes: Iterable[Any], scope: _Scope) -> None:
        """Record everything that `nodes` read."""
        for node in nodes:
            self.use(self.visit(node, scope))

    def visit_name(self, node: Any, scope: _Scope) -> FieldRead | None:
        name = node.ident_expr.name.removeprefix(".")
        if name in scope:
            return scope[name]
        if name in cel_environment.TYPE_NAMES or name in cel_environment.NAMESPACES:
            return None
        self.names.append((name, node))
        return FieldRead(name, (), is_required=True)

    def visit_select(self, select: Any, scope: _Scope) -> FieldRead | None:
        operand = self.visit(select.operand, scope)
        if operand is None:
            return None
        if select.test_only:
            # The whole path is optional: `syntax_tree.soften_has` evaluates it so.
            self.use(FieldRead(operand.root, (*operand.steps, select.field), is_required=False))
            return None
        return _extend(operand, select.field)

    def visit_call(self, call: Any, scope: _Scope) -> FieldRead | None:
        if call.function in syntax_tree.STEPS and len(call.args) == 2:
            return self.visit_step(call, scope)
        nodes = [*([call.target] if call.HasField("target") else []), *call.args]
        if call.function == "size" and len(nodes) == 1:
            self.count(self.visit(nodes[0], scope))
        else:
            self.use_all(nodes, scope)
        return None

    def visit_step(self, call: Any, scope: _Scope) -> FieldRead | None:
        operand = self.visit(call.args[0], scope)
        key = self.visit_key(call.args[1], scope)
        if operand is None:
            return None
        if call.function == syntax_tree.INDEX:
            return _extend(operand, key)
        # The path up to here must exist; the rest is optional.
        if operand.is_required and operand.steps:
            self.intermediate[operand] = None
        return FieldRead(operand.root, (*operand.steps, key), is_required=False)

    def visit_key(self, node: Any, scope: _Scope) -> Step:
        constant = node.const_expr if syntax_tree.alternative(node) == "const_expr" else None
        match syntax_tree.alternative(constant) if constant is not None else "":
            case "string_value":
                return str(node.const_expr.string_value)
            case "int64_value":
                return int(node.const_expr.int64_value)
        self.use(self.visit(node, scope))
        self.is_dynamic = True
        return EACH

    def visit_comprehension(self, loop: Any, scope: _Scope) -> FieldRead | None:
        over = self.visit(loop.iter_range, scope)
        self.count(over)
        element = None if over is None else FieldRead(over.root, over.steps + _ALL, over.is_required)
        # With two variables the first is the index or key.
        first, second = (None, element) if loop.iter_var2 else (element, None)
        accumulated = self.visit(loop.accu_init, scope)
        inner = {**scope, loop.iter_var: first, loop.iter_var2: second, loop.accu_var: None}
        self.use_all((loop.loop_condition, loop.loop_step), inner)
        # `cel.bind(x, a.b, …)` is a loop over nothing whose accumulator is the path itself.
        return self.visit(loop.result, {**scope, loop.accu_var: accumulated})


def _extend(read: FieldRead, step: Step) -> FieldRead:
    return FieldRead(read.root, (*read.steps, step), read.is_required)
