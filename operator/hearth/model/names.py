"""All names that Hearth writes to the cluster, and how they are built. The same input always gives the same name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from hearth.model import members
from hearth.model.kinds import make_key

GROUP = "hearth.dev"
VERSION = "v1alpha1"
STACK = "Stack"
GROUP_KIND = "ResourceGroup"
STACK_KINDS = (STACK, GROUP_KIND)
"""The kinds that the engine reconciles. An object of either owns children."""

FINALIZER = "hearth.dev/children"
ANNOTATION_STACK_KIND = f"{GROUP}/stack-kind"
"""On a revision: the kind of its Stack, if that is a ResourceGroup or an instance of a StackDefinition."""
FINALIZER_ORPHAN = "orphan"
"""Set by the API server for `kubectl delete --cascade=orphan`, until the garbage collector has removed the owner
reference from all dependents.
"""
SNAPSHOT_FINALIZER = "hearth.dev/volume-snapshots"
"""On a StackSnapshot: its VolumeSnapshots are deleted first."""

DEFINITION_KIND = "StackDefinition"
DEFINITION_FINALIZER = "hearth.dev/instances"
"""On a StackDefinition: the kind is deleted first, and the definition after the last object of the kind."""

LABEL_STACK_UID = "hearth.dev/stack-uid"
LABEL_STACK = "hearth.dev/stack"
LABEL_RESOURCE = "hearth.dev/resource"
LABEL_BUCKET = "hearth.dev/bucket"
"""The bucket of the Stack, see `hearth.model.sharding`.

A process for one shard uses it to select the Stacks to watch.
"""

LABEL_SNAPSHOT_UID = "hearth.dev/snapshot-uid"
"""On a VolumeSnapshot: the UID of its StackSnapshot."""

ANNOTATION_IDENTITY = "hearth.dev/identity"
ANNOTATION_SIGNATURE = "hearth.dev/signature"
"""On a child: the proof that Hearth wrote its owner, see `hearth.model.signatures`. On a ControllerRevision: see
`hearth.engine.verified_revisions`. On a VolumeSnapshot: see `hearth.engine.stack_snapshots`."""
ANNOTATION_INCARNATION = "hearth.dev/incarnation"
ANNOTATION_HASH = "hearth.dev/hash"
ANNOTATION_REQUIRES = "hearth.dev/requires"
ANNOTATION_LAST_APPLIED = "hearth.dev/last-applied-fields"
ANNOTATION_POST_BREAKPOINT = "hearth.dev/post-breakpoint"
"""On a child: the hook that stops its resource once it is ready, and the revision that the hook applies to."""
ANNOTATION_INHERITED_RULES = "hearth.dev/inherited-rules"
"""On a nested Stack: a hash of the rules that it inherits from its parent's environment."""
REQUEST_RETRY = "hearth.dev/retry"
"""On a Stack, with a token: retry immediately from the point of failure."""
REQUEST_INHERITED_RETRY = "hearth.dev/inherited-retry"
"""On a nested Stack: the token of a retry that was requested of its parent, or of an ancestor. Written by the operator."""
REQUESTED_RETRIES = REQUEST_RETRY, REQUEST_INHERITED_RETRY
REQUEST_CLEANUP = "hearth.dev/cleanup"
"""On a Stack, with a token: stop deferring the deletion of obsolete children."""
REQUEST_CHECK = "hearth.dev/check"
"""On a Stack, with a token: read all children again, report differences, and change nothing."""
ANNOTATION_UNHEALTHY = "hearth.dev/unhealthy"
"""On a child, with a reason: marks it unhealthy. Any client that can detect a fault may set it. Hearth never applies
it."""
ANNOTATION_MARKED_BY = "hearth.dev/marked-by"
"""On a child with a mark: the HealthMark that it comes from, as `<uid>/<generation>`."""
ANNOTATION_RESOLVED = "hearth.dev/resolved"
"""On a HealthMark: the proof that it was resolved. Unlike the status, it is part of a backup."""
ANNOTATION_CONTENT = "hearth.dev/content"
"""On a complete StackSnapshot: its content, with a signature. Unlike the status, it is part of a backup."""
ANNOTATION_RESTARTED_BY = "hearth.dev/restarted-by"
"""On a StatefulSet: the HealthMark for which its Pods were restarted last."""
ANNOTATION_RESTART = "hearth.dev/restart"
"""On the Pod template of a StatefulSet: another value makes its controller restart the Pods. Hearth never applies it."""
ANNOTATION_RESTORED = "hearth.dev/restored"
"""On a PersistentVolumeClaim while its Stack is being restored: the restore that created it. A claim without it, or of
another restore, is replaced."""
ANNOTATION_SUSPENDED = "hearth.dev/suspended"
"""On a child: the earlier values of the fields that suspend has set; see `hearth.plan.resource.suspend_object`."""
REQUEST_CONTINUE = "hearth.dev/continue"
"""On a Stack, `<resource>[/<hook>][@<token>]`: clear one breakpoint once."""

