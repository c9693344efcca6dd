"""Checks the types of expressions against the schemas of the kinds that they read.

CEL's type checker accepts only protobuf messages, so each shape is converted to a message. Unknown types are dynamic,
so that only definite errors are reported.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping
from typing import Any

from cel_expr_python import cel
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

from hearth.model import limits, value_class
from hearth.template.cel import cel_environment
from hearth.template.cel.cel_environment import Library
from hearth.template.cel.expressions import Parsed
from hearth.template.cel.weighted_cache import WeightedCache
from hearth.template.schema.shapes import Schema, Shape, Type

ENVIRONMENTS_KEPT = 64
JUDGEMENTS_KEPT = 16_384
JUDGED_BYTES = 256
"""Memory of each cached result without its texts."""
_QUANTITY = cel.Type.AbstractType("kubernetes.Quantity")
_OPTIONAL = "optional_type<"
DEEPEST_RESULT = 12
"""Levels of lists and maps in a result whose types are known."""
MESSAGES_KEPT = 20_000
"""Number of messages after which a new store is started. A cluster with many kinds needs about 3,000."""
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
        # Holds each shape, so that no other object can get its `id`.
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
            # Otherwise, the library warns on stderr about names that differ only in an underscore.
            message.options.deprecated_legacy_json_field_conflicts = True
            files.update({self._files[used]: None for used in fill_message(message, shape, self._names)})
        files.pop(file.name, None)
        file.dependency.extend(files)
        self.pool.AddSerializedFile(file.SerializeToString())

    def find_schema(self, message: str) -> Schema:
        """Return the schema of a message, {} if it is not Hearth's."""
        shape = self._by_name.get(message)
        return {} if shape is None else shape.schema

    def describe(self, message: str) -> tuple[str, list[str]]:
        """Return the displayed name of a message, and its field names; none if it is not Hearth's."""
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


def fill_message(message: Any, shape: Shape, names: dict[int, str]) -> list[str]:
    """Write the fields of an OBJECT into its message; return the names of the messages that it uses.

    Fields that protobuf cannot name are left out: expressions cannot name them after a dot either.
    """
    used: list[str] = []
    taken = set(shape.fields)
    for number, (name, inner) in enumerate(list_fields(shape), start=1):
        # JSON names must differ, but foo_bar and fooBar would share one. Nothing reads the numbered names.
        field = message.field.add(name=name, json_name=f"f{number}", number=number, label=_FIELD.LABEL_OPTIONAL)
        if inner.type is Type.ARRAY:
            field.label = _FIELD.LABEL_REPEATED
            used += set_field_type(field, inner.element, names)
        elif inner.type is Type.MAP and inner.element.type is not Type.OPEN and name_entry(name) not in taken:
            taken.add(name_entry(name))
            used += add_map_field(message, field, inner.element, names)
            field.type_name = f".{names[id(shape)]}.{name_entry(name)}"
        else:
            used += set_field_type(field, inner, names)
    return used


def list_fields(shape: Shape) -> list[tuple[str, Shape]]:
    """Return the fields of an OBJECT that a message can have."""
    reserved_by_protobuf = range(19_000, 20_000)
    fields = [(name, inner) for name, inner in shape.fields.items() if _IDENTIFIER.fullmatch(name)]
    return fields[: reserved_by_protobuf.start - 1]


def set_field_type(field: Any, shape: Shape, names: dict[int, str]) -> list[str]:
    """Set the type of one field, or of its elements, to the type of `shape`; return the messages used."""
    if shape.type in _SCALARS:
        field.type = _SCALARS[shape.type]
        return []
    field.type = _FIELD.TYPE_MESSAGE
    if shape.type is Type.OBJECT:
        field.type_name = f".{names[id(shape)]}"
        return [names[id(shape)]]
    field.type_name = _STRUCT if shape.type is Type.MAP else _VALUE
    return []


def add_map_field(message: Any, field: Any, element: Shape, names: dict[int, str]) -> list[str]:
    """Make `field` a map from text to `element`; return the messages used."""
    entry = message.nested_type.add(name=name_entry(field.name))
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL)
    field.label, field.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
    return set_field_type(value, element, names)


