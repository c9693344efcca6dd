"""The admission webhook of one process: its API connection, discovery, certificates and reviews.

Every replica serves it, leader or not. It shares no connection with the engine, so neither waits for the other's
requests.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from hearth import settings as settings_module
from hearth import supervision
from hearth.engine.admission import author_stamps, reviewer
from hearth.engine.admission.gate_decisions import GateCheck
from hearth.engine.admission.plan_decisions import DecisionCheck
from hearth.engine.admission.review import ReviewResult
from hearth.engine.admission.reviewer import AuthorCheck, Reviewer
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.work_queue import WorkQueue
from hearth.handlers.callbacks import AdmissionCallbacks
from hearth.kube.auth import inline_kubeconfig
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.refresh_timing import KindRefresh
from hearth.kube.management_cluster import KubeManagementCluster
from hearth.kube.webhook import certificates, webhook_configuration
from hearth.kube.webhook.certificates import CertificateSecret
from hearth.kube.webhook.webhook_configuration import WebhookConfigurations
from hearth.kube.webhook.webhook_server import WebhookServer
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, names, retry_delays, value_class
from hearth.model.well_known_kinds import ACCESS_REVIEW
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.sandbox.pool import Pool

if TYPE_CHECKING:
    from hearth.engine.admission.review import Author, Review
    from hearth.engine.ports import Observer
    from hearth.kube.auth.credentials import CredentialSource
    from hearth.kube.webhook.certificates import CertificateSet
    from hearth.model.child import Object
    from hearth.settings import Address, Settings

logger = structlog.get_logger(__name__)

REFRESH_INTERVAL = 60.0
"""Seconds between two reads of the Secret and the configurations. Certificates are renewed weeks before they expire."""
TRUST_INTERVAL = 10.0
"""Seconds from a change of the trusted authorities until a certificate of the new one is served."""


@value_class.dataclass(frozen=True, slots=True)
class SubjectAccessReviews:
    """Asks the authorizers of the API server."""

    client: ApiClient

    async def may(
        self, author: Author, verb: str, resource: str, *, namespace: str, name: str = "", group: str = ""
    ) -> bool:
        """Return whether the user may do that. group: "" for the core API group."""
        attributes = {
            "verb": verb,
            "group": group,
            "version": names.VERSION if group else "v1",
            "resource": resource,
            "namespace": namespace,
            "name": name,
        }
        spec: Object = {
            "user": author.name,
            "uid": author.uid,
            "groups": list(author.groups),
            "extra": dict(author.extra),
            "resourceAttributes": attributes,
        }
        body: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": ACCESS_REVIEW.name, "spec": spec}
        answer = await self.client.send("create", ACCESS_REVIEW, api_requests.collection_path(ACCESS_REVIEW), body=body)
        return bool((answer.get("status") or {}).get("allowed"))


class AdmissionService:
    """Serves admission reviews once it is started."""

    def __init__(self, settings: Settings, address: Address, source: CredentialSource, observer: Observer) -> None:
        self._settings = settings
        self._observer = observer
        self._connection = Connection(source)
        self._queue = WorkQueue()
        self._cluster = KubeWorkloadCluster(self._connection, self._queue, observer=observer)
        self._evaluations = Pool(notify=lambda _uid: None, on_limit=observer.on_limit)
        self._client = ApiClient(self._connection, observer)
        self._secret = CertificateSecret(
            client=self._client, namespace=settings.operator_namespace, name=settings.webhook_secret
        )
        self._configurations = WebhookConfigurations(connection=self._connection, name=settings.webhook_configuration)
        self._home = self._make_home()
        self._server = WebhookServer(address.host, address.port, on_limit=observer.on_limit)
        self._hasher: KeyedHasher | None = None
        self._reviewer: Reviewer | None = None
        self._certificates: CertificateSet | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._kind_refresh = KindRefresh(self._cluster.refresh_changed_kinds, where="admission")

    @property
    def callbacks(self) -> AdmissionCallbacks:
        """The webhook server, and the reviewer that it calls."""
        return AdmissionCallbacks(
            server=self._server, review=self._review, decide=self._decide, stamp_authors=self._stamp_authors
        )

    def start(self) -> None:
        """Start in the background, and wait there for missing objects."""
        self._tasks.append(supervision.spawn_forever("admission", self._run))

    async def stop(self) -> None:
        """Stop. A review that is interrupted allows its write."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self._kind_refresh.close(), return_exceptions=True)
        await self._evaluations.close()
        await asyncio.gather(self._cluster.close(), self._connection.close())

    def on_kinds(self) -> None:
        """Handle a change of the served kinds."""
        if self._reviewer is not None:
            self._kind_refresh.on_change()

    def find_not_ready(self) -> Sequence[str]:
        """Return why no review is served."""
        return () if self._server.is_serving else ("the admission webhook is not serving yet",)

    def _make_home(self) -> KubeManagementCluster:
        """Make the client that reads the sources of definitions. It watches nothing."""
        connection, queue = self._connection, self._queue
        return KubeManagementCluster(
            connection,
            stacks=StackCache(connection, queue.on_stack),
            revisions=RevisionCache(connection, queue.on_revision),
            sources=SourceCache(connection, queue.on_source),
            observer=self._observer,
        )

    async def _review(self, review: Review) -> ReviewResult:
        if self._reviewer is None:
            return reviewer.answer_unreviewed(review, "the operator is starting")
        return await self._reviewer.review(review)

    async def _decide(self, review: Review) -> ReviewResult:
        if self._reviewer is None:
            return reviewer.answer_unreviewed(review, "the operator is starting", is_decision=True)
        return await self._reviewer.decide(review)

    def _stamp_authors(self, review: Review) -> ReviewResult:
        if self._hasher is None:
            return ReviewResult(
                denial="cannot record the author of the change, because the operator is starting; try again"
            )
        return author_stamps.stamp_authors(review, hashes=self._hasher)

    async def _run(self) -> None:
        hasher = await self._open()
        while True:
            delay = REFRESH_INTERVAL * random.uniform(0.9, 1.1)  # noqa: S311 -- spreads the replicas
            try:
                if not await self._refresh_certificate(hasher):
                    delay = TRUST_INTERVAL
            except (errors.ApiStatusError, errors.Unreachable) as error:
                is_conflict = isinstance(error, errors.ApiStatusError) and error.is_conflict
                if not is_conflict:
                    logger.warning("cannot refresh the webhook certificate; retrying", error=str(error))
                delay = retry_delays.START.first
            await asyncio.sleep(delay)

    async def _open(self) -> KeyedHasher:
        """Connect to the API server, discover its kinds and read the hash key; retry until that succeeds."""
        while self._hasher is None or self._reviewer is None:
            try:
                await self._connection.open()
                await self._cluster.open()
                self._hasher = KeyedHasher(await self._home.get_hash_key(self._settings.operator_namespace))
            except errors.HearthError as error:
                logger.warning("startup of the admission webhook failed; retrying", error=str(error))
                await asyncio.sleep(retry_delays.START.first)
            else:
                builder = RevisionBuilder(
                    management_cluster=self._home,
                    cluster=self._cluster,
                    hashes=self._hasher,
                    evaluations=self._evaluations,
                    tenancy=self._settings.make_tenancy(),
                )
                allows_loopback = self._settings.allow_loopback_clusters
                self._reviewer = Reviewer(
                    builder,
                    author_check=self._make_author_check(),
                    decision_check=DecisionCheck(
                        access=SubjectAccessReviews(self._client),
                        hashes=self._hasher,
                        operator_namespace=self._settings.operator_namespace,
                    ),
                    gate_check=GateCheck(
                        access=SubjectAccessReviews(self._client),
                        hashes=self._hasher,
                        operator_namespace=self._settings.operator_namespace,
                    ),
                    check_kubeconfig=functools.partial(inline_kubeconfig.parse, allows_loopback=allows_loopback),
                    on_limit=self._observer.on_limit,
                )
        return self._hasher

    def _make_author_check(self) -> AuthorCheck | None:
        if not self._settings.check_authors:
            return None
        return AuthorCheck(SubjectAccessReviews(self._client))

    async def _refresh_certificate(self, hasher: KeyedHasher) -> bool:
        """Renew the certificate if due, make the API server trust it, then serve it. Returns False to be retried."""
        installed = await self._configurations.load()
        hosts = {host for _, raw in installed for host in webhook_configuration.find_hosts(raw)}
        # Default to the Service that is usually installed, in case there is no configuration.
        usual = f"{settings_module.DEFAULT_WEBHOOK}.{self._settings.operator_namespace}.svc"
        found = await self._secret.load(hosts=hosts or {usual}, now=datetime.now(UTC))
        if found is None:
            logger.warning("the webhook certificate is not issued yet", secret=self._settings.webhook_secret)
            return False
        # All replicas have the key of the hashes, so all of them serve the same path.
        path = (
            "/" + hasher.sign("path of the admission webhook", [self._settings.operator_namespace]).rpartition(":")[2]
        )
        updates = [
            await self._configurations.update(kind, raw, authorities=found.authorities, path=path)
            for kind, raw in installed
        ]
        if self._certificates is not None and any(updates):
            # API servers read the change a moment later. Until then, they may not trust the new certificate.
            return found == self._certificates
        if found != self._certificates:
            await self._serve(found, path=path)
        return True

    async def _serve(self, certificate_set: CertificateSet, *, path: str) -> None:
        try:
            await asyncio.to_thread(self._server.load, certificate_set, path=path)
        except OSError as error:
            logger.warning("the webhook certificate cannot be used", error=supervision.name_type(error))
            return
        self._certificates = certificate_set
        logger.info("serving the webhook certificate", expires=str(certificates.find_expiration(certificate_set)))
