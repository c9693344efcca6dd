"""Kinds that the operator and its commands request for their own purposes, and kinds that contain definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from hearth.model import names, object_fields
from hearth.model.kinds import Kind, ObjectRef


def own_kind(name: str, *, namespaced: bool = True) -> Kind:
    """Return a kind of Hearth."""
    return regular_kind(names.GROUP, name, version=names.VERSION, namespaced=namespaced)


def regular_kind(group: str, name: str, *, version: str = "v1", namespaced: bool = True) -> Kind:
    """Return a kind with a regular plural. All Kubernetes kinds that Hearth requests have one."""
    return Kind(group=group, version=version, name=name, plural=f"{name.lower()}s", namespaced=namespaced)


STACK = own_kind("Stack")
RESOURCE_GROUP = own_kind("ResourceGroup")
HEALTH_MARK = own_kind("HealthMark")
STACK_SNAPSHOT = own_kind("StackSnapshot")
STACK_PLAN = own_kind("StackPlan")
STACK_DEFINITION = own_kind("StackDefinition", namespaced=False)
CONFIG_MAP = regular_kind("", "ConfigMap")
SECRET = regular_kind("", "Secret")
STACK_TEMPLATE = own_kind("StackTemplate", namespaced=False)
CONTROLLER_REVISION = regular_kind("apps", "ControllerRevision")
LEASE = regular_kind("coordination.k8s.io", "Lease")
NAMESPACE = regular_kind("", "Namespace", namespaced=False)
POD = regular_kind("", "Pod")
EVENT = regular_kind("", "Event")
VOLUME_CLAIM = regular_kind("", "PersistentVolumeClaim")
CLUSTER_ROLE = regular_kind("rbac.authorization.k8s.io", "ClusterRole", namespaced=False)
CUSTOM_RESOURCE_DEFINITION = regular_kind("apiextensions.k8s.io", "CustomResourceDefinition", namespaced=False)
ADMISSION_POLICY = Kind(
    group="admissionregistration.k8s.io",
    version="v1",
    name="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    namespaced=False,
)
ADMISSION_POLICY_BINDING = regular_kind(ADMISSION_POLICY.group, "ValidatingAdmissionPolicyBinding", namespaced=False)
ACCESS_REVIEW = regular_kind("authorization.k8s.io", "SubjectAccessReview", namespaced=False)
SERVICE_ACCOUNT = regular_kind("", "ServiceAccount")
OWN_ACCESS_REVIEW = regular_kind("authorization.k8s.io", "SelfSubjectAccessReview", namespaced=False)
SOURCE_KINDS = {kind.name: kind for kind in (CONFIG_MAP, SECRET, STACK_TEMPLATE)}
"""Kinds, other than the Stack, that contain definitions, by name."""
TEMPLATE_KEY = "spec.template"
"""Path of the template in a StackTemplate; corresponds to a key in the data of a ConfigMap."""


class SourceData(dict[str, str]):
    """The data of a source."""

    version: str = ""
    """The resource version of the object with the data, or "" if unknown."""


def make_source_data(data: Mapping[str, str], version: object) -> SourceData:
    """Return the data with the resource version of their object."""
    found = SourceData(data)
    found.version = str(version or "")
    return found


def find_source_data(raw: Mapping[str, Any], kind: str, *, is_binary: bool = False) -> SourceData:
    """Return the data of a source of that kind. For a StackTemplate, this is the template as JSON, at `TEMPLATE_KEY`.

    raw: of any shape, because a preview reads it from a file.
    """
    version = object_fields.text(raw, "metadata", "resourceVersion")
    if kind != STACK_TEMPLATE.name:
        data = object_fields.mapping(raw, "binaryData" if is_binary else "data")
        return make_source_data({key: value for key, value in data.items() if isinstance(value, str)}, version)
    template = object_fields.find(raw, "spec", "template")
    return make_source_data({} if template is None else {TEMPLATE_KEY: orjson.dumps(template).decode()}, version)


def is_shared_source(ref: ObjectRef) -> bool:
    """Return whether Stacks of every namespace are allowed to read the source."""
    return ref.kind == STACK_TEMPLATE.name


def make_template_ref(name: str) -> ObjectRef:
    """Return the reference to a StackTemplate."""
    return ObjectRef(group=STACK_TEMPLATE.group, kind=STACK_TEMPLATE.name, namespace="", name=name)
