"""Cached objects of the management cluster as values of the engine's ports, and parsers of their metadata and specs.

Clients can write anything into an object, so the parsers accept any content.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from hearth.model import names, stack_tree, value_class
from hearth.model.child import Object
from hearth.model.stack_tree import Node
from hearth.model.tenancy import DefinerAccount
from hearth.template.blueprint import StackIdentity

KUBECONFIG_KEYS = ("value", "value.yaml")
"""The keys of a Secret that are tried in this order if the spec names none, as in Flux."""
COMMIT_ANNOTATIONS = (names.ANNOTATION_COMMIT, "configmanagement.gke.io/token")
"""In order of priority: the annotation for Hearth, then the one that Config Sync writes on all its objects."""
LONGEST_COMMIT = 256
"""Maximum characters; a commit has 40 or 64, a tag a few more."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigRef:
    """The key of a Secret, in the namespace of the Stack, that contains a kubeconfig."""

    name: str
    key: str = ""
    """The key in the Secret; "" for `value`, otherwise `value.yaml`."""


@dataclass(slots=True)
class ParsedSpec:
    """A parsed spec that is dropped on its first use."""

    spec: Object | None

    def take(self) -> Object | None:
        """Return the spec and drop it, or return None if it was taken before."""
        spec, self.spec = self.spec, None
        return spec


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackObject:
    """A Stack as cached from the management cluster, or a ResourceGroup in the form of one."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str]
    created_at: str = ""
    """RFC 3339, UTC, whole seconds; "" if unknown."""
    kind: str = names.STACK
    """The kind of the object: `Stack`, `ResourceGroup`, or `Kind.group` of a StackDefinition's instance. For groups and
    instances, `spec` is the spec of an equivalent Stack."""
    api_version: str = f"{names.GROUP}/{names.VERSION}"
    definition: str = ""
    """Instances only: the name of the StackDefinition."""
    definition_revision: int = 0
    """Instances only: the revision of the StackDefinition that the spec is made with."""
    packed_labels: bytes = field(default=b"{}", repr=False)
    """Instances only: the labels as JSON."""
    replicas: int | None = None
    """Instances only: the replica count in the scale subresource, or None if there is none."""
    packed_stated: bytes = field(default=b"", repr=False)
    """Instances only: the instance's own spec as JSON. Each revision of the StackDefinition makes a different `spec`
    from it."""
    parent: str = ""
    """The UID in the Stack's parent label; "" for none. Any user can write this label."""
    author: str = ""
    """The field manager of the last spec write: `kubectl-client-side-apply`, `kustomize-controller` …"""
    service_account: str = ""
    """The ServiceAccount that the spec names; "" for none."""
    pin_mistake: str = ""
    """Instances only: why the instance cannot get the revision that it names; "" if it gets it, or names none."""
    minimum_revision: int = 0
    """Instances only: the oldest revision of the StackDefinition that the instance may get or roll back to."""
    definer: DefinerAccount | None = None
    """Instances only: the ServiceAccount of the StackDefinition, used instead of `service_account`; None if it names
    none."""
    kubeconfig: KubeconfigRef | None = None
    """The reference to another cluster; None if the objects are in this cluster."""
    packed_spec: bytes = field(repr=False)
    """JSON of the spec without template and parameters. JSON needs a fifth of the memory of a parsed template."""
    packed_template: bytes = field(default=b"", repr=False)
    """JSON of the template, or empty if the spec has none. Stored separately, so that Stacks with equal templates share
    it."""
    packed_parameters: bytes = field(default=b"", repr=False)
    """JSON of the parameters, or empty if the spec has none. Stored separately, because they can be long and are rarely
    read."""
    packed_status: bytes = field(repr=False)
    parsed_spec: Object | None = field(default=None, repr=False, compare=False)
    """See `with_parsed_spec`."""
    arrived_spec: ParsedSpec | None = field(default=None, repr=False, compare=False)
    """The spec as parsed from its watch event, or None if it was not kept."""
    phase: str = ""
    """The phase in the status."""
    true_conditions: tuple[str, ...] = ()
    """The conditions in the status that are True and that metrics show."""
    in_progress_since: str = ""
    """Start time of the action in progress, from the status; "" for none."""
    is_size_scaled: bool = False
    """Groups only: whether the size was set through the scale subresource, and not by a user in the spec."""
    defect: str = ""
    """Why `spec` lacks unreadable parts, or "" if it is complete."""
    omitted_size: int = 0
    """Bytes of template and parameters that are not in memory, see `hearth.kube.cache.cache_budget`; 0 if all are."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of an instance."""
        found: Mapping[str, str] = orjson.loads(self.packed_labels)
        return found

    @property
    def is_orphaning(self) -> bool:
        """Return whether its deletion was requested with `--cascade=orphan`, and the garbage collector is still at work."""
        return self.deleting and names.FINALIZER_ORPHAN in self.finalizers

    @property
    def owner_key(self) -> str:
        """Return its key within the namespace, see `hearth.model.names.owner_key`."""
        return names.owner_key(self.kind, self.name)

    @property
    def identity(self) -> StackIdentity:
        """Return its identity for expressions, and for the names of its children."""
        return StackIdentity(name=self.name, namespace=self.namespace, uid=self.uid)

    @property
    def node(self) -> Node:
        """Return its place in the tree of Stacks."""
        proof = stack_tree.find_proof(self.annotations, self.parent)
        offer = stack_tree.find_offer(self.annotations, self.parent)
        return Node(self.uid, self.namespace, self.name, self.parent, self.kind, proof, offer)

    @property
    def is_group(self) -> bool:
        """Return whether it is a ResourceGroup."""
        return self.kind == names.GROUP_KIND

    @property
    def spec_version(self) -> tuple[int, int]:
        """Return the version of `spec`: the generation, and the revision of the StackDefinition."""
        return self.generation, self.definition_revision

    @property
    def kind_name(self) -> str:
        """Return the name of the kind in manifests."""
        return self.kind.partition(".")[0]

    @property
    def spec(self) -> Object:
        """Parse the spec at every call; too slow for every reconcile."""
        if self.parsed_spec is not None:
            return self.parsed_spec
        spec = self.settings
        if self.packed_template:
            spec["template"] = orjson.loads(self.packed_template)
        if self.packed_parameters:
            spec["parameters"] = orjson.loads(self.packed_parameters)
        return spec

    @property
    def settings(self) -> Object:
        """Parse the spec without template and parameters at every call, in microseconds."""
        settings: Object = orjson.loads(self.packed_spec)
        return settings

    @property
    def spec_size(self) -> int:
        """Return the bytes of the spec as JSON, including the parts that are not in memory."""
        return len(self.packed_spec) + len(self.packed_template) + len(self.packed_parameters) + self.omitted_size

    def with_parsed_spec(self) -> StackObject:
        """Return the same Stack with its spec parsed once, for work that reads it several times and never changes it."""
        arrived = self.arrived_spec.take() if self.arrived_spec is not None else None
        omitted_size = 0 if arrived else self.omitted_size
        return dataclasses.replace(self, parsed_spec=arrived or self.spec, arrived_spec=None, omitted_size=omitted_size)

    @property
    def status(self) -> Object:
        """Parse the last observed status at every call."""
        status: Object = orjson.loads(self.packed_status)
        return status


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HealthMarkObject:
    """A HealthMark as cached from the management cluster."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    written_at: str
    """Time of the last spec write; RFC 3339, UTC, whole seconds."""
    spec: Object
    status: Object
    resolution: str = ""
    """The annotation that claims that the mark is resolved. Its signature is not verified yet."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A ControllerRevision of a Stack, as described by its metadata."""

    name: str
    number: int
    hash: str
    """Keyed hash of the definition."""
    kinds: frozenset[str]
    """`apiVersion/Kind` of every kind applied up to this revision: `v1/ConfigMap`, `apps/v1/Deployment`."""
    namespace: str = ""
    owner: str = ""
    """UID of the Stack in the owner reference; "" for none."""
    signature: str = ""
    """The operator's signature; see `hearth.engine.verified_revisions`."""
    parts: int = 0
    """Number of further objects that contain the definition."""
    definition_revision: int = 0
    """Instances only: the revision of the StackDefinition that this revision was made with; 0 for none."""
    finished: str = field(default="", repr=False)
    """The record of finished work, which any writer may have written; see `hearth.engine.definition.finished_record`."""


