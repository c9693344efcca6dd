"""The fields of a StackSnapshot, as pydantic models. Source of its CRD, as `hearth.model.api.stack` is of the Stack's."""

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
    "message": "set exactly one of spec.stackName and spec.stackRef",
}


class InstanceReference(ApiModel):
    """An instance of a StackDefinition."""

    kind: str = pydantic.Field(min_length=1, max_length=63, pattern=KIND_NAME)
    """Kind of the instance, e.g. `WebApp`."""
    group: str = pydantic.Field(max_length=150, pattern=GROUP)
    """API group of the kind, e.g. `platform.example`."""
    name: ObjectName
    """Name of the instance."""


class StackSnapshotSpec(ApiModel):
    """The Stack to snapshot, and what happens to the VolumeSnapshots."""

    model_config = base.validated(ONE_STACK, *SAME_STACK)

    stack_name: ObjectName | None = None
    """Name of the Stack, in the namespace of the snapshot."""
    stack_ref: InstanceReference | None = None
    """The instance of a StackDefinition, in the namespace of the snapshot, instead of `stackName`."""
    deletion_policy: Literal["Delete", "Retain"] | None = None
    """What happens to the VolumeSnapshots when the StackSnapshot is deleted. `Delete`: they are deleted as well.
    `Retain`: they are kept unchanged. Default: `Delete`."""


class SnapshotVolume(ApiModel):
    """A PersistentVolumeClaim and its VolumeSnapshot."""

    claim: str
    """Name of the PersistentVolumeClaim."""
    namespace: str
    """Namespace of the claim and the VolumeSnapshot."""
    resource: str
    """The resource whose object is the claim, or whose StatefulSet uses it."""
    snapshot: str
    """Name of the VolumeSnapshot."""
    snapshot_uid: str | None = pydantic.Field(default=None, alias="snapshotUID")
    """UID of the VolumeSnapshot, once it exists. Another object with this name is ignored."""
    stateful_set: bool | None = None
    """Whether a StatefulSet created the claim from one of its `volumeClaimTemplates`."""
    ready: bool
    """Whether a volume can be restored from the VolumeSnapshot."""


class StackSnapshotStatus(ApiModel):
    """Progress and result of the snapshot."""

    phase: Literal["InProgress", "Complete", "Failed"] | None = None
    """`InProgress`: the snapshot waits for the Stack or for VolumeSnapshots. `Complete`: the snapshot has all of its
    content. `Failed`: the condition `Ready` gives the reason."""
    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that this status describes; -1 until the operator processes the object."""
    stack_uid: str | None = pydantic.Field(default=None, alias="stackUID")
    """UID of the Stack. The snapshot does not apply to another Stack with the same name."""
    revision: Counter | None = None
    """The revision of the Stack. It is kept as long as the snapshot and the Stack exist."""
    service_account_name: str | None = None
    """ServiceAccount of the Stack. The operator uses it to delete VolumeSnapshots after the Stack is deleted."""
    volumes: list[SnapshotVolume] | None = base.optional_list(limits.SNAPSHOT_VOLUMES)
    """The PersistentVolumeClaims of the Stack and of its StatefulSets, each with its VolumeSnapshot."""
    warnings: list[str] | None = base.optional_list(PROBLEMS_LIMIT)
    """Data that the snapshot does not include."""
    signature: str | None = None
    """The operator's signature of the status fields that it reads back. The operator ignores a status without it."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`: the snapshot is complete. `Reconciling` and `Stalled` are as defined by kstatus."""


class StackSnapshot(ApiModel):
    """The definition of a Stack and the data of its volumes at one point in time."""

    spec: StackSnapshotSpec
    status: StackSnapshotStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)
