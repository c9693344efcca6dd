"""What a refusal hangs on, as data: what must change for it to pass, and which objects tell of that. Pure.

Must not know who waits, nor how anything is watched.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import api_errors


class TriggerType(enum.Enum):
    """Closed: the sorts of things that refusals hang on."""

    LIMITS = "limits"
    """Quotas, limit ranges and the security level of a namespace."""
    RIGHTS = "rights"
    """Of our account, in a namespace and in the cluster."""
    ADMISSION = "admission"
    """Webhooks and policies, as they are configured."""
    WEBHOOKS = "webhooks"
    """Webhooks that did not answer: their configuration, and the endpoints of their Services."""
    NAMESPACE = "namespace"
    """The namespace that something is to be made in."""
    OBJECT = "object"
    """The object that stands in the way, or what others made of it."""
    KINDS = "kinds"
    """What the cluster serves; whoever keeps the table of kinds tells."""
    SERVER = "server"
    """The API server itself; whoever has lost it tells when it is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTrigger:
    """One thing that a refusal may hang on."""

    type: TriggerType
    namespace: str = ""
    """"" for what lies in none."""
    name: str = ""
    kind: Kind | None = None
    """Of the object, where it is one object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSource:
    """Objects whose changes tell of a cause."""

    api_version: str
    kind: str
    namespace: str = ""
    """"" for all, and for cluster scope."""
    name: str = ""
    """The only one that matters; "" for all of them."""
    labels: str = ""
    """A selector of those that matter; "" for all of them."""


RetryTriggers: TypeAlias = tuple[RetryTrigger, ...]

KINDS = RetryTrigger(type=TriggerType.KINDS)
SERVER = RetryTrigger(type=TriggerType.SERVER)
ADMISSION = RetryTrigger(type=TriggerType.ADMISSION)
WEBHOOKS = RetryTrigger(type=TriggerType.WEBHOOKS)

RBAC = "rbac.authorization.k8s.io"
ADMISSION_KINDS = (
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
AWAY = frozenset({502, 503, 504})
"""Codes that tell of a server which is not there, rather than of one that will not."""


def find_triggers(
    first: api_errors.ErrorClass, last: api_errors.ErrorClass, *, code: int, kind: Kind, ref: ObjectRef
) -> RetryTriggers:
    """What the refusal of a write may hang on; empty where nothing that can be watched tells.

    first: what the refusal said by itself; last: what it meant after asking why; code: its HTTP code.
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
        case api_errors.Unavailable() if isinstance(first, api_errors.NeedsAccessReview):
            return _forbidden_though_allowed(kind, ref)
        case api_errors.Unavailable():
            return (SERVER,) if code in AWAY else (WEBHOOKS,) if code == 500 else ()
        case _:
            return ()


def object_trigger(kind: Kind, ref: ObjectRef) -> RetryTrigger:
    """That very object: it is to go, or to change."""
    return RetryTrigger(type=TriggerType.OBJECT, kind=kind, namespace=ref.namespace, name=ref.name)


def _forbidden_though_allowed(kind: Kind, ref: ObjectRef) -> RetryTriggers:
    """A limit is reached, or the kind is on its way out; nobody may grant rights that he does not have."""
    limits = (RetryTrigger(type=TriggerType.LIMITS, namespace=ref.namespace),) if ref.namespace else ()
    rights = (RetryTrigger(type=TriggerType.RIGHTS, namespace=ref.namespace),) if kind.group == RBAC else ()
    return (*limits, *rights, KINDS)


def find_sources(cause: RetryTrigger) -> tuple[TriggerSource, ...]:
    """What to watch for it; nothing where others tell of it."""
    match cause.type:
        case TriggerType.LIMITS:
            security = TriggerSource(api_version="v1", kind="Namespace", name=cause.namespace)
            return (*_collections("v1", ("ResourceQuota", "LimitRange"), namespace=cause.namespace), security)
        case TriggerType.RIGHTS:
            within = ("Role", "RoleBinding") if cause.namespace else ()
            everywhere = _collections(f"{RBAC}/v1", ("ClusterRole", "ClusterRoleBinding"))
            return (*everywhere, *_collections(f"{RBAC}/v1", within, namespace=cause.namespace))
        case TriggerType.ADMISSION:
            return _collections("admissionregistration.k8s.io/v1", ADMISSION_KINDS)
        case TriggerType.WEBHOOKS:
            # Whoever watches adds the endpoints of the Services that these name.
            return _collections("admissionregistration.k8s.io/v1", ADMISSION_KINDS[:2])
        case TriggerType.NAMESPACE:
            return (TriggerSource(api_version="v1", kind="Namespace", name=cause.name),)
        case TriggerType.OBJECT if cause.kind is not None:
            kind = cause.kind
            return (
                TriggerSource(api_version=kind.api_version, kind=kind.name, namespace=cause.namespace, name=cause.name),
            )
        case _:
            return ()


def _collections(api_version: str, kinds: tuple[str, ...], *, namespace: str = "") -> tuple[TriggerSource, ...]:
    return tuple(TriggerSource(api_version=api_version, kind=kind, namespace=namespace) for kind in kinds)
