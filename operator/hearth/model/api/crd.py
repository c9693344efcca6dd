"""The CustomResourceDefinitions as data, made from the pydantic models of `hearth.model.api.stack` and its neighbours.

Knows what Kubernetes calls a structural schema, and how pydantic's JSON schema differs from one; must not know where
the result is written to.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from hearth.model import names
from hearth.model.api import health_mark, resource_group, stack, stack_definition, stack_snapshot

DROPPED = frozenset({"title", "$defs", "additionalProperties", "properties", "items", "anyOf", "$ref", "const"})
"""Words of pydantic's schema that are left out or written in another way."""
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
"""Only with both of these does the API server take any value at all, null among them."""
READING_ORDER = ("description", "type", "format", "enum", "default")
"""The words that come first in each node; what is within it comes last."""

PHASE_COLUMN = {"name": "Phase", "type": "string", "jsonPath": ".status.phase"}
READY_COLUMN = {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'}
REVISION_COLUMN = {"name": "Revision", "type": "integer", "jsonPath": ".status.revision"}
STATE_COLUMN = {
    "name": "State",
    "type": "string",
    "jsonPath": ".status.state",
    "description": "What a person should know besides the phase: paused, rolled back, drifted.",
}
AGE_COLUMN = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def message_column(description: str) -> dict[str, Any]:
    """Return the column with the message of Ready, which `kubectl get -o wide` shows."""
    return {
        "name": "Message",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].message',
        "description": description,
        "priority": 1,
    }


STACK_COLUMNS = (
    PHASE_COLUMN,
    READY_COLUMN,
    {
        "name": "Resources",
        "type": "string",
        "jsonPath": ".status.summary",
        "description": "Ready resources of all resources.",
    },
    REVISION_COLUMN,
    STATE_COLUMN,
    AGE_COLUMN,
    message_column("The first problem, or what the Stack waits for."),
)