ANNOTATION_AUTHORS = "hearth.dev/authors"
"""On a Stack whose changes need a separate approver: the users who changed the spec, signed. Only the webhook writes it."""
REQUEST_APPROVE = "hearth.dev/approve"
"""On a StackPlan, the beginning of its digest: approves the plan. The webhook checks the right of the user."""
REQUEST_REJECT = "hearth.dev/reject"
"""On a StackPlan, the beginning of its digest: rejects the plan."""
ANNOTATION_APPROVAL = "hearth.dev/approval"
"""On a StackPlan: the decision of a user, signed. Only the webhook writes it."""

ANNOTATION_OFFERED = "hearth.dev/offered"
"""On a child that its Stack no longer needs: another Stack of the same tree may take it over. See
`hearth.engine.relatives`.
"""
ANNOTATION_DELETION_POLICY = "hearth.dev/deletion-policy"
ANNOTATION_KEEPS = "hearth.dev/keeps"
"""On a Namespace or CustomResourceDefinition: an object in the namespace, or of the kind, that outlives its Stack.

Therefore the annotated object is kept as well.
"""
ANNOTATION_ADOPTED = "hearth.dev/adopted"
ROLLOUT_PAUSED = "hearth.dev/rollout-paused"
"""On a StackDefinition, `true`: pauses the rollout."""
ROLLOUT_UNDO = "hearth.dev/rollout-undo"
"""On a StackDefinition, the revision that is being rolled out: all its instances roll back."""
ROLLOUT_RESTART = "hearth.dev/rollout-restart"
"""On a StackDefinition, a token: restarts a rollout that was stopped or rolled back."""
ROLLOUT_PROMOTE = "hearth.dev/rollout-promote"
"""On a StackDefinition, `<revision>/<wave>`: ends the pause after that wave."""
ROLLOUT_FORCE = "hearth.dev/rollout-force"
"""On a StackDefinition: the revision whose rollout continues even if instances fail."""
ANNOTATION_APPROVALS = "hearth.dev/approvals"
"""On a StackDefinition: the decisions of users about the gates of its rollout, signed. Only the webhook writes it."""
ROLLOUT_REQUESTS = (ROLLOUT_PAUSED, ROLLOUT_UNDO, ROLLOUT_RESTART, ROLLOUT_PROMOTE, ROLLOUT_FORCE)
PROMOTE = "hearth.dev/promote"
"""On an instance, a revision of its StackDefinition: moves the instance to this revision if the strategy is Manual."""
ANNOTATION_ADOPT = "hearth.dev/adopt"
"""On a CustomResourceDefinition: the UID of the StackDefinition that takes it over. An administrator writes it."""
ANNOTATION_DEFINITION = "hearth.dev/definition"
"""On a CustomResourceDefinition: the signed UID of the StackDefinition that created it."""
ANNOTATION_REVISION = "hearth.dev/revision"
ANNOTATION_PARTS = "hearth.dev/parts"
"""Number of further objects that contain a revision's definition."""
ANNOTATION_KINDS = "hearth.dev/kinds"
ANNOTATION_AUTHOR = "hearth.dev/author"
ANNOTATION_DEFINITION_REVISION = f"{GROUP}/definition-revision"
"""On a revision of an instance: the StackDefinition revision that its template comes from."""
ANNOTATION_COMMIT = "hearth.dev/commit"
ANNOTATION_FINISHED = "hearth.dev/finished"
"""On a revision: the finished work of its Stack, with a signature. Unlike the status, it is part of a backup."""
ANNOTATION_EVIDENCE = "hearth.dev/evidence"
"""On a revision of a StackDefinition: the results of gates in the last attempt to roll it out, signed."""
ANNOTATION_PREVIOUS_REVISION = "hearth.dev/previous-revision"
"""On a revision: the revision that was active when this one was accepted."""