def name_entry(name: str) -> str:
    """Return the name that protobuf requires for the entries of a map."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TypeCheckResult:
    """The result of the type check of one expression."""

    faults: tuple[cel_environment.CelError, ...] = ()
    result: str = "DYN"
    """The type of its result, as CEL writes it; for an optional, the type of its content."""
    is_optional: bool = False
    is_final: bool = True
    """Whether only the expression and the types of its names decided."""


class TypeChecker:
    """All type check results so far, for all callers: the same text with the same types is checked once."""

    def __init__(self) -> None:
        """Start with no results."""
        self.store = MessageStore()
        self._judgements: WeightedCache[tuple[str, tuple[str, ...]], TypeCheckResult] = WeightedCache(
            most=JUDGEMENTS_KEPT, most_weight=limits.JUDGED_BYTES
        )
        self._environments: WeightedCache[tuple[frozenset[tuple[str, str]], Library], Any] = WeightedCache(
            most=ENVIRONMENTS_KEPT, most_weight=limits.CHECKED_NAMES
        )

    def check(self, parsed: Parsed, scope: TypeScope) -> TypeCheckResult:
        """Check whether `parsed` fits the variables of `scope`; unknown names are dynamic."""
        types = scope.types
        key = (parsed.text, tuple([types.get(root, "") for root in parsed.roots]))
        judgement = self._judgements.find(key)
        if judgement is not None:
            return judgement
        judgement = self._check(parsed, scope)
        if not judgement.is_final:
            return judgement
        size = JUDGED_BYTES + len(parsed.text) + sum(JUDGED_BYTES + len(fault.message) for fault in judgement.faults)
        size += sum(JUDGED_BYTES + len(each) for each in key[1])
        return self._judgements.keep(key, judgement, weight=size)

    def _check(self, parsed: Parsed, scope: TypeScope) -> TypeCheckResult:
        library = cel_environment.find_library(parsed.text)
        if all(root in scope.types for root in parsed.roots):
            checking = scope.find_environment(parsed, library=library)
        else:
            checking = self.make_environment(dict.fromkeys(parsed.roots, "") | scope.types, library=library)
        try:
            compiled = cel_environment.compile_text(checking, parsed.text, is_checked=True, look=self.store.describe)
        except cel_environment.CelCompileError as refusal:
            return TypeCheckResult(faults=refusal.faults, is_final=refusal.is_final)
        result: str = compiled.return_type().name()
        if result.startswith(_OPTIONAL):
            return TypeCheckResult(result=result[len(_OPTIONAL) : -1], is_optional=True)
        return TypeCheckResult(result=result)

    def find_environment(self, types: Mapping[str, str], *, library: Library) -> Any:
        """Find the environment with these variables; templates that differ only in texts share it."""
        key = frozenset(types.items()), library
        found = self._environments.find(key)
        if found is None:
            made = self.make_environment(types, library=library)
            found = self._environments.keep(key, made, weight=len(types))
        return found

    def make_environment(self, types: Mapping[str, str], *, library: Library) -> Any:
        """Create an environment with these variables, by name the type of each as CEL writes it; "" is dynamic.

        The names of CEL's types are reserved. A resource that has one of them is an error that is reported elsewhere.
        """
        variables = {name: parse_type(type_) for name, type_ in types.items() if name not in cel_environment.TYPE_NAMES}
        return cel_environment.new_environment(
            library=library, variables=variables, pool=self.store.pool, quantity_type=_QUANTITY
        )


_latest = [TypeChecker()]


def find_checker() -> TypeChecker:
    """Find the checker for a new scope. Older scopes keep theirs, whose messages have the same names as later ones."""
    if _latest[0].store.is_full:
        _latest[0] = TypeChecker()
    return _latest[0]


_PLAIN = {
    name: getattr(cel.Type, name)
    for name in ("BOOL", "INT", "UINT", "DOUBLE", "STRING", "BYTES", "NULL", "TIMESTAMP", "DURATION")
}
_LIST, _MAP = "LIST<", "MAP<"


def parse_type(name: str) -> Any:
    """Return the type with that name, as CEL writes it; dynamic if it is not known."""
    if name in _PLAIN:
        return _PLAIN[name]
    if name.startswith(_LIST):
        return cel.Type.List(parse_type(find_element(name)))
    if name.startswith(_MAP):
        return cel.Type.Map(cel.Type.STRING, parse_type(find_element(name)))
    return cel.Type(name) if name.startswith("hearth_types_") else cel.Type.DYN


def find_element(name: str) -> str:
    """Return the type of the elements of a list, or of the values of a map with texts as keys, or "" if it is not known."""
    if name.startswith(_LIST):
        return name[len(_LIST) : -1]
    return name.partition(", ")[2][:-1] if name.startswith(f"{_MAP}STRING, ") else ""


def is_list(name: str) -> bool:
    """Return whether it is the type of a list."""
    return name.startswith(_LIST)


class TypeScope:
    """The names of one template and their types, during one compilation."""

    def __init__(self, shapes_: Mapping[str, Shape], *, collections: Collection[str] = ()) -> None:
        """Create a scope. collections: the names that are lists of objects of their shape."""
        self._checker = find_checker()
        store = self._checker.store
        self.environments: dict[Library, Any] = {}
        self.is_derived = False
        self.objects = {
            name: store.find_message(shape) if shape.type is Type.OBJECT else "" for name, shape in shapes_.items()
        }
        """By name the message of one object; "" for a dynamic one."""
        self.collections = frozenset(collections)
        """The names that are lists."""
        self.types = {
            name: f"{_LIST}{type_ or 'DYN'}>" if name in self.collections else type_
            for name, type_ in self.objects.items()
        }
        """By name its type, as CEL writes it; "" for a dynamic one."""

    def derive(self, types: Mapping[str, str]) -> TypeScope:
        """Return a scope with other types of some names, or with more names."""
        derived = copy.copy(self)
        derived.environments = {}
        derived.is_derived = True
        derived.types = {**self.types, **types}
        derived.collections = self.collections - types.keys()
        return derived

    def derive_object(self, name: str, shape: Shape) -> TypeScope:
        """Return a scope in which a name is an object of that shape."""
        return self.derive({name: self._checker.store.find_message(shape)})

    def find_schema(self, result: str, depth: int = 0) -> Schema:
        """Return the JSON schema of a result once it is converted to JSON; {} if it is not known."""
        if result in _SCHEMA_TYPES:
            return {"type": _SCHEMA_TYPES[result]}
        if result.startswith("hearth_types_"):
            return self._checker.store.find_schema(result)
        if depth == DEEPEST_RESULT or not result.startswith((_LIST, _MAP)):
            return {}
        element = self.find_schema(find_element(result), depth + 1)
        if is_list(result):
            return {"type": "array", "items": element}
        return {"type": "object", "additionalProperties": element}

    def find_environment(self, parsed: Parsed, *, library: Library) -> Any:
        """Find the environment for checks of these names; needed for uncached expressions only."""
        if self.is_derived:
            # Each collection has its own scope, and the names of a large template would be loaded for each.
            return self._checker.find_environment({root: self.types[root] for root in parsed.roots}, library=library)
        # The names of a large template take long to compare.
        if library not in self.environments:
            self.environments[library] = self._checker.find_environment(self.types, library=library)
        return self.environments[library]

    def check(self, parsed: Parsed) -> TypeCheckResult:
        """Return the type check result of `parsed`."""
        return self._checker.check(parsed, self)


_SCHEMA_TYPES = {
    "BOOL": "boolean",
    "DOUBLE": "number",
    **dict.fromkeys(("INT", "UINT"), "integer"),
    **dict.fromkeys(("STRING", "BYTES", "TIMESTAMP", "DURATION"), "string"),
}
"""Types of JSON by the type of a result in CEL."""
_FITTING = {
    "BOOL": frozenset({Type.BOOLEAN}),
    # An integral double is written as an integer; only its value shows whether it is integral.
    **dict.fromkeys(("INT", "UINT", "DOUBLE"), frozenset({Type.INTEGER, Type.NUMBER})),
    **dict.fromkeys(("STRING", "BYTES", "TIMESTAMP", "DURATION", "kubernetes.Quantity"), frozenset({Type.STRING})),
}
_NAMES = {"BOOL": "a boolean", "INT": "an integer", "UINT": "an integer", "DOUBLE": "a number", "STRING": "text"}


def fits(result: str, shape: Shape) -> bool:
    """Return whether a location of that shape may accept an expression result of the type `result`."""
    if shape.type is Type.OPEN or result in ("DYN", "NULL"):
        return True
    if result in _FITTING:
        return shape.type in _FITTING[result]
    if result.startswith("LIST"):
        return shape.type is Type.ARRAY
    if result.startswith(("MAP", "hearth_types_")):
        return shape.type in (Type.OBJECT, Type.MAP)
    return True


def describe_result(result: str) -> str:
    """Describe a type of CEL in plain words."""
    if result.startswith("LIST"):
        return "a list"
    if result.startswith(("MAP", "hearth_types_")):
        return "a map"
    return _NAMES.get(result, result.lower())
