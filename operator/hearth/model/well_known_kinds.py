"""Kinds that the operator and its commands request by themselves, and what the sources of definitions contain.

Must not know clients or caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from hearth.model import names
from hearth.model.kinds import Kind, ObjectRef

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
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
STACK_TEMPLATE = Kind(
    group=names.GROUP, version=names.VERSION, name="StackTemplate", plural="stacktemplates", namespaced=False
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
SOURCE_KINDS = {kind.name: kind for kind in (CONFIG_MAP, SECRET, STACK_TEMPLATE)}
"""By name, the kinds of the objects that a definition is read from besides the Stack."""
TEMPLATE_KEY = "spec.template"
"""Where a StackTemplate has the template, as a ConfigMap has it at a key of its data."""


def find_source_data(raw: Mapping[str, Any], kind: str) -> Mapping[str, str]:
    """Return the data of a source of that kind; of a StackTemplate the template as JSON, at `TEMPLATE_KEY`."""
    if kind != STACK_TEMPLATE.name:
        return raw.get("data") or {}
    template = (raw.get("spec") or {}).get("template")
    return {} if template is None else {TEMPLATE_KEY: orjson.dumps(template).decode()}


def is_shared_source(ref: ObjectRef) -> bool:
    """Return whether Stacks of every namespace may read the source."""
    return ref.kind == STACK_TEMPLATE.name


def make_template_ref(name: str) -> ObjectRef:
    """Return the reference to a StackTemplate."""
    return ObjectRef(group=STACK_TEMPLATE.group, kind=STACK_TEMPLATE.name, namespace="", name=name)
