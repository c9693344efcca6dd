"""Events that can end an error, and the objects to watch for them."""

from __future__ import annotations

import enum
from typing import TypeAlias

from hearth.model import value_class
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import api_errors


class TriggerType(enum.Enum):
    """Types of events that can end an error. A closed set."""

    LIMITS = "limits"
    """Quotas, limit ranges and the security level of a namespace."""
    RIGHTS = "rights"
    """RBAC of the operator's account, in a namespace and in the cluster."""
    ALL_RIGHTS = "all rights"
    """RBAC of all accounts: in one namespace, or in all, and in the cluster."""
    ADMISSION = "admission"
    """Configuration of webhooks and policies."""
    WEBHOOKS = "webhooks"
    """Webhooks that do not respond: their configuration, and the endpoints of their Services."""
    NAMESPACE = "namespace"
    """The namespace of the object to create."""
    OBJECT = "object"
    """The existing object that conflicts, or changes of other clients to it."""
    KINDS = "kinds"
    """The kinds that the API server serves. Discovery reports a change."""
    SERVER = "server"
    """The API server itself. The client that lost the connection reports its return."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RetryTrigger:
    """One event that can end an error."""

    type: TriggerType
    namespace: str = ""
    """"" for cluster scope."""
    name: str = ""
    kind: Kind | None = None
    """Kind of the object, if the trigger is a single object."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSource:
    """Objects whose changes report a trigger."""

    api_version: str
    kind: str
    namespace: str = ""
    """"" for all, and for cluster scope."""
    name: str = ""
    """Name of the single relevant object; "" for all objects."""
    labels: str = ""
    """Label selector of the relevant objects; "" for all objects."""


RetryTriggers: TypeAlias = tuple[RetryTrigger, ...]

KINDS = RetryTrigger(type=TriggerType.KINDS)
SERVER = RetryTrigger(type=TriggerType.SERVER)
ADMISSION = RetryTrigger(type=TriggerType.ADMISSION)
WEBHOOKS = RetryTrigger(type=TriggerType.WEBHOOKS)

NOTICED_LATE = frozenset({TriggerType.RIGHTS, TriggerType.ALL_RIGHTS, TriggerType.ADMISSION})
"""Triggers whose change an API server takes into account only about a second after it reports it."""
ADMISSION_KINDS = (
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
AWAY = frozenset({502, 503, 504})
"""Codes of an API server that is unavailable, in contrast to one that rejects the request."""


RBAC = api_errors.RBAC_GROUP


def find_triggers(
    first: api_errors.ErrorClass, last: api_errors.ErrorClass, *, code: int, kind: Kind, ref: ObjectRef
) -> RetryTriggers:
    """Find the triggers for a failed write, or empty if no watch can observe any.

    first: class of the error response; last: class after a dry run or an access review; code: its HTTP code.
    """
    match last:
        case api_errors.NamespaceNotFound() | api_errors.NamespaceTerminating():
            return (RetryTrigger(type=TriggerType.NAMESPACE, name=ref.namespace),)
        case api_errors.KindNotServed():
            return (KINDS,)
        case api_errors.Denied() if isinstance(first, api_errors.NeedsAccessReview):
            return (RetryTrigger(type=TriggerType.RIGHTS, namespace=ref.namespace),)
        case api_errors.Denied() if isinstance(first, api_errors.NeedsDryRun | api_errors.MaybeImmutable):
            return (ADMISSION, object_trigger(kind, ref))
        case api_errors.Denied():
            return (ADMISSION,)
        case api_errors.BeyondRights() | api_errors.Unavailable() if isinstance(first, api_errors.NeedsAccessReview):
            return _forbidden_though_allowed(kind, ref)
        case api_errors.Unavailable():
            return (SERVER,) if code in AWAY else (WEBHOOKS,) if code == 500 else ()
        case _:
            return ()


def object_trigger(kind: Kind, ref: ObjectRef) -> RetryTrigger:
    """Return the trigger for a change or the deletion of one object."""
    return RetryTrigger(type=TriggerType.OBJECT, kind=kind, namespace=ref.namespace, name=ref.name)


def _forbidden_though_allowed(kind: Kind, ref: ObjectRef) -> RetryTriggers:
    """Return the triggers of a 403 for an allowed request.

    A limit is reached, the kind is being removed, or an RBAC object grants rights that the operator lacks.
    """
    limits = (RetryTrigger(type=TriggerType.LIMITS, namespace=ref.namespace),) if ref.namespace else ()
    rights = (RetryTrigger(type=TriggerType.RIGHTS, namespace=ref.namespace),) if kind.group == RBAC else ()
    return (*limits, *rights, KINDS)


def find_sources(trigger: RetryTrigger) -> tuple[TriggerSource, ...]:
    """Return the objects to watch for a trigger, or empty if another component reports it."""
    match trigger.type:
        case TriggerType.LIMITS:
            security = TriggerSource(api_version="v1", kind="Namespace", name=trigger.namespace)
            return (*_collections("v1", ("ResourceQuota", "LimitRange"), namespace=trigger.namespace), security)
        case TriggerType.RIGHTS | TriggerType.ALL_RIGHTS:
            is_within = trigger.namespace or trigger.type is TriggerType.ALL_RIGHTS
            within = ("Role", "RoleBinding") if is_within else ()
            everywhere = _collections(f"{RBAC}/v1", ("ClusterRole", "ClusterRoleBinding"))
            return (*everywhere, *_collections(f"{RBAC}/v1", within, namespace=trigger.namespace))
        case TriggerType.ADMISSION:
            return _collections("admissionregistration.k8s.io/v1", ADMISSION_KINDS)
        case TriggerType.WEBHOOKS:
            # The watcher adds the endpoints of the Services that these name.
            return _collections("admissionregistration.k8s.io/v1", ADMISSION_KINDS[:2])
        case TriggerType.NAMESPACE:
            return (TriggerSource(api_version="v1", kind="Namespace", name=trigger.name),)
        case TriggerType.OBJECT if trigger.kind is not None:
            kind = trigger.kind
            return (
                TriggerSource(
                    api_version=kind.api_version, kind=kind.name, namespace=trigger.namespace, name=trigger.name
                ),
            )
        case _:
            return ()


def _collections(api_version: str, kinds: tuple[str, ...], *, namespace: str = "") -> tuple[TriggerSource, ...]:
    return tuple(TriggerSource(api_version=api_version, kind=kind, namespace=namespace) for kind in kinds)
