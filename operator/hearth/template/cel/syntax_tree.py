"""Parses and writes the syntax tree of an expression, in CEL's serialization format.

The message and field numbers come from `syntax.proto` of cel-spec. Hearth changes the tree in one way: `has(a.b.c)` is
false instead of an error if `a` has no `b`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "hearth.syntax"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in ("bool", "bytes", "double", "int32", "int64", "string", "uint64")
}
# Message → field → (number, type, whether it is one of the message's alternatives). A trailing * is a list.
# Other fields stay in the message as unknown fields and are written back unchanged.
_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Constant": {
        "null_value": (1, "int32", True),
        "bool_value": (2, "bool", True),
        "int64_value": (3, "int64", True),
        "uint64_value": (4, "uint64", True),
        "double_value": (5, "double", True),
        "string_value": (6, "string", True),
        "bytes_value": (7, "bytes", True),
    },
    "Ident": {"name": (1, "string", False)},
    "Select": {"operand": (1, "Expr", False), "field": (2, "string", False), "test_only": (3, "bool", False)},
    "Call": {"target": (1, "Expr", False), "function": (2, "string", False), "args": (3, "Expr*", False)},
    "List": {"elements": (1, "Expr*", False)},
    "Entry": {"map_key": (3, "Expr", False), "value": (4, "Expr", False)},
    "Struct": {"message_name": (1, "string", False), "entries": (2, "Entry*", False)},
    "Comprehension": {
        "iter_var": (1, "string", False),
        "iter_var2": (8, "string", False),
        "iter_range": (2, "Expr", False),
        "accu_var": (3, "string", False),
        "accu_init": (4, "Expr", False),
        "loop_condition": (5, "Expr", False),
        "loop_step": (6, "Expr", False),
        "result": (7, "Expr", False),
    },
    "Expr": {
        "id": (2, "int64", False),
        "const_expr": (3, "Constant", True),
        "ident_expr": (4, "Ident", True),
        "select_expr": (5, "Select", True),
        "call_expr": (6, "Call", True),
        "list_expr": (7, "List", True),
        "struct_expr": (8, "Struct", True),
        "comprehension_expr": (9, "Comprehension", True),
    },
    "Position": {"key": (1, "int64", False), "value": (2, "int32", False)},
    "SourceInfo": {"line_offsets": (3, "int32*", False), "positions": (4, "Position*", False)},
    "ParsedExpr": {"expr": (2, "Expr", False), "source_info": (3, "SourceInfo", False)},
}


def _build() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="hearth/syntax.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, type_name, is_alternative) in fields.items():
            field = message.field.add(name=field_name, number=number)
            element = type_name.rstrip("*")
            field.label = _FIELD.LABEL_REPEATED if type_name.endswith("*") else _FIELD.LABEL_OPTIONAL
            if element in _SCALARS:
                field.type = _SCALARS[element]
            else:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{element}"
            if is_alternative:
                if not message.oneof_decl:
                    message.oneof_decl.add(name="alternative")
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ParsedExpr"))


_ParsedExpr = _build()
SELECT_OPTIONALLY = "_?._"
INDEX = "_[_]"
INDEX_OPTIONALLY = "_[?_]"
STEPS = frozenset({INDEX, INDEX_OPTIONALLY, SELECT_OPTIONALLY})
"""The calls that step into a value: to a field or an index."""


def parse_tree(serialized: bytes) -> Any:
    """Parse the `ParsedExpr` in the result of `Expression.serialize` for an unchecked expression."""
    return _ParsedExpr.FromString(any_pb2.Any.FromString(serialized).value)


def write_tree(tree: Any) -> bytes:
    """Serialize the tree for `Env.deserialize`."""
    wrapper = any_pb2.Any(type_url="type.googleapis.com/cel.expr.ParsedExpr", value=tree.SerializeToString())
    return wrapper.SerializeToString()


def find_offset(tree: Any, node: Any) -> int:
    """Find the position of `node` in the text, in characters, or 0 if it is not recorded."""
    return next((position.value for position in tree.source_info.positions if position.key == node.id), 0)


def alternative(node: Any) -> str:
    """Return the kind of expression of `node`: `ident_expr`, `select_expr` …"""
    name: str | None = node.WhichOneof("alternative")
    return name or ""


def children(node: Any) -> list[Any]:
    """Return the expressions directly within `node`."""
    match alternative(node):
        case "select_expr":
            return [node.select_expr.operand]
        case "call_expr":
            call = node.call_expr
            return [call.target, *call.args] if call.HasField("target") else list(call.args)
        case "list_expr":
            return list(node.list_expr.elements)
        case "struct_expr":
            entries = node.struct_expr.entries
            return [part for entry in entries for part in (entry.map_key, entry.value)]
        case "comprehension_expr":
            loop = node.comprehension_expr
            return [loop.iter_range, loop.accu_init, loop.loop_condition, loop.loop_step, loop.result]
    return []


def list_calls(tree: Any) -> Iterator[Any]:
    """Yield all calls in the tree."""
    waiting = [tree.expr]
    while waiting:
        node = waiting.pop()
        if alternative(node) == "call_expr":
            yield node.call_expr
        waiting.extend(children(node))


def soften_has(tree: Any) -> bool:
    """Make every `has(a.b.c)` in the tree false, not an error, if `a` has no `b`.

    Returns whether the tree contained any. Each becomes `a.?b.?c.hasValue()`, which CEL evaluates in this way.
    """
    changed = False
    waiting = [tree.expr]
    while waiting:
        node = waiting.pop()
        if alternative(node) == "select_expr" and node.select_expr.test_only:
            changed = soften(node) or changed
        waiting.extend(children(node))
    return changed


def soften(node: Any) -> bool:
    """Rewrite one test; return whether it was needed."""
    operand = node.select_expr.operand
    if not is_step(operand):
        return False
    steps: list[tuple[str, Any]] = [(SELECT_OPTIONALLY, node.select_expr.field)]
    while is_step(operand):
        if alternative(operand) == "select_expr":
            steps.append((SELECT_OPTIONALLY, operand.select_expr.field))
            operand = operand.select_expr.operand
        else:
            call = operand.call_expr
            steps.append((SELECT_OPTIONALLY if call.function == SELECT_OPTIONALLY else INDEX_OPTIONALLY, call.args[1]))
            operand = call.args[0]
    chain = type(node)()
    chain.CopyFrom(operand)
    for function, key in reversed(steps):
        chain = step_optionally(chain, function, key)
    node.call_expr.function = "hasValue"
    node.call_expr.target.CopyFrom(chain)
    return True


def is_step(node: Any) -> bool:
    """Return whether `node` is one step into a value: a field or an index."""
    kind = alternative(node)
    if kind == "select_expr":
        return not node.select_expr.test_only
    return kind == "call_expr" and node.call_expr.function in STEPS


def step_optionally(operand: Any, function: str, key: Any) -> Any:
    """Make `operand.?key` or `operand[?key]`."""
    node = type(operand)(id=operand.id)
    node.call_expr.function = function
    node.call_expr.args.add().CopyFrom(operand)
    argument = node.call_expr.args.add()
    if isinstance(key, str):
        argument.id = operand.id
        argument.const_expr.string_value = key
    else:
        argument.CopyFrom(key)
    return node
