"""kopf admission handlers: they pass a write on for review, set its annotations, or add the finalizer to a new Stack.

An exception in a handler would deny the write, so reviews do not raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import kopf

from hearth.engine.admission.review import Author, Review
from hearth.kube.webhook import webhook_server
from hearth.model import names, value_class

if TYPE_CHECKING:
    from hearth.engine.admission.review import ReviewResult
    from hearth.handlers.callbacks import AdmissionCallbacks

REVIEWED = ("stacks", "resourcegroups", "healthmarks", "stacksnapshots", "stacktemplates", "stackdefinitions")
INVALID = 422


@value_class.dataclass(frozen=True, slots=True)
class AdmissionHandlers:
    """All admission handlers."""

    admission: AdmissionCallbacks

    async def validate(self, warnings: list[str], **_: Any) -> None:
        """Review an object of a reviewed kind."""
        report(await self.admission.review(make_review()), warnings)

    async def decide(self, warnings: list[str], patch: kopf.Patch, **_: Any) -> None:
        """Review a decision about a plan or a gate, and stamp it."""
        result = await self.admission.decide(make_review())
        report(result, warnings)
        annotate(result, patch)

    async def stamp_authors(self, warnings: list[str], patch: kopf.Patch, **_: Any) -> None:
        """Record who changed the spec of a Stack."""
        result = self.admission.stamp_authors(make_review())
        report(result, warnings)
        annotate(result, patch)

    async def add_finalizer(self, meta: Mapping[str, Any], patch: kopf.Patch, **_: Any) -> None:
        """Add the finalizer to a new Stack or ResourceGroup."""
        known = list(meta.get("finalizers") or ())
        if names.FINALIZER not in known:
            patch.metadata["finalizers"] = [*known, names.FINALIZER]


def make_review() -> Review:
    """Create the review of the current request."""
    request = webhook_server.current_request.get()
    user = request.get("userInfo") or {}
    author = Author(
        name=user.get("username") or "",
        uid=user.get("uid") or "",
        groups=tuple(user.get("groups") or ()),
        extra=user.get("extra") or {},
    )
    return Review(
        new=request.get("object") or {},
        old=request.get("oldObject"),
        author=author,
        is_dry_run=request.get("dryRun") is True,
    )


def report(result: ReviewResult, warnings: list[str]) -> None:
    """Return the warnings of a review to the client, and raise if it denies the write."""
    warnings.extend(result.warnings)
    if result.denial:
        raise kopf.AdmissionError(result.denial, code=INVALID)


def annotate(result: ReviewResult, patch: kopf.Patch) -> None:
    """Set the annotations of a review."""
    for key, value in result.annotations.items():
        patch.metadata.annotations[key] = value


def register(admission: AdmissionCallbacks, registry: kopf.OperatorRegistry) -> None:
    """Register the handlers with kopf under the names of the webhooks in the webhook configurations."""
    handlers = AdmissionHandlers(admission)
    for plural in REVIEWED:
        kopf.on.validate(names.GROUP, names.VERSION, plural, id=f"{plural}.hearth.dev", registry=registry)(
            handlers.validate
        )
    for plural in ("stacks", "resourcegroups"):
        kopf.on.mutate(
            names.GROUP, names.VERSION, plural, id="finalizer.hearth.dev", operations=["CREATE"], registry=registry
        )(handlers.add_finalizer)
    for plural, id_, handler in (
        ("stackplans", "approvals.hearth.dev", handlers.decide),
        ("stackdefinitions", "gates.hearth.dev", handlers.decide),
        ("stacks", "authors.hearth.dev", handlers.stamp_authors),
    ):
        kopf.on.mutate(names.GROUP, names.VERSION, plural, id=id_, operations=["CREATE", "UPDATE"], registry=registry)(
            handler
        )
