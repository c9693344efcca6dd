"""Watches the objects whose changes trigger a retry, while a failed step waits for them.

The watches request only metadata, without a selector of Hearth. They store no objects and report only that something
changed. `RateLimitedNotifier` limits these reports, and those of `hearth.kube.cache.external_cache`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

import structlog

from hearth import supervision
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext
from hearth.model import errors, limits, turns
from hearth.model.child import Object
from hearth.model.kinds import Kind, Kinds
from hearth.plan.retry import retry_triggers
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerSource

log = structlog.get_logger(__name__)
Key = TypeVar("Key", bound=Hashable)

INTERVAL = 1.0
"""Minimum seconds between two reports of one trigger: a quota in a busy namespace changes many times a second."""
ASK_AGAIN = 600.0
"""Seconds before a watch that the API server denied is requested again."""
WEBHOOK_API_VERSION = "admissionregistration.k8s.io/v1"
WEBHOOK_CONFIGURATIONS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
LABEL_SERVICE = "kubernetes.io/service-name"
"""The label of each EndpointSlice that contains the name of its Service."""


class RateLimitedNotifier(Generic[Key]):
    """Reports changes of each key immediately, then at most once per interval."""

    def __init__(self, notify: Callable[[Key], None], *, interval: float) -> None:
        """interval: seconds."""
        self._notify = notify
        self._interval = interval
        self._notified: dict[Key, float] = {}
        """Time of the last report, by the loop's clock."""
        self._planned: dict[Key, Callable[[], None]] = {}
        """Functions that cancel the planned reports."""

    def post(self, key: Key) -> None:
        """Record a change."""
        if key in self._planned:
            return
        now = asyncio.get_running_loop().time()
        left = self._notified.get(key, float("-inf")) + self._interval - now
        if left > 0:
            self._planned[key] = supervision.call_later(left, lambda: self._send(key))
        else:
            self._send(key)

    def post_now(self, key: Key) -> None:
        """Report a change immediately."""
        self._cancel(key)
        self._notify(key)

    def forget(self, key: Key) -> None:
        """Stop reporting changes of the key."""
        self._notified.pop(key, None)
        self._cancel(key)

    def _cancel(self, key: Key) -> None:
        planned = self._planned.pop(key, None)
        if planned is not None:
            planned()

    def _send(self, key: Key) -> None:
        self._planned.pop(key, None)
        self._notified[key] = asyncio.get_running_loop().time()
        self._notify(key)


class TriggerSourceWatch:
    """Watch of one source for one or more triggers; also the handler of that watch."""

    def __init__(
        self,
        source: TriggerSource,
        *,
        context: WatchContext,
        on_change: Callable[[], None],
        on_forbidden: Callable[[], None],
    ) -> None:
        self.source = source
        self.causes: set[RetryTrigger] = set()
        self._on_change = on_change
        self._on_forbidden = on_forbidden
        self._is_listing = False
        # Use a copy without `on_return`: a trigger's watch that works again does not show that the server has returned.
        self._server = dataclasses.replace(context, on_return=lambda: None)
        self._reflector: Reflector | None = None

    def start(self, kind: Kind) -> None:
        """Start the watch."""
        selector = {"fieldSelector": f"metadata.name={self.source.name}"} if self.source.name else {}
        if self.source.labels:
            selector["labelSelector"] = self.source.labels
        path = api_requests.collection_path(kind, self.source.namespace)
        self._reflector = Reflector(self._server, path, self, name=kind.key, selector=selector, metadata_only=True)
        self._reflector.on_denied = self._on_forbidden
        self._reflector.start()

    async def close(self) -> None:
        """Stop the watch."""
        if self._reflector is not None:
            await self._reflector.close()

    def on_list_started(self) -> None:
        """Start a list: the objects that follow existed before."""
        self._is_listing = True

    def on_object(self, raw: Object) -> None:  # noqa: ARG002 -- only the fact of a change is reported
        """Report that the object was created or changed."""
        if not self._is_listing:
            self._on_change()

    def on_deleted(self, raw: Object) -> None:  # noqa: ARG002 -- only the fact of a change matters
        """Report that the object was deleted."""
        self._on_change()

    def on_synced(self, version: int | None) -> None:  # noqa: ARG002 -- only the fact of a change matters
        """Complete the list; the watch did not observe changes before this moment."""
        self._is_listing = False
        self._on_change()


