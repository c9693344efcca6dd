"""Converts the schemas of CustomResourceDefinitions to JSON Schemas (draft 7) for editors.

They are stricter than the API server in one point: unknown fields are errors, as with `kubectl apply`. CEL rules are
omitted, because JSON Schema cannot express them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hearth.model import value_class

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest draft that all common YAML language servers support."""
EXTENSION: Final = "x-kubernetes-"
OPEN: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
CONVERTED: Final = frozenset(
    {"properties", "additionalProperties", "items", "nullable", "exclusiveMinimum", "exclusiveMaximum", "pattern"}
)
ONLY_RE2: Final = re.compile(r"\\[pPzAQECa]|\(\?|\[\[:")
"""Pattern syntax that editors do not support."""
TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Name, namespace, labels and annotations of the object.",
    "properties": {
        "name": {"type": "string", "description": "Name of the object.", "maxLength": 253},
        "namespace": {"type": "string", "description": "Namespace of the object.", "maxLength": 63},
        "labels": {**TEXTS, "description": "Keys and values that selectors can match."},
        "annotations": {**TEXTS, "description": "Other keys and values, for people and programs."},
    },
}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KindSchema:
    """The schema of one kind."""

    group: str
    version: str
    kind: str
    schema: Mapping[str, Any]

    @property
    def file(self) -> str:
        """Return the path in a folder of schemas, in kubeconform's layout: `hearth.dev/stack_v1alpha1.json`."""
        return f"{self.group}/{self.kind.lower()}_{self.version}.json"

    @property
    def key(self) -> str:
        """Return the name in the definitions of the schema of all kinds."""
        return f"{self.group}.{self.version}.{self.kind}"

    @property
    def api_version(self) -> str:
        """Return the group and the version."""
        return f"{self.group}/{self.version}"


def read_definition(definition: Mapping[str, Any]) -> KindSchema:
    """Return the schema of the kind that a CustomResourceDefinition with one version defines."""
    spec = definition["spec"]
    (version,) = spec["versions"]
    return make_schema(
        version["schema"]["openAPIV3Schema"], group=spec["group"], version=version["name"], kind=spec["names"]["kind"]
    )


def make_schema(published: Mapping[str, Any], *, group: str, version: str, kind: str) -> KindSchema:
    """Return the schema of a kind. published: as an API server publishes it."""
    converted = convert(published)
    fixed = {
        "apiVersion": {"type": "string", "const": f"{group}/{version}"},
        "kind": {"type": "string", "const": kind},
        "metadata": METADATA,
    }
    required = ["apiVersion", "kind", *(word for word in converted.get("required", ()) if word not in fixed)]
    schema = {
        "title": kind,
        **converted,
        "required": required,
        "properties": {**converted["properties"], **fixed},
        "additionalProperties": False,
    }
    return KindSchema(group=group, version=version, kind=kind, schema=schema)


def convert(node: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a node of a structural schema, and everything below it."""
    found = {word: value for word, value in node.items() if word not in CONVERTED and not word.startswith(EXTENSION)}
    if node.get(INT_OR_STRING):
        found["type"] = ["integer", "string"]
    if node.get("x-kubernetes-list-type") == "set":
        found["uniqueItems"] = True
    if not ONLY_RE2.search(node.get("pattern", "(?")):
        found["pattern"] = node["pattern"]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(exclusive) and bound in node:
            found[exclusive] = found.pop(bound)
    if node.get("nullable"):
        found |= allow_null(found)
    return found | convert_inner(node)


def allow_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words that allow null in addition."""
    words: dict[str, Any] = {}
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        words["type"] = [*types, "null"]
    if "enum" in schema:
        words["enum"] = [*schema["enum"], None]
    return words


def convert_inner(node: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the nodes below."""
    inner: dict[str, Any] = {}
    if "properties" in node:
        inner["properties"] = {name: convert(each) for name, each in node["properties"].items()}
    more = node.get("additionalProperties")
    if isinstance(more, Mapping):
        inner["additionalProperties"] = convert(more)
    elif "properties" in node and not more and not node.get(OPEN):
        inner["additionalProperties"] = False
    if isinstance(node.get("items"), Mapping):
        inner["items"] = convert(node["items"])
    return inner


def write_one(schema: KindSchema) -> dict[str, Any]:
    """Return the schema of one kind as a file of its own."""
    return {"$schema": DRAFT, **schema.schema}


def write_any(schemas: Iterable[KindSchema]) -> dict[str, Any]:
    """Return one schema for all kinds. It checks an object by its kind, and accepts objects of other kinds unchecked.

    So a file may contain a Stack and, for example, a Secret with its parameters.
    """
    known = list(schemas)
    rules = [
        {
            "if": {
                "required": ["apiVersion", "kind"],
                "properties": {"apiVersion": match_text(each.api_version), "kind": match_text(each.kind)},
            },
            "then": {"$ref": f"#/definitions/{each.key}"},
        }
        for each in known
    ]
    return {
        "$schema": DRAFT,
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            # An editor suggests these values, and accepts others.
            "apiVersion": offer(each.api_version for each in known),
            "kind": offer(each.kind for each in known),
        },
        "allOf": rules,
        "definitions": {each.key: each.schema for each in known},
    }


def match_text(text: str) -> dict[str, str]:
    """Return the schema of exactly this text.

    While it completes, yaml-language-server accepts the beginning of a `const`: a Stack would have the fields of a
    StackDefinition.
    """
    # A name of an API contains no other special character, and editors refuse to escape `-` and `/`.
    return {"type": "string", "pattern": "^" + text.replace(".", r"\.") + "$"}


def offer(words: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a text for which an editor suggests these words."""
    return {"type": "string", "anyOf": [{"enum": list(dict.fromkeys(words))}, {}]}