def find_kubeconfig(spec: object) -> KubeconfigRef | None:
    """Return the reference, or None if the objects are in this cluster. An unreadable one has no name."""
    found: Any = spec.get("kubeConfig") if isinstance(spec, dict) else None
    if found is None:
        return None
    secret = found.get("secretRef") if isinstance(found, dict) else None
    name, key = (secret.get("name"), secret.get("key")) if isinstance(secret, dict) else (None, None)
    return KubeconfigRef(name=name if isinstance(name, str) else "", key=key if isinstance(key, str) else "")


def find_author(managed_fields: Iterable[Mapping[str, Any]]) -> str:
    """Return the field manager with the newest write of the spec, "" if unknown."""
    newest, author = "", ""
    for entry in managed_fields:
        # A field manager that wrote only a status is not an author.
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {}):
            time = entry.get("time") or ""
            if time >= newest:
                newest, author = time, entry.get("manager") or ""
    return author


def find_commit(annotations: Mapping[str, str]) -> str:
    """Return the commit that the Stack was created from, "" if unknown."""
    stated = (annotations.get(key, "").strip() for key in COMMIT_ANNOTATIONS)
    return next((commit[:LONGEST_COMMIT] for commit in stated if commit), "")


def describe_origin(stack: StackObject) -> dict[str, str]:
    """Return the annotations of a revision of the Stack in its current state: who wrote it, from which commit, and what ran before.

    Source: the metadata that kubectl, Flux, Argo CD and Config Sync write; docs/decisions/0018-revision-provenance.md.
    """
    found = {
        names.ANNOTATION_AUTHOR: stack.author,
        names.ANNOTATION_COMMIT: find_commit(stack.annotations),
        names.ANNOTATION_DEFINITION_REVISION: str(stack.definition_revision) if stack.definition else "",
        names.ANNOTATION_PREVIOUS_REVISION: str(stack.status.get("revision") or ""),
    }
    return {key: value for key, value in found.items() if value}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackSnapshotObject:
    """A StackSnapshot as cached from the management cluster."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    created_at: str
    """RFC 3339, UTC, whole seconds."""
    deleting: bool
    finalizers: tuple[str, ...]
    spec: Object
    status: Object
    content: str = field(default="", repr=False)
    """The annotation that claims to record its content. Its signature is not verified yet."""

    @property
    def owner_key(self) -> str:
        """Return the key of the Stack or instance, which is in the same namespace: see `hearth.model.names.owner_key`."""
        return names.read_owner(self.spec)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackPlanObject:
    """A StackPlan as cached from the management cluster. Anyone may have written any part of it."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    created_at: str
    """RFC 3339, UTC, whole seconds."""
    stack_uid: str
    """The UID of the Stack in the spec, "" for none."""
    spec: Object
    status: Object
    signature: str = field(default="", repr=False)
    """The annotation that claims to prove that the operator made it."""
    approval: str = field(default="", repr=False)
    """The annotation that claims to prove a decision."""