FINALIZER_COMPLETION = "hearth.dev/completion"
"""The finalizer of an object that runs once and then deletes itself. It stays until the Stack has recorded the success.
"""
RETAIN = "Retain"
"""The deletion policy on a child that retains it; without it, an obsolete object is deleted."""
ADOPTED = "true"

FIELD_MANAGER_PREFIX = "hearth:"
KUBECTL_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps the manifest that it applied last. It is no content of an object."""
SUSPEND_FIELD_MANAGER = "hearth-suspend"
"""The field manager that suspends and resumes the objects of all Stacks. It applies nothing else."""
MANAGER_LENGTH = 128
NAME_LENGTH = 63
"""Maximum length of a child's name, unless its kind allows less: the limit of Services, Namespaces and label values."""
NAME_LENGTHS = {
    "CronJob.batch": 52,
    "Job.batch": 52,
    "StatefulSet.apps": 52,
    "StatefulSet.apps.kruise.io": 52,
    "CronWorkflow.argoproj.io": 52,
    "Cluster.postgresql.cnpg.io": 50,
    "Elasticsearch.elasticsearch.k8s.elastic.co": 36,
}
"""Maximum length of a name by `Kind.group`, if the kind, or a name that its controller derives, allows less.

A CronJob adds 11 characters to the name of each Job. An indexed Job adds a dash and up to ten digits to the host name
of each Pod. A StatefulSet adds as many characters to the name of each revision, which is a label of its Pods. The other
limits come from the operators of the kinds.
"""
LABEL_LENGTH = 63
DIGEST_LENGTH = 8

RESOURCE_NAME = re.compile(r"[a-z][a-zA-Z0-9]{0,39}")
CONDITION_TYPE = "[A-Z][A-Za-z0-9]{0,39}"
"""The pattern of the types of conditions in statuses of instances."""
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def is_stack(group: str, kind: object) -> bool:
    """Return whether objects of that group and kind are Stacks or ResourceGroups."""
    return group == GROUP and kind in STACK_KINDS


def digest(*parts: str) -> str:
    """Return a short hash of `parts` for object names (8 characters of base 32, lower case)."""
    raw = hashlib.sha256("\0".join(parts).encode()).digest()
    alphabet = "abcdefghijkmnpqrstuvwxyz23456789"
    return "".join(alphabet[byte % 32] for byte in raw[:DIGEST_LENGTH])


def shorten(name: str, *, length: int) -> str:
    """Return `name`; if it is longer than `length`, its beginning and a hash of the whole name."""
    if len(name) <= length:
        return name
    return f"{name[: length - DIGEST_LENGTH - 1].rstrip('-.')}-{digest(name)}"


def kebab(name: str) -> str:
    """Convert `redisMaster` to `redis-master`."""
    return _BOUNDARY.sub("-", name).lower()


def field_manager(namespace: str, stack: str, *, kind: str = STACK) -> str:
    """Return the field manager of all applies of a Stack; for a ResourceGroup it names the kind."""
    owner = stack if kind == STACK else f"{kind.lower()}/{stack}"
    return shorten(f"{FIELD_MANAGER_PREFIX}{namespace}/{owner}", length=MANAGER_LENGTH)


def owner_key(kind: str, name: str) -> str:
    """Return the key of a Stack or ResourceGroup within its namespace: `shop`, `ResourceGroup/workers`."""
    return name if kind == STACK else f"{kind}/{name}"


def split_owner(key: str) -> tuple[str, str]:
    """Split a key of `owner_key` into the kind and the name."""
    kind, _, name = key.rpartition("/")
    return kind or STACK, name


def describe_owner(key: str) -> str:
    """Return the owner for messages: `Stack shop`, `ResourceGroup workers`, `WebApp shop`."""
    kind, name = split_owner(key)
    return f"{kind.partition('.')[0]} {name}"


def stack_label(stack: str) -> str:
    """Return the value of the label that shows a child's Stack to people."""
    return shorten(stack, length=LABEL_LENGTH)


