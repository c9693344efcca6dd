"""A reviewer of admission on a cluster in memory, and reviews of Stacks for it."""

from __future__ import annotations

from typing import Any

from hearth.engine.admission.review import Review
from hearth.engine.admission.reviewer import Reviewer
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind
from support.units.blueprints import CONFIG_MAP, HASHER, ServedKinds

STACK_KIND = Kind(group="hearth.dev", version="v1alpha1", name="Stack", plural="stacks", namespaced=True)
SNAPSHOT_KIND = Kind(
    group="hearth.dev", version="v1alpha1", name="StackSnapshot", plural="stacksnapshots", namespaced=True
)
SOUND = {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}}}


class Cluster:
    """The ports that a review uses: served kinds, stored objects."""

    def __init__(self, **stacks: dict[str, Any]) -> None:
        self.kinds = ServedKinds(CONFIG_MAP, STACK_KIND, SNAPSHOT_KIND)
        self.sources: dict[str, dict[str, str]] = {}
        self.stacks = stacks
        self.fault: Exception | None = None

    async def load_schemas(self, _kinds: object) -> None:
        if self.fault is not None:
            raise self.fault

    async def get_source(self, ref: Any, *, user: str = "") -> dict[str, str]:
        if ref.name not in self.sources:
            raise ApiStatusError(code=404, status=None)
        return self.sources[ref.name]

    async def get(self, ref: Any, *, kind: object, user: str = "") -> dict[str, Any]:
        if ref.name not in self.stacks:
            raise ApiStatusError(code=404, status=None)
        return self.stacks[ref.name]


def make_reviewer(cluster: Cluster | None = None, *, seconds: float = 4.0, hits: list[str] | None = None) -> Reviewer:
    ports: Any = cluster or Cluster()
    builder = RevisionBuilder(management_cluster=ports, cluster=ports, hashes=HASHER)
    return Reviewer(builder, seconds=seconds, on_limit=(hits if hits is not None else []).append)


def write(resources: Any, *, old: Any = None, **spec: Any) -> Review:
    """A write of a Stack, over one with the spec `old`."""
    metadata = {"name": "shop", "namespace": "a"}
    new = {"metadata": metadata, "spec": {"template": {"resources": resources}, **spec}}
    return Review(new=new, old=None if old is None else {"metadata": metadata, "spec": old})
