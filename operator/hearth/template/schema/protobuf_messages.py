"""Shapes as protobuf messages, the form that CEL's type checker accepts.

Open locations become `google.protobuf.Value`, which is dynamic. Knows shapes. Must not know expressions or templates.
"""

from __future__ import annotations

import re
from typing import Any

from cel_expr_python import cel
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

from hearth.template.schema.shapes import Shape, Type

MESSAGES_KEPT = 20_000
"""The number at which a new store begins; a cluster with many kinds needs about 3,000."""
_FIELD = descriptor_pb2.FieldDescriptorProto
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRUCT_FILE = "google/protobuf/struct.proto"
_VALUE = ".google.protobuf.Value"
_STRUCT = ".google.protobuf.Struct"
_SCALARS = {Type.STRING: _FIELD.TYPE_STRING, Type.INTEGER: _FIELD.TYPE_INT64, Type.BOOLEAN: _FIELD.TYPE_BOOL}


class MessageStore:
    """The messages made so far, and the pool that contains them. A message never changes."""

    def __init__(self) -> None:
        self.pool = _new_pool()
        self._names: dict[int, str] = {}
        # Stores each shape, so that no other one gets its identity.
        self._by_name: dict[str, Shape] = {}
        self._files: dict[str, str] = {}

    @property
    def is_full(self) -> bool:
        """Return whether it contains more than it should."""
        return len(self._names) > MESSAGES_KEPT

    def find_type(self, shape: Shape) -> Any:
        """Return the CEL type of a variable of that shape."""
        return cel.Type.DYN if shape.type is not Type.OBJECT else cel.Type(self.find_message(shape))

    def find_message(self, shape: Shape) -> str:
        """Return the full name of the message of an OBJECT."""
        if id(shape) not in self._names:
            self._add(shape)
        return self._names[id(shape)]

    def _add(self, root: Shape) -> None:
        """Add `root`, and every object under it that has no message yet, in a new file."""
        package = f"hearth_types_{len(self._files)}"
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
        waiting, added = [root], [root]
        self._name(root, file)
        while waiting:
            for inner in find_objects(waiting.pop()):
                if id(inner) not in self._names:
                    self._name(inner, file)
                    waiting.append(inner)
                    added.append(inner)
        files: dict[str, None] = {_STRUCT_FILE: None}
        for shape in added:
            message = file.message_type.add(name=self._names[id(shape)].rpartition(".")[2])
            # Otherwise the library writes warnings about names that differ in an underscore to stderr.
            message.options.deprecated_legacy_json_field_conflicts = True
            files.update({self._files[used]: None for used in fill(message, shape, self._names)})
        files.pop(file.name, None)
        file.dependency.extend(files)
        self.pool.AddSerializedFile(file.SerializeToString())

    def describe(self, message: str) -> tuple[str, list[str]]:
        """Return the name of a message for people, and its field names; none if it is not Hearth's."""
        shape = self._by_name.get(message)
        return (message, []) if shape is None else (shape.name, list(shape.fields))

    def _name(self, shape: Shape, file: Any) -> None:
        """Give `shape` a unique name in `file`."""
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", shape.name).strip("_") or "Object"
        name = f"{file.package}.{stem}"
        while name in self._files:
            name += "_"
        self._names[id(shape)] = name
        self._files[name] = file.name
        self._by_name[name] = shape


def _new_pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    return pool


def find_objects(shape: Shape) -> list[Shape]:
    """Find the objects that the fields of an OBJECT need messages for."""
    found: list[Shape] = []
    for name, inner in shape.fields.items():
        if not _IDENTIFIER.fullmatch(name):
            continue
        target = inner.element if inner.type in (Type.ARRAY, Type.MAP) else inner
        if target.type is Type.OBJECT:
            found.append(target)
    return found


def fill(message: Any, shape: Shape, names: dict[int, str]) -> list[str]:
    """Write the fields of an OBJECT into its message; return the names of the messages that it uses.

    Fields that protobuf cannot name are left out: expressions cannot name them after a dot either.
    """
    used: list[str] = []
    taken = set(shape.fields)
    for number, (name, inner) in enumerate(nameable(shape), start=1):
        # JSON names must differ, but those of foo_bar and fooBar would not. Nothing reads the numbered names.
        field = message.field.add(name=name, json_name=f"f{number}", number=number, label=_FIELD.LABEL_OPTIONAL)
        if inner.type is Type.ARRAY:
            field.label = _FIELD.LABEL_REPEATED
            used += set_type(field, inner.element, names)
        elif inner.type is Type.MAP and inner.element.type is not Type.OPEN and entry_name(name) not in taken:
            taken.add(entry_name(name))
            used += add_map(message, field, inner.element, names)
            field.type_name = f".{names[id(shape)]}.{entry_name(name)}"
        else:
            used += set_type(field, inner, names)
    return used


def nameable(shape: Shape) -> list[tuple[str, Shape]]:
    """Return the fields of an OBJECT that a message can have."""
    reserved_by_protobuf = range(19_000, 20_000)
    fields = [(name, inner) for name, inner in shape.fields.items() if _IDENTIFIER.fullmatch(name)]
    return fields[: reserved_by_protobuf.start - 1]


def set_type(field: Any, shape: Shape, names: dict[int, str]) -> list[str]:
    """Set the type of one field, or of its elements, to that of `shape`; return the messages used."""
    if shape.type in _SCALARS:
        field.type = _SCALARS[shape.type]
        return []
    field.type = _FIELD.TYPE_MESSAGE
    if shape.type is Type.OBJECT:
        field.type_name = f".{names[id(shape)]}"
        return [names[id(shape)]]
    field.type_name = _STRUCT if shape.type is Type.MAP else _VALUE
    return []


def add_map(message: Any, field: Any, element: Shape, names: dict[int, str]) -> list[str]:
    """Make `field` a map from text to `element`; return the messages used."""
    entry = message.nested_type.add(name=entry_name(field.name))
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL)
    field.label, field.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
    return set_type(value, element, names)


def entry_name(name: str) -> str:
    """Return the name that protobuf requires for the entries of a map."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
