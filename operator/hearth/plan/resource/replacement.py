"""Replacement of objects: when it happens, which of several objects represents the resource, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hearth.model.child import Child
from hearth.model.kinds import Kind, ObjectRef
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


def find_policy(resource: ResourceBlueprint, wanted: DesiredResource, *, is_named: bool = False) -> Replacement:
    """Return the replacement policy: the resource's own, otherwise the safe one for its kind.

    Never CreateFirst if the name is explicit: such a template is rejected. is_named: whether `replaceOn` names the changed
    field, which permits the replacement of any kind.
    """
    if resource.replacement is not None:
        return resource.replacement
    if wanted.is_name_pinned or not (is_named or wanted.kind.key in CREATE_FIRST_KINDS):
        return Replacement.NEVER
    return Replacement.CREATE_FIRST


def find_candidates(children: Iterable[Child], wanted: DesiredResource) -> list[Child]:
    """Find the objects that can represent the resource as desired now: same kind, name and namespace."""
    return [
        child
        for child in children
        if child.is_identified and any(is_at(child, ref) for ref in wanted.refs_at(child.incarnation))
    ]


def is_at(child: Child, ref: ObjectRef) -> bool:
    """Return whether the object has this reference. Equivalent to comparing references, without creating one."""
    kind = child.kind
    return (child.name, kind.name, child.namespace, kind.group) == (ref.name, ref.kind, ref.namespace, ref.group)


def choose_child(
    candidates: list[Child], wanted: DesiredResource, assess: Callable[[Child], ResourceStatus]
) -> Child | None:
    """Choose the best object.

    The order is: this definition and not failed, this definition, healthy, newest. A failed object of this definition
    is waited for, or given up by its own rules. A healthy object of another definition could only become the next
    failure, repeatedly. assess: assesses an object by itself. An object that is being deleted or marked unhealthy is
    chosen only if there is no other.
    """
    if len(candidates) <= 1:
        return candidates[0] if candidates else None

    def rank(child: Child) -> tuple[bool, bool, bool, bool, bool, int]:
        state = assess(child).state
        is_same = child.hash == wanted.hash
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


def explain_not_replaced(policy_kind: Kind, *, field: str, is_pinned: bool) -> str:
    """Explain why a resource is not replaced, and what would allow it."""
    if is_pinned:
        way = "set updatePolicy.replace: DeleteFirst on the resource, because its name is fixed"
    else:
        way = (
            "set updatePolicy.replace: CreateFirst (or DeleteFirst) on the resource, "
            "or name the field in updatePolicy.replaceOn"
        )
    return (
        f"{field} cannot be changed in place, and a {policy_kind.name} is not replaced automatically; "
        f"revert the change, or {way}"
    )


def was_never_ready(child: Child, memory: InMemoryState) -> bool:
    """Return whether the object provably was never ready. An unknown object counts as having been ready."""
    return child.kind.key == "Job.batch" or child.uid in memory.never_ready


def is_disposable(child: Child, memory: InMemoryState) -> bool:
    """Return whether an object that is about to be replaced provably was never ready."""
    return child.is_identified and not child.deleting and child.uid in memory.never_ready