class TriggerWatches:
    """The watches of all awaited triggers. Use in one event loop."""

    def __init__(self, context: WatchContext, kinds: Kinds, on_change: Callable[[RetryTrigger], None]) -> None:
        """Create the set without requests.

        context: shared with other watches, whose recovery signals the server's return; on_change: gets a trigger that
        changed, or may have changed.
        """
        self._server = context
        self._kinds = kinds
        self._notices = RateLimitedNotifier(on_change, interval=INTERVAL)
        self._causes: set[RetryTrigger] = set()
        self._watches: dict[TriggerSource, TriggerSourceWatch] = {}
        self._denied: dict[TriggerSource, float] = {}
        """Sources that the account is not allowed to watch, with the loop's time of the next request."""
        self._reported: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._finding: asyncio.Task[None] | None = None
        context.on_return = self._on_return

    def watch(self, trigger: RetryTrigger) -> None:
        """Start reporting changes of this trigger."""
        is_new = trigger not in self._causes
        self._causes.add(trigger)
        # A source that could not be watched before may be available now: a limit or a missing permission may have
        # changed.
        for source in retry_triggers.find_sources(trigger):
            self._attach(source, trigger)
        if is_new and trigger == retry_triggers.WEBHOOKS:
            self._finding = self._run(self._attach_services, name="find the Services of webhooks")

    def retain(self, wanted: Collection[RetryTrigger]) -> None:
        """Stop the watches that none of these triggers needs."""
        for cause in [cause for cause in self._causes if cause not in wanted]:
            self._causes.discard(cause)
            self._notices.forget(cause)
        now = asyncio.get_running_loop().time()
        self._denied = {source: until for source, until in self._denied.items() if until > now}
        for source, each in list(self._watches.items()):
            each.causes &= self._causes
            if not each.causes:
                self._close_watch(source)

    async def close(self) -> None:
        """Stop all watches and reports."""
        self.retain(())
        if self._finding is not None:
            self._finding.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _attach(self, source: TriggerSource, trigger: RetryTrigger) -> None:
        """Report changes of the source as changes of the trigger."""
        each = self._watches.get(source) or self._begin(source)
        if each is not None:
            each.causes.add(trigger)

    async def _attach_services(self) -> None:
        """Watch the Services of webhooks; on an error, only the webhook configurations trigger retries."""
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            source = await get_webhook_source(self._server.connection, self._kinds)
            if source is not None and retry_triggers.WEBHOOKS in self._causes:
                self._attach(source, retry_triggers.WEBHOOKS)

    def _run(self, work: supervision.Work, *, name: str) -> asyncio.Task[None]:
        task = supervision.spawn("cause", work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _begin(self, source: TriggerSource) -> TriggerSourceWatch | None:
        is_denied = self._denied.get(source, 0.0) > asyncio.get_running_loop().time()
        kind = self._kinds.find(source.api_version, source.kind)
        if is_denied or kind is None:
            return None
        held = sum(each.namespace == source.namespace for each in self._watches)
        free = limits.CAUSE_WATCHES - len(self._watches)
        if held >= turns.find_share(held, free=free, most=limits.CAUSE_WATCHES):
            if self._server.observer is not None:
                self._server.observer.on_limit("cause-watches")
            return None
        made = self._watches[source] = TriggerSourceWatch(
            source,
            context=self._server,
            on_change=lambda: self._post(made.causes),
            on_forbidden=lambda: self._stop_denied_watch(source),
        )
        made.start(kind)
        return made

    def _close_watch(self, source: TriggerSource) -> None:
        each = self._watches.pop(source, None)
        if each is not None:
            self._run(each.close, name=f"end of the watch of {source.kind}")

    def _stop_denied_watch(self, source: TriggerSource) -> None:
        """Stop the watch of a denied source; retries then depend only on time."""
        self._denied[source] = asyncio.get_running_loop().time() + ASK_AGAIN
        if source.kind not in self._reported:
            self._reported.add(source.kind)
            log.warning(
                "cannot watch retry triggers (forbidden); relying on backoff",
                kind=source.kind,
                namespace=source.namespace,
            )
        self._close_watch(source)

    def _on_return(self) -> None:
        if retry_triggers.SERVER in self._causes:
            self._post([retry_triggers.SERVER])

    def _post(self, changed: Iterable[RetryTrigger]) -> None:
        for cause in tuple(changed):
            self._notices.post(cause)


async def get_webhook_source(connection: WatchConnection, kinds: Kinds) -> TriggerSource | None:
    """Return the endpoints of all Services whose failure rejects a write; None without any.

    Raises `ApiStatusError` or `Unreachable`.
    """
    names: set[str] = set()
    for name in WEBHOOK_CONFIGURATIONS:
        kind = kinds.find(WEBHOOK_API_VERSION, name)
        if kind is not None:
            listed = await connection.request("GET", api_requests.collection_path(kind))
            names.update(find_services(listed.get("items") or ()))
    if not names:
        return None
    # One watch serves all namespaces. A Service with the same name in another namespace costs one unnecessary retry.
    selector = f"{LABEL_SERVICE} in ({','.join(sorted(names))})"
    return TriggerSource(api_version="discovery.k8s.io/v1", kind="EndpointSlice", labels=selector)


def find_services(configurations: list[Object] | tuple[()]) -> Iterator[str]:
    """Yield the names of the Services whose failure rejects a write."""
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None and webhook.get("failurePolicy", "Fail") != "Ignore":
                yield service["name"]