GROUP_COLUMNS = (
    PHASE_COLUMN,
    {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
    {
        "name": "Members",
        "type": "integer",
        "jsonPath": ".status.replicas",
        "description": "Members that have an object.",
    },
    {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Members that are ready."},
    STATE_COLUMN,
    AGE_COLUMN,
    message_column("The first problem, or what the group waits for."),
)
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


MARK_COLUMNS = (
    {"name": "Stack", "type": "string", "jsonPath": ".spec.stackName"},
    {"name": "Group", "type": "string", "jsonPath": ".spec.groupName", "priority": 1},
    {"name": "Resource", "type": "string", "jsonPath": ".spec.resource"},
    {"name": "Target", "type": "string", "jsonPath": ".spec.target.name"},
    {"name": "Unhealthy", "type": "boolean", "jsonPath": ".spec.markUnhealthy"},
    READY_COLUMN,
    {"name": "Resolved", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Resolved")].reason'},
    {"name": "Replaced by", "type": "string", "jsonPath": ".status.replacedBy.name"},
    AGE_COLUMN,
    message_column("Error or result of the mark."),
)

SNAPSHOT_COLUMNS = (
    {"name": "Stack", "type": "string", "jsonPath": ".spec.stackName"},
    PHASE_COLUMN,
    REVISION_COLUMN,
    AGE_COLUMN,
    message_column("Content of the snapshot, what it waits for, or the error."),
)


DEFINITION_COLUMNS = (
    {"name": "Kind", "type": "string", "jsonPath": ".spec.names.kind"},
    READY_COLUMN,
    REVISION_COLUMN,
    {"name": "Instances", "type": "integer", "jsonPath": ".status.instances"},
    {
        "name": "Updated",
        "type": "integer",
        "jsonPath": ".status.updated",
        "description": "Instances that have the newest revision.",
    },
    AGE_COLUMN,
    message_column("What is wrong, or what the definition waits for."),
)


def make_stack_crd() -> dict[str, Any]:
    """Make the CustomResourceDefinition of Stack, ready to be applied."""
    words = {"kind": "Stack", "plural": "stacks", "singular": "stack", "shortNames": ["stk"]}
    return make_crd(stack.Stack, words=words, columns=STACK_COLUMNS)


def make_group_crd() -> dict[str, Any]:
    """Make the CustomResourceDefinition of ResourceGroup."""
    words = {"kind": "ResourceGroup", "plural": "resourcegroups", "singular": "resourcegroup", "shortNames": ["rg"]}
    return make_crd(resource_group.ResourceGroup, words=words, columns=GROUP_COLUMNS, scale=SCALE)


def make_mark_crd() -> dict[str, Any]:
    """Make the CustomResourceDefinition of HealthMark, ready to be applied."""
    words = {"kind": "HealthMark", "plural": "healthmarks", "singular": "healthmark", "shortNames": ["mark"]}
    return make_crd(health_mark.HealthMark, words=words, columns=MARK_COLUMNS)


def make_snapshot_crd() -> dict[str, Any]:
    """Make the CustomResourceDefinition of StackSnapshot, ready to be applied."""
    words = {"kind": "StackSnapshot", "plural": "stacksnapshots", "singular": "stacksnapshot", "shortNames": ["ssnap"]}
    return make_crd(stack_snapshot.StackSnapshot, words=words, columns=SNAPSHOT_COLUMNS)


def make_template_crd() -> dict[str, Any]:
    """Make the CustomResourceDefinition of StackTemplate, ready to be applied."""
    words = {"kind": "StackTemplate", "plural": "stacktemplates", "singular": "stacktemplate", "shortNames": ["stt"]}
    return make_crd(stack.StackTemplate, words=words, columns=(AGE_COLUMN,), is_namespaced=False)


def make_definition_crd() -> dict[str, Any]:
    """Make the CustomResourceDefinition of StackDefinition, ready to be applied."""
    words = {
        "kind": "StackDefinition",
        "plural": "stackdefinitions",
        "singular": "stackdefinition",
        "shortNames": ["sd"],
    }
    return make_crd(stack_definition.StackDefinition, words=words, columns=DEFINITION_COLUMNS, is_namespaced=False)


def make_crds() -> tuple[dict[str, Any], ...]:
    """Make all CustomResourceDefinitions of Hearth."""
    stacks = make_stack_crd(), make_group_crd()
    return (*stacks, make_mark_crd(), make_snapshot_crd(), make_template_crd(), make_definition_crd())


def make_crd(
    model: type[pydantic.BaseModel],
    *,
    words: Mapping[str, Any],
    columns: Iterable[Mapping[str, Any]],
    scale: Mapping[str, str] | None = None,
    is_namespaced: bool = True,
) -> dict[str, Any]:
    """Make the CustomResourceDefinition of a kind; it has the subresource status if the model has that.

    words: what it is called; scale: the paths of the scale subresource, None if it has none.
    """
    subresources: dict[str, Any] = {"status": {}} if "status" in model.model_fields else {}
    if scale is not None:
        subresources["scale"] = dict(scale)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{words['plural']}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced" if is_namespaced else "Cluster",
            "names": {
                "kind": words["kind"],
                "listKind": f"{words['kind']}List",
                **{key: words[key] for key in ("plural", "singular", "shortNames")},
                "categories": ["hearth"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [dict(column) for column in columns],
                    **({"subresources": subresources} if subresources else {}),
                    "schema": {"openAPIV3Schema": make_root_schema(model)},
                }
            ],
        },
    }


def make_root_schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Make the structural schema of a whole object whose fields besides the metadata `model` describes."""
    schema = make_structural_schema(model)
    # The API server describes and validates these three itself, and allows no more to be said of them.
    header = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return {**schema, "properties": {**header, **schema["properties"]}}


def make_structural_schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Make the structural schema of `model`."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return convert(schema, definitions=schema.get("$defs", {}))


def convert(schema: Mapping[str, Any], *, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a node of pydantic's schema to one of a structural schema: all in place, no null, no title."""
    schema = resolve(schema, definitions=definitions)
    converted = {key: value for key, value in schema.items() if key not in DROPPED}
    if converted.get("default", ...) is None:
        del converted["default"]
    if "description" in converted:
        converted["description"] = unwrap(converted["description"])
    if "const" in schema:
        converted["enum"] = [schema["const"]]
    if "type" not in converted and "x-kubernetes-int-or-string" not in converted:
        converted |= ANYTHING
    first = {word: converted[word] for word in READING_ORDER if word in converted}
    last = convert_inner(schema, definitions=definitions)
    return {**first, **{word: value for word, value in converted.items() if word not in first}, **last}


def convert_inner(schema: Mapping[str, Any], *, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Convert what a node says of the nodes within it."""
    inner: dict[str, Any] = {}
    if "properties" in schema:
        inner["properties"] = {
            name: convert(value, definitions=definitions) for name, value in schema["properties"].items()
        }
    elif schema.get("additionalProperties") is True:
        inner["additionalProperties"] = dict(ANYTHING)
    elif isinstance(schema.get("additionalProperties"), Mapping):
        inner["additionalProperties"] = convert(schema["additionalProperties"], definitions=definitions)
    if "items" in schema:
        inner["items"] = convert(schema["items"], definitions=definitions)
    return inner


def resolve(schema: Mapping[str, Any], *, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` with what it refers to put in its place; its own words win, `X or null` becomes X."""
    own = dict(schema)
    while "$ref" in own or "anyOf" in own:
        if "$ref" in own:
            target = definitions[own.pop("$ref").removeprefix("#/$defs/")]
        else:
            (target,) = (choice for choice in own.pop("anyOf") if choice.get("type") != "null")
        own = {**target, **own}
    return own


def unwrap(description: str) -> str:
    """`description` with each paragraph on one line, because the viewer wraps the lines."""
    paragraphs = inspect.cleandoc(description).split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in paragraph.splitlines()) for paragraph in paragraphs)
