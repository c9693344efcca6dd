"""Decides how an object is replaced, and chooses the object that represents the resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hearth.model import workloads
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.resource import data_kinds
from hearth.plan.state.desired import DesiredResource
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.template.blueprint import Replacement, ResourceBlueprint

CREATE_FIRST_KINDS = frozenset(
    {
        "ConfigMap", "Secret", "Service", "ServiceAccount", "Pod", "ReplicationController", "LimitRange", "ResourceQuota",
        "Deployment.apps", "ReplicaSet.apps", "DaemonSet.apps", "Job.batch", "CronJob.batch",
        "Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
        "ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
        "Ingress.networking.k8s.io", "IngressClass.networking.k8s.io", "NetworkPolicy.networking.k8s.io",
        "PodDisruptionBudget.policy", "HorizontalPodAutoscaler.autoscaling",
        "StorageClass.storage.k8s.io", "PriorityClass.scheduling.k8s.io", "RuntimeClass.node.k8s.io",
    }
)  # fmt: skip
"""Kinds that hold no data: a new object of them is equivalent to the existing one."""


def find_policy(
    resource: ResourceBlueprint, desired: DesiredResource, *, is_named: bool = False, is_rollback: bool = False
) -> Replacement:
    """Return the replacement policy: the resource's own, otherwise the safe one for its kind.

    Never CreateFirst if the name is explicit, because that is an invalid template. is_named: whether `replaceOn` names
    the changed field, which permits the replacement of any kind; is_rollback: whether the target is an earlier
    definition. A later one may have replaced the object by a policy that the earlier one lacks.
    """
    if resource.replacement is not None:
        return resource.replacement
    if is_rollback and not is_named and desired.kind.key == data_kinds.STATEFUL_SET:
        return Replacement.KEEP_CLAIMS
    if desired.is_name_pinned or not (is_named or desired.kind.key in CREATE_FIRST_KINDS):
        return Replacement.NEVER
    return find_order(desired)


def find_order(desired: DesiredResource) -> Replacement:
    """Return the order that is safe for the Pods of an object with a generated name."""
    return Replacement.DELETE_FIRST if workloads.find_stop_reason(desired.manifest) else Replacement.CREATE_FIRST


def stops_first(resource: ResourceBlueprint, desired: DesiredResource) -> bool:
    """Return whether all Pods of an earlier object must end before the next one is created, under any name."""
    if resource.replacement is None:
        return find_order(desired) is Replacement.DELETE_FIRST
    return resource.replacement is Replacement.DELETE_FIRST


def find_candidates(children: Iterable[Child], desired: DesiredResource) -> list[Child]:
    """Find the objects that can represent the resource as desired now: same kind, name and namespace."""
    return [
        child
        for child in children
        if child.is_identified
        and (any(is_at(child, ref) for ref in desired.refs_at(child.incarnation)) or desired.has_former_name(child))
    ]


def is_at(child: Child, ref: ObjectRef) -> bool:
    """Return whether the object has this reference. Equivalent to comparing references, without creating one."""
    kind = child.kind
    return (child.name, kind.name, child.namespace, kind.group) == (ref.name, ref.kind, ref.namespace, ref.group)


def choose_child(
    candidates: list[Child], desired: DesiredResource, assess: Callable[[Child], ResourceStatus]
) -> Child | None:
    """Choose the best object.

    The order is: this definition and not failed, this definition, healthy, newest. A failed object of this definition
    may recover, or its own rules give it up. A healthy object of another definition would only become the next failure,
    repeatedly. assess: assesses an object regardless of the others. An object that is being deleted or marked unhealthy
    is chosen only if there is no other.
    """
    if len(candidates) <= 1:
        return candidates[0] if candidates else None

    def rank(child: Child) -> tuple[bool, bool, bool, bool, bool, int]:
        state = assess(child).state
        is_same = child.hash == desired.hash
        return (
            not child.deleting,
            child.unhealthy_reason is None,
            is_same,
            is_same and state is not ResourceState.FAILED,
            state is ResourceState.READY,
            child.incarnation,
        )

    return max(candidates, key=rank)


def find_next_incarnation(children: Iterable[Child]) -> int:
    """Return the incarnation of the next object."""
    return max((child.incarnation for child in children if child.is_identified), default=0) + 1


def explain_not_replaced(desired: DesiredResource, *, field: str) -> str:
    """Explain why a resource is not replaced, how to allow it, and how a replacement affects its data."""
    kind, is_pinned = desired.kind, desired.is_name_pinned
    policy = Replacement.DELETE_FIRST if is_pinned else find_order(desired)
    is_last = policy is Replacement.DELETE_FIRST
    way = "set updatePolicy.replace: " + ("DeleteFirst" if is_last else "CreateFirst (or DeleteFirst)")
    way += " on the resource" + (", because its name is fixed" if is_pinned else "")
    if kind.key == data_kinds.STATEFUL_SET:
        way = (
            "set updatePolicy.replace: KeepClaims on the resource, which enlarges the claims, deletes the StatefulSet "
            "without its Pods and claims, and creates it again under its name"
        )
    loss = data_kinds.describe_loss(kind.key, policy, has_claims=data_kinds.has_claims(desired.manifest))
    if kind.key == data_kinds.STATEFUL_SET and loss:
        way += f" ({policy.value} would not do that: {loss})"
    elif loss:
        way += f", but {loss}"
    elif kind.group not in data_kinds.KNOWN_GROUPS:
        way += (
            f"; whether a {kind.name} holds data is unknown to Hearth: the new object does not get the data of the "
            "old one"
        )
    return (
        f"{field} cannot be changed in place, and a {kind.name} is not replaced automatically; "
        f"revert the change, or {way}"
    )


def was_never_ready(child: Child, memory: InMemoryState) -> bool:
    """Return whether the object provably was never ready. An unknown object counts as having been ready."""
    return child.kind.key == "Job.batch" or child.uid in memory.never_ready


def is_disposable(child: Child, memory: InMemoryState) -> bool:
    """Return whether an object that is about to be replaced provably was never ready."""
    return child.is_identified and not child.deleting and child.uid in memory.never_ready
