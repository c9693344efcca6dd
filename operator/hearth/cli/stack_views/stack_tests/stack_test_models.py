"""The format of `*.stacktest.yaml`. The parser and the schema for editors are derived from these models."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import pydantic

from hearth.cli.stack_views.files import file_schema
from hearth.model import names, object_fields, value_class
from hearth.model.api.base import ApiModel
from hearth.template.text import error_hints

KIND = "StackTest"
SUFFIX = ".stacktest.yaml"
"""The end of the name of each file with tests."""
DEFAULT_WITHIN = "1h"
HEADER = ("apiVersion", "kind", "metadata")

Fields: TypeAlias = dict[str, Any]
ResourceName: TypeAlias = str
Order: TypeAlias = list[ResourceName]


class PlayedObjectModel(ApiModel):
    """What API servers and controllers do with the object of one resource."""

    health: Literal["Ready", "Progressing", "Failed", "Rules"] = "Ready"
    """`Ready`: the object becomes ready, regardless of its fields. `Progressing`: it never does. `Failed`: it fails.
    When the step rolls the Stack back, objects of the earlier revision become ready again. `Rules`: the health rules of its kind decide from the played status, or `readyWhen` and `failedWhen` of the resource.
    """
    message: str = ""
    """Message of the object if its health is `Failed` or `Progressing`."""
    status: Fields | None = None
    """Fields of the status that a controller sets. `observedGeneration` is set if it is missing."""
    spec: Fields | None = None
    """Fields of the spec that an API server or a controller sets, for example `clusterIP`. Lists are replaced."""
    immutable: list[str] | None = None
    """Paths of fields that the API server does not let an update change, for example `spec.selector`. Hearth then
    replaces the object if its update policy allows that.
    """


class FailModel(ApiModel):
    """Writes that the API server refuses."""

    resource: ResourceName | None = None
    """Resource whose writes are refused. Default: all resources."""
    write: int = pydantic.Field(default=1, ge=1)
    """Number of the first write in the step that is refused. An apply or a deletion of an object is a write."""
    times: int | None = pydantic.Field(default=None, ge=1)
    """Number of writes that are refused. Default: all from this one on."""
    code: Literal[409, 422, 429, 500, 503] = 500
    """HTTP status code of the answer. `422` is a mistake in the manifest, so the resource fails until the manifest
    changes. Hearth retries the others.
    """
    message: str = ""
    """Message of the answer."""


class ExpectationModel(ApiModel):
    """Expected state at the end of a step. If none of `phase`, `ready`, `reason`, `message` and `rejected` is set, the
    Stack must be ready.
    """

    phase: str | None = None
    """Phase of the Stack, for example `RollbackComplete`."""
    ready: bool | None = None
    """Whether the condition Ready is True."""
    reason: str | None = None
    """Reason of the condition Ready."""
    message: str | None = None
    """Part of the message of the condition Ready."""
    rejected: list[str] | None = None
    """Parts of the reason why the definition is rejected, for example the path of a mistake."""
    outputs: Fields | None = None
    """Outputs by name. Null: the output is absent."""
    objects: dict[ResourceName, Fields] | None = None
    """Fields of objects by resource. Other fields are not compared. Lists must have the same length. Null: the field is
    absent.
    """
    exist: list[ResourceName] | None = None
    """Exactly the resources that have an object."""
    absent: list[ResourceName] | None = None
    """Resources without an object."""
    order: Order | None = None
    """Resources whose objects are applied in the step in this order. Other resources may come in between."""
    deleted: Order | None = None
    """Exactly the resources whose objects are deleted in the step, in this order."""
    same: list[ResourceName] | None = None
    """Resources that have the same object as before the step."""
    replaced: list[ResourceName] | None = None
    """Resources that have a different object than before the step."""


class StepModel(ApiModel):
    """A change of the Stack, events in the cluster, and the expected result."""

    files: list[str] | None = None
    """Files with the Stack and objects next to it, relative to this file. Default: those of the step before."""
    parameters: Fields | None = None
    """Parameters, merged into those of the Stack and of the steps before. Null removes a parameter."""
    spec: Fields | None = None
    """Other fields of the spec, merged into those of the Stack and of the steps before. Null removes a field."""
    play: dict[ResourceName, PlayedObjectModel] | None = None
    """Objects by resource that do not simply become ready. Only for this step."""
    fail: FailModel | None = None
    """Writes that the API server refuses. Only for this step."""
    within: str = pydantic.Field(default=DEFAULT_WITHIN, pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$")
    """Time that the step may take, for example `30m`. The time is simulated: retries and timeouts take no real time."""
    expect: ExpectationModel | None = None
    """Expected result. Default: the Stack is ready."""


class CaseModel(StepModel):
    """One test: a new Stack in a cluster that contains only the objects that the test lists."""

    name: str = pydantic.Field(min_length=1)
    """What the test shows, as a sentence."""
    metadata: Fields | None = None
    """Metadata of the Stack, for example its name and namespace."""
    objects: list[Fields] | None = None
    """Objects that exist in the cluster before the Stack, for example those that it reads or adopts."""
    tenancy: Literal["isolated", "strict", "trusted"] = "isolated"
    """The operator's `--tenancy` setting."""
    then: list[StepModel] | None = None
    """Further steps with the same Stack, in this order."""


class StackTest(ApiModel):
    """Tests of one Stack, ResourceGroup, StackTemplate or StackDefinition. `kubectl stack test` runs them without a cluster."""

    files: list[str] | None = None
    """Files with the Stack and objects next to it, relative to this file. Default: the file `NAME.yaml` next to
    `NAME.stacktest.yaml`.
    """
    stack: str | None = None
    """Name of the object to test, if the files contain several."""
    tests: list[CaseModel] = pydantic.Field(min_length=1)
    """The tests. Each starts in a new cluster."""


@value_class.dataclass(frozen=True, slots=True)
class TestFile:
    """The tests in one document of a file."""

    source: str
    """The name of the file."""
    stack_test: StackTest


class InvalidTest(ValueError):
    """A document that is not a test; the text lists every mistake."""


def parse(source: str, document: Any) -> TestFile:
    """Return the tests in a document. Raises InvalidTest."""
    version, kind = (object_fields.text(document, word) for word in ("apiVersion", "kind"))
    expected = f"{names.GROUP}/{names.VERSION}"
    if (version, kind) != (expected, KIND):
        found = f"{error_hints.quote(version)}, kind {error_hints.quote(kind)}"
        raise InvalidTest(f"{source}: must have apiVersion {expected} and kind {KIND}, found apiVersion {found}")
    stated = {key: value for key, value in document.items() if key not in HEADER}
    try:
        return TestFile(source, StackTest.model_validate(stated, strict=True, by_alias=True, by_name=False))
    except pydantic.ValidationError as error:
        lines = [f"{source}: {describe(each)}" for each in error.errors(include_url=False)]
        raise InvalidTest("\n".join(dict.fromkeys(lines))) from error


def describe(error: Any) -> str:
    """Return the location and the message of a mistake. error: as pydantic reports it."""
    message = file_schema.explain(error["type"], error["msg"], error["input"], error["loc"], StackTest)
    return f"{file_schema.write_path(error['loc'])}: {message}"
