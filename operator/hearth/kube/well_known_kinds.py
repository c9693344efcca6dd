"""Kinds that the operator itself stores and watches. Must not know clients or caches."""

from __future__ import annotations

from hearth.model import names
from hearth.model.kinds import Kind

STACK = Kind(group=names.GROUP, version=names.VERSION, name="Stack", plural="stacks", namespaced=True)
RESOURCE_GROUP = Kind(
    group=names.GROUP, version=names.VERSION, name="ResourceGroup", plural="resourcegroups", namespaced=True
)
STACK_KINDS = {kind.name: kind for kind in (STACK, RESOURCE_GROUP)}
"""By name, the kinds whose objects own children."""
HEALTH_MARK = Kind(group=names.GROUP, version=names.VERSION, name="HealthMark", plural="healthmarks", namespaced=True)
STACK_SNAPSHOT = Kind(
    group=names.GROUP, version=names.VERSION, name="StackSnapshot", plural="stacksnapshots", namespaced=True
)
CONTROLLER_REVISION = Kind(
    group="apps", version="v1", name="ControllerRevision", plural="controllerrevisions", namespaced=True
)
LEASE = Kind(group="coordination.k8s.io", version="v1", name="Lease", plural="leases", namespaced=True)