def resource_label(resource: str) -> str:
    """Return the value of the label that shows a child's resource to people: `workers.a` for the member `workers[a]`.

    A label value cannot contain brackets. Long names are cut and hashed; the signature has the whole name.
    """
    return shorten(resource.replace("[", ".").removesuffix("]"), length=LABEL_LENGTH)


def object_part(resource: str) -> str:
    """Return the part of an object's name that identifies its resource: `workers-a` for the member `workers[a]`."""
    if members.is_group_member(resource):
        return resource
    root, key = members.root_of(resource), members.key_of(resource)
    return f"{kebab(root)}-{key}" if key else kebab(root)


STRICT_LENGTHS = {"CronJob.batch": 52, "Job.batch": 63, "Service": 63, "Namespace": 63}
"""Characters of a name by `Kind.group`, above which the API server rejects a new object."""


def find_length(kind: str) -> int:
    """Return how many characters the name of a child may have. kind: `Kind.group`."""
    return NAME_LENGTHS.get(kind, NAME_LENGTH)


def child_name(  # noqa: PLR0913 -- each is a separate part of the name
    *,
    stack: str,
    stack_namespace: str,
    stack_uid: str,
    resource: str,
    incarnation: int,
    namespace: str,
    length: int = NAME_LENGTH,
) -> str:
    """Make the name of a resource's child if the manifest does not pin one.

    namespace: where the child lives, "" for cluster scope. Outside the Stack's own namespace, the name contains a hash
    of the Stack's namespace, since two namespaces may contain Stacks with the same name. length: see `find_length`.
    """
    name = f"{stack}-{object_part(resource)}"
    if namespace != stack_namespace:
        name = f"{name}-{digest(stack_namespace)}"
    if incarnation > 1:
        suffix = digest(stack_uid, resource, str(incarnation))
        return f"{name[: length - DIGEST_LENGTH - 1].rstrip('-.')}-{suffix}"
    return shorten(name, length=length)


def volume_snapshot_name(*, snapshot: str, snapshot_uid: str, namespace: str, claim: str) -> str:
    """Make the name of the VolumeSnapshot that a StackSnapshot takes of a claim."""
    suffix = digest(snapshot_uid, namespace, claim)
    return f"{f'{snapshot}-{claim}'[: NAME_LENGTH - DIGEST_LENGTH - 1].rstrip('-.')}-{suffix}"


PLAN_DIGITS = 8
"""Digits of a plan's digest in its name, and the fewest that an approval gives."""


def stack_plan_name(*, stack: str, digest: str) -> str:
    """Make the name of the StackPlan with that digest."""
    return f"{shorten(stack, length=NAME_LENGTH - PLAN_DIGITS - 1)}-{digest[:PLAN_DIGITS]}"


def identity(*, stack_uid: str, group: str, kind: str, namespace: str, name: str) -> str:
    """Make the identity of a child: its owner and location, as annotated and signed. Excludes the changeable version."""
    return f"{stack_uid}/{group}/{kind}/{namespace}/{name}"


def owner_of(identity_text: str) -> str:
    """Return the UID of the Stack that an identity names."""
    return identity_text.partition("/")[0]


def is_ours(key: str) -> bool:
    """Return whether the key of a label or annotation belongs to Hearth, regardless of its writer."""
    return key.startswith(f"{GROUP}/")


def write_owner(key: str) -> dict[str, Any]:
    """Return the fields that a HealthMark or StackSnapshot uses to name the owner with that key, see `owner_key`."""
    kind, name = split_owner(key)
    if kind not in STACK_KINDS:
        kind, _, group = kind.partition(".")
        return {"stackRef": {"kind": kind, "group": group, "name": name}}
    return {"groupName" if kind == GROUP_KIND else "stackName": name}


def read_owner(fields: Mapping[str, Any]) -> str:
    """Return the key of the owner that the spec or status of a HealthMark or StackSnapshot names, or "" if it names none."""
    if group := fields.get("groupName", ""):
        return owner_key(GROUP_KIND, str(group))
    reference = fields.get("stackRef")
    if isinstance(reference, dict):
        kind, group = str(reference.get("kind", "")), str(reference.get("group") or "")
        is_own = kind in STACK_KINDS and group in ("", GROUP)
        return owner_key(kind if is_own else make_key(group, kind), str(reference.get("name", "")))
    return str(fields.get("stackName", ""))
