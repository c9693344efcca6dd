"""The fields of a HealthMark, as pydantic models. Source of its CRD, as `hearth.model.api.stack` is of the Stack's."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model.api import base
from hearth.model.api.base import ApiModel
from hearth.model.api.stack_status import Condition

REASON_LIMIT = 1_024
NAME_RULE = r"[a-z][a-zA-Z0-9]{0,39}(\[[a-z0-9-]{1,40}\])?"
"""The name of a resource. A member of a collection has its key in brackets: `workers[a]`."""
INDEX_RULE = "(0|[1-9][0-9]{0,4})"
"""The name of a member of a group: its index."""
STEP_RULE = rf"({NAME_RULE}|{INDEX_RULE})"
PATH_RULE = rf"^{STEP_RULE}(/{STEP_RULE}){{0,7}}$"
"""The name of a resource, or the path to one in nested Stacks and groups: at most eight names."""

ResourcePath: TypeAlias = Annotated[str, pydantic.Field(max_length=663, pattern=PATH_RULE)]
ObjectName: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=253)]

ONE_TARGET: JsonDict = {
    "rule": "(has(self.target) ? 1 : 0) + (has(self.stackName) ? 1 : 0) + (has(self.groupName) ? 1 : 0)"
    " + (has(self.stackRef) ? 1 : 0) == 1 && has(self.target) != has(self.resource)",
    "message": "set exactly one of: target; stackName and resource; groupName and resource; stackRef and resource",
}
SAME_TARGET: JsonDict = {
    "rule": "has(self.target) == has(oldSelf.target)"
    " && (has(self.target) ? self.target == oldSelf.target"
    " : has(self.stackName) == has(oldSelf.stackName) && has(self.groupName) == has(oldSelf.groupName)"
    " && has(self.stackRef) == has(oldSelf.stackRef)"
    " && (has(self.stackName) ? self.stackName == oldSelf.stackName"
    " : has(self.groupName) ? self.groupName == oldSelf.groupName : self.stackRef == oldSelf.stackRef)"
    " && has(self.resource) && has(oldSelf.resource) && self.resource == oldSelf.resource)",
    "message": "the target of a mark is immutable; create another HealthMark for another target",
}


class MarkedObject(ApiModel):
    """A child of a Stack in the namespace of the mark. The object is in that namespace, or cluster-scoped."""

    api_version: str = pydantic.Field(min_length=1, max_length=317)
    """Group and version of the object's kind, e.g. `apps/v1`."""
    kind: str = pydantic.Field(min_length=1, max_length=63)
    """Kind of the object, e.g. `Deployment`."""
    name: ObjectName
    """Name of the object."""


class StackReference(ApiModel):
    """A Stack of any kind: a Stack, a ResourceGroup, or an instance of a StackDefinition."""

    kind: str = pydantic.Field(min_length=1, max_length=63)
    """Kind of the Stack: `Stack`, `ResourceGroup` or the kind of a StackDefinition, e.g. `WebApp`."""
    group: str | None = pydantic.Field(default=None, max_length=150)
    """API group of the kind. Default: the group of the StackDefinition with this kind."""
    name: ObjectName
    """Name of the Stack."""


class HealthMarkSpec(ApiModel):
    """The object, whether it is unhealthy, and why."""

    model_config = base.validated(ONE_TARGET, SAME_TARGET)

    stack_name: ObjectName | None = None
    """Name of the Stack that contains the resource, in the namespace of the mark."""
    group_name: ObjectName | None = None
    """Name of the ResourceGroup, in the namespace of the mark, instead of `stackName`. `resource` is then the index of
    a member, e.g. `3`."""
    stack_ref: StackReference | None = None
    """A Stack of any kind, in the namespace of the mark, instead of `stackName` or `groupName`."""
    resource: ResourcePath | None = None
    """Name of the resource in the template. `workers[a]` is a member of a collection, and `cache/db` is the resource
    `db` of the nested Stack `cache`."""
    target: MarkedObject | None = None
    """The object itself, instead of `resource` with `stackName`, `groupName` or `stackRef`."""
    mark_unhealthy: bool
    """Whether the object is unhealthy. `false` removes an earlier mark by any author, and has no effect on a healthy
    object."""
    reason: str | None = pydantic.Field(default=None, max_length=REASON_LIMIT)
    """The reason as text, e.g. `disk errors in the kernel log`. Default: the name of this HealthMark."""


class Successor(ApiModel):
    """The current object of the resource."""

    api_version: str
    """Group and version of the object's kind."""
    kind: str
    """Kind of the object, e.g. `Deployment`."""
    name: str
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object. Absent for cluster-scoped kinds."""
    uid: str
    """UID of the object."""


class HealthMarkStatus(ApiModel):
    """Result of the mark."""

    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that this status describes."""
    observed_uid: str | None = pydantic.Field(default=None, alias="observedUID")
    """UID of the object that the mark is bound to. The mark never applies to another object."""
    stack_name: str | None = None
    """The Stack that the object belongs to."""
    group_name: str | None = None
    """The ResourceGroup that the object belongs to, instead of a Stack."""
    stack_ref: StackReference | None = None
    """The instance of a StackDefinition that the object belongs to, instead of a Stack."""
    resource: str | None = None
    """The resource that the object belongs to."""
    replaced_by: Successor | None = None
    signature: str | None = None
    """The operator's signature of the status fields that it reads back. The operator ignores a status without it."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`: the mark is valid and is set on the object. `Resolved`: the mark has no further effect."""


class HealthMark(ApiModel):
    """Reports whether one object of a Stack is healthy, for problems that a person or a program sees but the operator
    cannot. The mark applies only to that object: once the object is replaced, it has no effect.
    """

    spec: HealthMarkSpec
    status: HealthMarkStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)
