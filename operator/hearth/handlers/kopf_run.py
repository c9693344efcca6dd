"""Runs kopf once, with our handlers and settings. Slow to import, because it imports kopf.

Each handler only calls a callback or returns the result of a function. The handlers use their own registry instead of
kopf's global one, so one process can run kopf several times.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import kopf

from hearth.model import errors, names, retry_delays, value_class

if TYPE_CHECKING:
    from hearth.handlers.callbacks import DefinitionCallbacks, HandlerCallbacks
    from hearth.kube.auth.credentials import Credentials, CredentialSource
    from hearth.kube.webhook.webhook_server import WebhookServer

FIRST_PAUSES = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0)
LONGEST_PAUSE = 30.0
SERVER_TIMEOUT = 300
"""Requested duration of a stream in seconds. Some load balancers silently drop idle streams after about four minutes.
It must be an integer, because kopf sends it to the API server unchanged, which rejects other values."""
CLIENT_TIMEOUT = 330.0
CONNECT_TIMEOUT = 10.0
REQUEST_TIMEOUT = 30.0
EXIT_TIMEOUT = 1.0
"""Maximum seconds for handlers at the exit; they take only microseconds."""
CUSTOM_KINDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
LOGIN_PAUSE = 5.0
"""Seconds after a failed login. kopf's own delay is a minute, but a broken kubeconfig may be fixed much sooner."""
LIFETIME = timedelta(minutes=15)
"""Interval of kopf's own login, so that it uses rotated tokens. Its streams continue where they were."""
PEM_BEGIN = b"-----BEGIN "
_counter = itertools.count(1)


async def run_kopf(source: CredentialSource, callbacks: HandlerCallbacks) -> None:
    """Run until cancelled, or until a fault of the API server stops kopf."""
    settings = make_settings(callbacks.admission.server if callbacks.admission is not None else None)
    if callbacks.definitions is not None:
        # The kinds may be installed later.
        settings.scanning.disabled = False
        settings.persistence.diffbase_storage = GenerationStorage(prefix=f"kopf.{names.GROUP}")
    await kopf.operator(
        registry=make_registry(source, callbacks),
        settings=settings,
        standalone=True,
        clusterwide=True,
    )


@value_class.dataclass(frozen=True, slots=True)
class EndlessBackoff:
    """Endless pauses in seconds between attempts; each loop over them starts again.

    kopf's default list ends after 54 seconds, and kopf then exits.
    """

    uniform: Callable[[float, float], float] = random.uniform

    def __iter__(self) -> Iterator[float]:
        for pause in FIRST_PAUSES:
            yield pause * self.uniform(0.7, 1.3)
        while True:
            yield self.uniform(LONGEST_PAUSE / 2, LONGEST_PAUSE)


def make_settings(server: WebhookServer | None = None) -> kopf.OperatorSettings:
    """Make the settings of kopf. server: of admission reviews, or None."""
    settings = kopf.OperatorSettings()
    # kopf would send SIGKILL to the whole process ten minutes after an exit, although the supervisor has restarted
    # kopf.
    settings.process.ultimate_exiting_timeout = None
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.posting.level = logging.ERROR
    settings.networking.error_backoffs = EndlessBackoff()
    settings.networking.request_timeout = REQUEST_TIMEOUT
    settings.networking.connect_timeout = CONNECT_TIMEOUT
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.client_timeout = CLIENT_TIMEOUT
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.queueing.exit_timeout = EXIT_TIMEOUT
    # Without a webhook, kopf need not scan: its kinds are known, and the engine discovers the kinds of children.
    # Reviewed kinds may be installed later, so with a webhook, kopf has to follow CustomResourceDefinitions itself.
    settings.scanning.disabled = server is None
    # An administrator installs the webhook configurations, and `hearth.admission` updates them. kopf would empty them
    # at each exit.
    settings.admission.managed = None
    settings.admission.server = cast("Any", server)  # kopf's protocol uses its own types of messages
    # kopf writes only its own records, and only to StackDefinitions. The names show that they are kopf's.
    settings.persistence.finalizer = f"kopf.{names.GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{names.GROUP}", v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"kopf.{names.GROUP}")
    return settings


@value_class.dataclass(frozen=True, slots=True)
class KopfHandlers:
    """The handlers that every kopf has. They ignore the arguments that kopf passes."""

    source: CredentialSource
    callbacks: HandlerCallbacks

    async def authenticate(self, **_: Any) -> kopf.ConnectionInfo:
        """Return the current credentials."""
        # Run it in a thread, because reading credentials may run an exec plugin, which takes time.
        return make_connection_info(await asyncio.to_thread(self.source.load))

    async def wake_discovery(self, **_: Any) -> None:
        """Handle a CustomResourceDefinition that was created, changed, deleted or listed."""
        self.callbacks.on_kinds()


