"""`Shape`: the fields and types of a kind's objects, from its OpenAPI schema.

References are resolved lazily and only once. Unsupported parts of a schema are treated as open, so a shape never
rejects a valid object.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from hearth.model import limits
from hearth.model.kinds import Kind, Kinds

Schema: TypeAlias = Mapping[str, Any]
Find: TypeAlias = Callable[[str], Schema | None]

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
# The schemas declare strings, but the API server also accepts other types.
_QUANTITY = ".api.resource.Quantity"
BASE64: Final = "byte"
_OPEN_DEFINITIONS = (
    ".util.intstr.IntOrString",
    ".runtime.RawExtension",
    ".v1.JSON",
    ".v1.FieldsV1",
)
_OPEN_MARKS = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
_DEEPEST_REFERENCE = 16


class Type(enum.Enum):
    """The values that a location accepts."""

    OBJECT = "object"
    """Only fields with known names."""
    MAP = "map"
    """Any keys, all values of one shape."""
    ARRAY = "array"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    OPEN = "open"
    """Anything, or an unknown type."""


_SCALARS = {kind.value: kind for kind in (Type.STRING, Type.INTEGER, Type.NUMBER, Type.BOOLEAN)}


class Shape:
    """The shape of one location in an object. Compared by identity: one per definition."""

    __slots__ = ("_element", "_fields", "_find", "_memory", "_schema", "name", "notation", "type")

    def __init__(self, schema: Schema, *, find: Find, memory: dict[int, Shape], name: str) -> None:
        self._schema = schema
        self._find = find
        self._memory = memory
        self._fields: dict[str, Shape] | None = None
        self._element: Shape | None = None
        self.name = name
        """For messages: `DeploymentStatus`."""
        self.type = find_type(schema)
        self.notation = schema.get("format") if schema.get("format") == BASE64 else ""
        """Constraints on a text in addition to its type."""

    @property
    def fields(self) -> Mapping[str, Shape]:
        """Return the fields of an OBJECT by name."""
        if self._fields is None:
            properties = self._schema.get("properties") or {}
            self._fields = {
                name: make_shape(inner, find=self._find, memory=self._memory, name=f"{self.name}.{name}")
                for name, inner in properties.items()
            }
        return self._fields

    def find_entry(self, key: str) -> Shape:
        """Find the shape under a key of a map, even one that accepts null or unknown fields; OPEN if unknown."""
        if self.type is Type.OBJECT:
            return self.fields.get(key, OPEN)
        inner = (self._schema.get("properties") or {}).get(key)
        if isinstance(inner, Mapping):
            return make_shape(inner, find=self._find, memory=self._memory, name=f"{self.name}.{key}")
        return self.element

    @property
    def schema(self) -> Schema:
        """Return the schema that it was made from."""
        return self._schema

    @property
    def description(self) -> str:
        """Return the purpose of the location, if its schema states it."""
        return str(self._schema.get("description") or "")

    @property
    def element(self) -> Shape:
        """Return the shape of every element of a list, or value of a MAP."""
        if self._element is None:
            inner = self._schema.get("items" if self._schema.get("type") == "array" else "additionalProperties")
            self._element = OPEN
            if isinstance(inner, Mapping):
                self._element = make_shape(inner, find=self._find, memory=self._memory, name=f"{self.name}[]")
        return self._element

    @property
    def is_atomic(self) -> bool:
        """Return whether the schema declares that a map or list has a single owner."""
        return "atomic" in (self._schema.get("x-kubernetes-map-type"), self._schema.get("x-kubernetes-list-type"))

    @property
    def list_keys(self) -> tuple[str, ...] | None:
        """Return the fields that identify the elements of a list, () for a set, None for other lists."""
        if self._schema.get("type") != "array":
            return None
        match self._schema.get("x-kubernetes-list-type"):
            case "set":
                return ()
            case "map":
                keys = self._schema.get("x-kubernetes-list-map-keys")
                return tuple(map(str, keys)) if isinstance(keys, list) and keys else None
        return None

    def find_default(self, key: str) -> Any:
        """Find the value that the API server sets for a missing field, or None if it sets none.

        An empty default does not count, because schemas declare one for required fields.
        """
        field = (self._schema.get("properties") or {}).get(key)
        return (field.get("default") or None) if isinstance(field, Mapping) else None

    def with_root_fields(self) -> Shape:
        """Add apiVersion, kind and metadata to the shape of a whole object, in case its schema omits them."""
        if self.type is Type.OBJECT:
            self._fields = {**dict.fromkeys(_ROOT_FIELDS, OPEN), **self.fields}
        return self


def find_type(schema: Schema) -> Type:
    """Find the type of a location with that (resolved) schema."""
    if schema.get("nullable") or any(schema.get(mark) for mark in _OPEN_MARKS):
        return Type.OPEN
    stated = schema.get("type")
    if stated == "object" or (stated is None and "properties" in schema):
        if schema.get("properties"):
            if len(schema["properties"]) > limits.SHAPE_FIELDS:
                return Type.OPEN
            return Type.OPEN if schema.get("additionalProperties") else Type.OBJECT
        return Type.MAP
    if stated == "array":
        return Type.ARRAY
    return _SCALARS.get(str(stated), Type.OPEN)


def make_shape(schema: Schema | bool, *, find: Find, memory: dict[int, Shape], name: str) -> Shape:
    """Make the shape of `schema`, with references resolved; the same one for the same definition."""
    if not isinstance(schema, Mapping):
        # `true` and `false` are schemas too, as in `properties: {debug: true}`.
        return OPEN
    for _ in range(_DEEPEST_REFERENCE):
        reference = find_reference(schema)
        if reference is None:
            break
        if reference.endswith(_QUANTITY):
            return QUANTITY
        definition = None if reference.endswith(_OPEN_DEFINITIONS) else find(reference)
        if definition is None:
            return OPEN
        schema, name = definition, reference.rpartition("/")[2].rpartition(".")[2]
    known = memory.get(id(schema))
    if known is None:
        known = memory[id(schema)] = Shape(schema, find=find, memory=memory, name=name)
    return known


def find_reference(schema: Schema) -> str | None:
    """Return the target of `schema`'s reference, direct or as the only part of an `allOf`."""
    if "$ref" in schema:
        return str(schema["$ref"])
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], Mapping) and "$ref" in parts[0]:
        return str(parts[0]["$ref"])
    return None


