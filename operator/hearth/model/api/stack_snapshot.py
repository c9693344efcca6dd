"""What a StackSnapshot may say, as pydantic models. Source of its CRD, as `hearth.model.api.stack` is of the Stack's."""

from __future__ import annotations

from typing import Literal

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter
from hearth.model.api.health_mark import ObjectName
from hearth.model.api.stack_definition import GROUP, KIND_NAME
from hearth.model.api.stack_status import PROBLEMS_LIMIT, Condition

SAME_STACK: list[JsonDict] = [
    {
        "rule": f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        "message": f"{field} is immutable; create another StackSnapshot for another Stack",
    }
    for field in ("stackName", "stackRef")
]
ONE_STACK: JsonDict = {
    "rule": "has(self.stackName) != has(self.stackRef)",
    "message": "either spec.stackName or spec.stackRef must be given",
}


class InstanceReference(ApiModel):
    """An object of a kind that a StackDefinition makes."""

    kind: str = pydantic.Field(min_length=1, max_length=63, pattern=KIND_NAME)
    """Its kind: `WebApp`."""
    group: str = pydantic.Field(max_length=150, pattern=GROUP)
    """The API group of the kind: `platform.example`."""
    name: ObjectName
    """Its name."""


class StackSnapshotSpec(ApiModel):
    """The Stack, and what happens to the VolumeSnapshots."""

    model_config = base.validated(ONE_STACK, *SAME_STACK)

    stack_name: ObjectName | None = None
    """The Stack, in the namespace of the snapshot."""
    stack_ref: InstanceReference | None = None
    """The instance of a StackDefinition, in the namespace of the snapshot, instead of `stackName`."""
    deletion_policy: Literal["Delete", "Retain"] | None = None
    """What happens to the VolumeSnapshots when the StackSnapshot is deleted. `Retain`: they stay unchanged. Default:
    they are deleted.
    """


class SnapshotVolume(ApiModel):
    """One PersistentVolumeClaim and its VolumeSnapshot."""

    claim: str
    """The name of the PersistentVolumeClaim."""
    namespace: str
    """The namespace of both."""
    resource: str
    """The resource whose object is the claim, or whose StatefulSet uses it."""
    snapshot: str
    """The name of the VolumeSnapshot."""
    snapshot_uid: str | None = pydantic.Field(default=None, alias="snapshotUID")
    """The UID of the VolumeSnapshot once it exists. Another object of that name is ignored."""
    stateful_set: bool | None = None
    """Whether a StatefulSet made the claim from one of its `volumeClaimTemplates`."""
    ready: bool
    """Whether a volume can be restored from it."""


class StackSnapshotStatus(ApiModel):
    """The result of the snapshot."""

    phase: Literal["InProgress", "Complete", "Failed"] | None = None
    """`InProgress`: it waits for the Stack or for VolumeSnapshots. `Complete`: it has all of its content. `Failed`: `Ready` says why."""
    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that this status describes; -1 before the first one."""
    stack_uid: str | None = pydantic.Field(default=None, alias="stackUID")
    """The UID of the Stack. The snapshot does not apply to another Stack of that name."""
    revision: Counter | None = None
    """The revision of the Stack. It is kept as long as the snapshot and the Stack exist."""
    service_account_name: str | None = None
    """The ServiceAccount of the Stack. The operator acts as it to delete VolumeSnapshots once the Stack is gone."""
    volumes: list[SnapshotVolume] | None = base.optional_list(limits.SNAPSHOT_VOLUMES)
    """The PersistentVolumeClaims of the Stack and of its StatefulSets."""
    warnings: list[str] | None = base.optional_list(PROBLEMS_LIMIT)
    """What the snapshot does not include."""
    signature: str | None = None
    """The operator's signature of the fields that it reads back. A status without it is ignored."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`: the snapshot is complete. `Reconciling` and `Stalled` as kstatus defines them."""


class StackSnapshot(ApiModel):
    """The definition of a Stack and the data of its volumes at one time."""

    spec: StackSnapshotSpec
    status: StackSnapshotStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)