def make_registry(source: CredentialSource, callbacks: HandlerCallbacks) -> kopf.OperatorRegistry:
    """Make the registry of the handlers."""
    handlers = KopfHandlers(source, callbacks)
    registry = kopf.OperatorRegistry()
    kopf.on.login(id="log-in", backoff=LOGIN_PAUSE, registry=registry)(handlers.authenticate)
    if callbacks.definitions is not None:
        register_definition_handlers(callbacks.definitions, registry)
        return registry
    kopf.on.event(*CUSTOM_KINDS, id="wake-discovery", registry=registry)(handlers.wake_discovery)
    if callbacks.admission is not None:
        # Imported here, because certificates need a large library.
        from hearth.handlers import admission_handlers

        admission_handlers.register(callbacks.admission, registry)
    return registry


def make_connection_info(credentials: Credentials, *, now: datetime | None = None) -> kopf.ConnectionInfo:
    """Make the connection info of kopf. No two are equal, because kopf never reuses one that received a 401."""
    scheme, _, token = (credentials.authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_data=begin_at_pem(credentials.authority),
        insecure=not credentials.is_verified,
        scheme=scheme or None,
        token=token or None,
        certificate_data=begin_at_pem(credentials.certificate),
        private_key_data=begin_at_pem(credentials.key),
        proxy_url=credentials.proxy,
        expiration=find_expiration(credentials, now=now or datetime.now(UTC)),
    )


def find_expiration(credentials: Credentials, *, now: datetime) -> datetime:
    """Return when kopf requests credentials again: in 15 minutes, or when they expire if that is sooner."""
    ends = now + LIFETIME
    if credentials.expires_at is not None:
        ends = min(ends, datetime.fromtimestamp(credentials.expires_at, UTC))
    # Microseconds make the value unique, even if the expiration is the same as before.
    return ends + timedelta(microseconds=next(_counter) % 1_000_000)


def begin_at_pem(data: bytes | None) -> bytes | None:
    """Return `data` from its first certificate or key on. kopf treats data that begins with a comment as base64."""
    if data is None:
        return None
    start = data.find(PEM_BEGIN)
    return data[start:] if start >= 0 else data


@value_class.dataclass(frozen=True, slots=True)
class DefinitionHandlers:
    """All handlers of StackDefinitions. They pass on each change, and kopf repeats failed calls."""

    definitions: DefinitionCallbacks

    def leads(self, meta: Mapping[str, Any], **_: Any) -> bool:
        """Return whether this process leads a definition."""
        return self.definitions.leads(str(meta.get("uid")))

    async def handle(self, name: str | None, **_: Any) -> None:
        """Reconcile a definition that was created, changed or deleted, or that was there before this process."""
        try:
            await self.definitions.reconcile(name or "")
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise kopf.TemporaryError(str(error), delay=retry_delays.STACK_DEFINITION.first) from error

    async def handle_deletion(self, name: str | None, meta: Mapping[str, Any], **_: Any) -> None:
        """Reconcile a definition that is being deleted."""
        if "deletionTimestamp" in meta:
            await self.definitions.reconcile(name or "")


class GenerationStorage(kopf.AnnotationsDiffBaseStorage):
    """Remembers the generation and the requests that were handled last. The spec itself may be larger than all annotations together."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> Any:  # noqa: ARG002 -- kopf's own
        """Return the value that kopf compares to detect a changed definition."""
        stated = {name: text for name, text in body.metadata.annotations.items() if name in names.ROLLOUT_REQUESTS}
        if approvals := body.metadata.annotations.get(names.ANNOTATION_APPROVALS):
            # kopf stores the value in another annotation, and the approvals are long.
            stated[names.ANNOTATION_APPROVALS] = hashlib.sha256(approvals.encode()).hexdigest()
        return cast("Any", {"spec": {"generation": body.metadata.get("generation", 0), "requests": stated}})


def register_definition_handlers(definitions: DefinitionCallbacks, registry: kopf.OperatorRegistry) -> None:
    """Register the handlers of StackDefinitions with kopf."""
    handlers = DefinitionHandlers(definitions)
    where = (names.GROUP, names.VERSION, "stackdefinitions")
    kopf.on.create(*where, id="definition", registry=registry, when=handlers.leads)(handlers.handle)
    kopf.on.update(*where, id="definition", registry=registry, when=handlers.leads)(handlers.handle)
    kopf.on.resume(*where, id="definition-resumed", registry=registry, when=handlers.leads)(handlers.handle)
    # kopf's deletion handlers need a finalizer of kopf. The operator has its own finalizer and its own retries.
    kopf.on.event(*where, id="definition-deleted", registry=registry, when=handlers.leads)(handlers.handle_deletion)