def make_closed(properties: Mapping[str, Schema], *, name: str) -> Shape:
    """Make the shape of a map with exactly these fields, possibly none."""
    shape = Shape({"type": "object", "properties": properties}, find=lambda _: None, memory={}, name=name)
    shape.type = Type.OBJECT
    return shape


OPEN: Final = Shape({}, find=lambda _: None, memory={}, name="value")
QUANTITY: Final = Shape({}, find=lambda _: None, memory={}, name="Quantity")
"""A number, or a text like `2Gi`."""
QUANTITY.notation = "quantity"


class _Remembered:
    """The shapes of one cluster's kinds."""

    def __init__(self, kinds: Kinds) -> None:
        # The schema is stored with its shapes, so that no other object can get its `id`.
        self.kinds = kinds
        self.generation = -1
        self.confirmed: dict[Kind, Shape] = {}
        self.definitions: dict[int, Shape] = {}

    def find(self, kind: Kind) -> Shape:
        """Find the shape of objects of `kind`. Check it in each generation, and make it again if the schema changed."""
        if self.generation != self.kinds.generation:
            self.generation = self.kinds.generation
            self.confirmed, self.definitions = {}, {}
        known = self.confirmed.get(kind)
        if known is not None:
            return known
        schema = self.kinds.find_schema(kind)
        if schema is None:
            return OPEN
        found = self.confirmed[kind] = self._find_by_schema(schema, name=kind.name)
        return found

    def _find_by_schema(self, schema: Schema, *, name: str) -> Shape:
        """Find the shape by schema: the same schema has the same shape in every generation and cluster."""
        known = _by_schema.get(id(schema))
        if known is None:
            find = self.kinds.find_definition
            shape = make_shape(schema, find=find, memory=self.definitions, name=name).with_root_fields()
            known = _by_schema[id(schema)] = (schema, shape)
            if len(_by_schema) > SCHEMAS_KEPT:
                _by_schema.popitem(last=False)
        return known[1]


CLUSTERS_KEPT = 16
SCHEMAS_KEPT = 256
"""Shapes of whole kinds: more than a cluster's templates use."""
_remembered: OrderedDict[int, _Remembered] = OrderedDict()
# Each entry holds its schema, so that no other object can get its `id` in the meantime.
_by_schema: OrderedDict[int, tuple[Schema, Shape]] = OrderedDict()


def find_shape(kinds: Kinds, kind: Kind | None) -> Shape:
    """Find the shape of whole objects of `kind`; OPEN if its schema is not known."""
    if kind is None:
        return OPEN
    remembered = _remembered.get(id(kinds))
    if remembered is None:
        remembered = _remembered[id(kinds)] = _Remembered(kinds)
        if len(_remembered) > CLUSTERS_KEPT:
            _remembered.popitem(last=False)
    return remembered.find(kind)
