"""Generates the CustomResourceDefinitions from the pydantic models in `hearth.model.api`.

Knows what Kubernetes calls a structural schema, and how pydantic's JSON schema differs from one; must not know where
the result is written to.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from hearth.model import names
from hearth.model.api import health_mark, resource_group, stack, stack_definition, stack_plan, stack_snapshot

DROPPED = frozenset({"title", "$defs", "additionalProperties", "properties", "items", "anyOf", "$ref", "const"})
"""Keywords of pydantic's schema that are omitted or converted."""
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
"""The API server accepts any value, including null, only with both of these."""
READING_ORDER = ("description", "type", "format", "enum", "default")
"""Keywords that come first in each node; nested nodes come last."""


def column(name: str, path: str, *, of: str = "string", **more: Any) -> dict[str, Any]:
    """Return a column of `kubectl get`. of: the type; more: other fields of the column in the CustomResourceDefinition."""
    return {"name": name, "type": of, "jsonPath": path, **more}


def message_column(description: str) -> dict[str, Any]:
    """Return the column with the message of Ready, which `kubectl get -o wide` shows."""
    return column("Message", '.status.conditions[?(@.type=="Ready")].message', description=description, priority=1)


PHASE_COLUMN = column("Phase", ".status.phase")
READY_COLUMN = column("Ready", '.status.conditions[?(@.type=="Ready")].status')
REVISION_COLUMN = column("Revision", ".status.revision", of="integer")
STATE_COLUMN = column(
    "State", ".status.state", description="Noteworthy facts in addition to the phase: paused, rolled back, drifted."
)
AGE_COLUMN = column("Age", ".metadata.creationTimestamp", of="date")


STACK_COLUMNS = (
    PHASE_COLUMN,
    READY_COLUMN,
    column("Resources", ".status.summary", description="Ready resources out of all resources."),
    REVISION_COLUMN,
    STATE_COLUMN,
    AGE_COLUMN,
    message_column("The first problem, or the reason why the Stack waits."),
)


GROUP_COLUMNS = (
    PHASE_COLUMN,
    column("Desired", ".spec.replicas", of="integer"),
    column("Members", ".status.replicas", of="integer", description="Members that have an object."),
    column("Ready", ".status.readyReplicas", of="integer", description="Members that are ready."),
    STATE_COLUMN,
    AGE_COLUMN,
    message_column("The first problem, or the reason why the group waits."),
)
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


MARK_COLUMNS = (
    column("Stack", ".spec.stackName"),
    column("Group", ".spec.groupName", priority=1),
    column("Resource", ".spec.resource"),
    column("Target", ".spec.target.name"),
    column("Unhealthy", ".spec.markUnhealthy", of="boolean"),
    READY_COLUMN,
    column("Resolved", '.status.conditions[?(@.type=="Resolved")].reason'),
    column("Replaced by", ".status.replacedBy.name"),
    AGE_COLUMN,
    message_column("Error or result of the mark."),
)

SNAPSHOT_COLUMNS = (
    column("Stack", ".spec.stackName"),
    PHASE_COLUMN,
    REVISION_COLUMN,
    AGE_COLUMN,
    message_column("Content of the snapshot, the reason why it waits, or the error."),
)

PLAN_COLUMNS = (
    column("Stack", ".spec.stackRef.name"),
    PHASE_COLUMN,
    column("Undo", ".spec.undo", description="How a rollback undoes the change."),
    column("Digest", ".spec.digest", priority=1),
    AGE_COLUMN,
    message_column("What to do next."),
)

DEFINITION_COLUMNS = (
    column("Kind", ".spec.names.kind"),
    READY_COLUMN,
    REVISION_COLUMN,
    column("Instances", ".status.instances", of="integer"),
    column("Updated", ".status.updated", of="integer", description="Instances that have the newest revision."),
    AGE_COLUMN,
    message_column("The first problem, or the reason why the definition waits."),
)


def make_crds() -> tuple[dict[str, Any], ...]:
    """Make all CustomResourceDefinitions of Hearth, ready to be applied; the Stack's is the first."""
    return (
        make_crd(stack.Stack, short_name="stk", columns=STACK_COLUMNS),
        make_crd(resource_group.ResourceGroup, short_name="rg", columns=GROUP_COLUMNS, scale=SCALE),
        make_crd(health_mark.HealthMark, short_name="mark", columns=MARK_COLUMNS),
        make_crd(stack_snapshot.StackSnapshot, short_name="ssnap", columns=SNAPSHOT_COLUMNS),
        make_crd(stack_plan.StackPlan, short_name="splan", columns=PLAN_COLUMNS),
        make_crd(stack.StackTemplate, short_name="stt", columns=(AGE_COLUMN,), is_namespaced=False),
        make_crd(stack_definition.StackDefinition, short_name="sd", columns=DEFINITION_COLUMNS, is_namespaced=False),
    )


def make_crd(
    model: type[pydantic.BaseModel],
    *,
    short_name: str,
    columns: Iterable[Mapping[str, Any]],
    scale: Mapping[str, str] | None = None,
    is_namespaced: bool = True,
) -> dict[str, Any]:
    """Make the CustomResourceDefinition of a model. The kind has the model's name, and a status if the model has one.

    scale: the paths of the scale subresource, None if it has none.
    """
    kind = model.__name__
    named = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "shortNames": [short_name]}
    subresources: dict[str, Any] = {"status": {}} if "status" in model.model_fields else {}
    if scale is not None:
        subresources["scale"] = dict(scale)
    version = {
        "additionalPrinterColumns": [dict(each) for each in columns],
        **({"subresources": subresources} if subresources else {}),
        "schema": {"openAPIV3Schema": make_root_schema(model)},
    }
    scope = "Namespaced" if is_namespaced else "Cluster"
    return assemble(names.GROUP, {**named, "categories": ["hearth"]}, names.VERSION, version, scope=scope)


def assemble(
    group: str, named: Mapping[str, Any], version: str, content: Mapping[str, Any], *, scope: str = "Namespaced"
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind that has one version.

    named: the names of the kind; content: of the version: columns, subresources and schema.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{named['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": named["kind"], "listKind": f"{named['kind']}List", **named},
            "versions": [{"name": version, "served": True, "storage": True, **content}],
        },
    }


def make_root_schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Make the structural schema of a whole object; `model` describes the fields outside the metadata."""
    schema = make_structural_schema(model)
    # The API server describes and validates these three itself, and rejects further keywords.
    header = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return {**schema, "properties": {**header, **schema["properties"]}}


def make_structural_schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Make the structural schema of `model`. The caller may change its nodes."""
    schema = find_json_schema(model)
    return convert(schema, definitions=schema.get("$defs", {}))


@functools.cache
def find_json_schema(model: type[pydantic.BaseModel]) -> Mapping[str, Any]:
    """Return pydantic's schema of `model`. It takes 3 to 10 ms of CPU time, and each look at a StackDefinition needs three."""
    return model.model_json_schema(by_alias=True, mode="validation")


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
    """Convert the keywords that describe nested nodes."""
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
    """Inline the references of `schema`; its own keywords win, `X or null` becomes X."""
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
    paragraphs = inspect.cleandoc(description.strip()).split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in paragraph.splitlines()) for paragraph in paragraphs)
