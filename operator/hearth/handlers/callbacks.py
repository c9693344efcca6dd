"""Callbacks that kopf's handlers call. Does not import kopf, which is slow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from hearth.model import value_class

if TYPE_CHECKING:
    from hearth.engine.admission.review import Review, ReviewResult
    from hearth.kube.webhook.webhook_server import WebhookServer

ReconcileDefinition: TypeAlias = Callable[[str], Awaitable[None]]
"""Reconciles the StackDefinition with that name. Raises ApiStatusError and Unreachable."""
ReviewWrite: TypeAlias = "Callable[[Review], Awaitable[ReviewResult]]"
StampWrite: TypeAlias = "Callable[[Review], ReviewResult]"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCallbacks:
    """The server of reviews, and the reviewers of its requests."""

    server: WebhookServer
    review: ReviewWrite
    decide: ReviewWrite
    """Reviews decisions about StackPlans, and about gates of StackDefinitions."""
    stamp_authors: StampWrite
    """Records who changed the spec of a Stack. Callable from any thread."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionCallbacks:
    """Callbacks for StackDefinitions."""

    reconcile: ReconcileDefinition
    leads: Callable[[str], bool] = lambda _uid: True
    """Returns whether this process leads the StackDefinition with that UID. Only one kopf may write its records to it.
    """


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCallbacks:
    """Callbacks of all handlers. They are safe to call from kopf's thread."""

    on_kinds: Callable[[], None]
    """Called when kinds may have been added, removed or changed."""
    admission: AdmissionCallbacks | None = None
    """Callbacks for admission reviews; None if no webhook is served."""
    definitions: DefinitionCallbacks | None = None
    """Callbacks for StackDefinitions; None if this kopf does not handle them. If set, kopf handles nothing else."""
