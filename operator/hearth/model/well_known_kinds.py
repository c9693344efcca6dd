"""Kinds that the operator and its commands request by themselves. Must not know clients or caches."""

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
STACK_DEFINITION = Kind(
    group=names.GROUP, version=names.VERSION, name="StackDefinition", plural="stackdefinitions", namespaced=False
)
CONTROLLER_REVISION = Kind(
    group="apps", version="v1", name="ControllerRevision", plural="controllerrevisions", namespaced=True
)
LEASE = Kind(group="coordination.k8s.io", version="v1", name="Lease", plural="leases", namespaced=True)
NAMESPACE = Kind(group="", version="v1", name="Namespace", plural="namespaces", namespaced=False)
POD = Kind(group="", version="v1", name="Pod", plural="pods", namespaced=True)
EVENT = Kind(group="", version="v1", name="Event", plural="events", namespaced=True)
VOLUME_CLAIM = Kind(
    group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True
)
CLUSTER_ROLE = Kind(
    group="rbac.authorization.k8s.io", version="v1", name="ClusterRole", plural="clusterroles", namespaced=False
)
CUSTOM_RESOURCE_DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    name="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
ACCESS_REVIEW = Kind(
    group="authorization.k8s.io",
    version="v1",
    name="SubjectAccessReview",
    plural="subjectaccessreviews",
    namespaced=False,
)
SERVICE_ACCOUNT = Kind(group="", version="v1", name="ServiceAccount", plural="serviceaccounts", namespaced=True)
OWN_ACCESS_REVIEW = Kind(
    group="authorization.k8s.io",
    version="v1",
    name="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)
