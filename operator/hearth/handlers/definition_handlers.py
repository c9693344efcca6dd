"""The handlers of StackDefinitions: each change is passed on, and kopf calls again what failed. None decides anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import kopf

from hearth.handlers.callbacks import DefinitionCallbacks
from hearth.model import errors, names, value_class

RETRY = 5.0
"""Seconds until kopf calls a handler again that got no answer from the API server."""
PLURAL = "stackdefinitions"


@value_class.dataclass(frozen=True, slots=True)
class DefinitionHandlers:
    """All handlers of StackDefinitions."""

    definitions: DefinitionCallbacks

    def leads(self, meta: Mapping[str, Any], **_: Any) -> bool:
        """Return whether this process leads a definition."""
        return self.definitions.leads(str(meta.get("uid")))

    async def handle(self, name: str | None, **_: Any) -> None:
        """Reconcile a definition that was created, changed or deleted, or that was there before this process."""
        try:
            await self.definitions.reconcile(name or "")
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise kopf.TemporaryError(str(error), delay=RETRY) from error

    async def handle_deletion(self, name: str | None, meta: Mapping[str, Any], **_: Any) -> None:
        """Reconcile a definition that is being deleted."""
        if "deletionTimestamp" in meta:
            await self.definitions.reconcile(name or "")


class GenerationStorage(kopf.AnnotationsDiffBaseStorage):
    """Remembers the generation and the requests that were handled last. The spec itself may be larger than all annotations together."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> Any:  # noqa: ARG002 -- kopf's own
        """Return what kopf compares to tell whether a definition changed."""
        stated = {name: text for name, text in body.metadata.annotations.items() if name in names.ROLLOUT_REQUESTS}
        return cast("Any", {"spec": {"generation": body.metadata.get("generation", 0), "requests": stated}})


def register(definitions: DefinitionCallbacks, registry: kopf.OperatorRegistry) -> None:
    """Make the handlers known to kopf."""
    handlers = DefinitionHandlers(definitions)
    where = (names.GROUP, names.VERSION, PLURAL)
    kopf.on.create(*where, id="definition", registry=registry, when=handlers.leads)(handlers.handle)
    kopf.on.update(*where, id="definition", registry=registry, when=handlers.leads)(handlers.handle)
    kopf.on.resume(*where, id="definition-resumed", registry=registry, when=handlers.leads)(handlers.handle)
    # kopf's handlers of deletions need a finalizer of kopf. The operator has its own, and retries by itself.
    kopf.on.event(*where, id="definition-deleted", registry=registry, when=handlers.leads)(handlers.handle_deletion)
