"""Loads the users' health rules from a ConfigMap in the operator's namespace, and applies every change at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from hearth import answers
from hearth.engine import cooperative_work
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.model import retry_delays
from hearth.model.errors import ApiStatusError, Mistake
from hearth.model.kinds import ObjectRef
from hearth.plan.health import rule_parser

logger = structlog.get_logger(__name__)

CONFIG_MAP = "hearth-health-rules"
READER = "@user-rules"
"""The reader ID of the ConfigMap, used in place of a Stack's UID."""
MAX_REPORTED = 10
"""Errors in one Event; the message of an Event holds 1024 bytes."""


class HealthRuleLoader:
    """The health rules that users of this operator defined."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._ref = ObjectRef(group="", kind="ConfigMap", namespace=services.own_namespace, name=CONFIG_MAP)
        self._tasks = NamedTasks(self._on_error)
        self._is_outdated = False
        self._reading = asyncio.Lock()
        """Held from a read until its rules are applied, so that an older read cannot replace them."""
        self._documents: Mapping[str, str] = {}
        """The documents of the last successful read."""
        self._trouble = ""
        """Why the last read failed, or "" if it succeeded."""
        self._cancel_retry: Callable[[], None] | None = None

    async def start(self) -> None:
        """Read the rules for the first time. A failed read does not block startup."""
        if self._ref.namespace:
            self._services.management_cluster.follow_sources(READER, [self._ref])
            await self._read()

    def stop(self) -> None:
        """Stop observing the ConfigMap."""
        self._tasks.cancel()
        if self._cancel_retry is not None:
            self._cancel_retry()
        if self._ref.namespace:
            self._services.management_cluster.follow_sources(READER, ())

    def on_source_changed(self, ref: ObjectRef) -> None:
        """Handle a changed source, which is not necessarily the ConfigMap with the rules."""
        if ref == self._ref:
            self._is_outdated = True
            self._tasks.run("read health rules", self._catch_up)

    async def _catch_up(self) -> None:
        while self._is_outdated:
            self._is_outdated = False
            await self._read()

    async def _read(self) -> None:
        async with self._reading:
            documents = await self._get_documents()
            if documents is not None and documents != self._documents:
                await self._apply_rules(documents)
                self._documents = dict(documents)

    async def _get_documents(self) -> Mapping[str, str] | None:
        """Return the documents, none if there is no ConfigMap; None after a failed read, which is repeated later."""
        documents = await answers.try_request(self._services.management_cluster.get_source(self._ref))
        if isinstance(documents, ApiStatusError) and documents.is_not_found:
            documents = {}
        if isinstance(documents, answers.REQUEST_ERRORS):
            self._retry_later(str(documents))
            return None
        self._trouble = ""
        return documents

    def _retry_later(self, trouble: str) -> None:
        """Schedule the next read; the current rules apply until then."""
        if trouble != self._trouble:
            self._trouble = trouble
            logger.warning("cannot read health rules; retrying", configmap=self._name, error=trouble)
        if self._cancel_retry is not None:
            # Each change of a ConfigMap that cannot be read would add reads of its own.
            self._cancel_retry()
        self._cancel_retry = self._services.clock.call_later(
            retry_delays.HEALTH_RULES.first, lambda: self.on_source_changed(self._ref)
        )

    async def _apply_rules(self, documents: Mapping[str, str]) -> None:
        """Apply the new rules and report their errors."""
        pieces = rule_parser.read_in_pieces({key: documents[key] for key in sorted(documents)})
        table, mistakes = await cooperative_work.finish(pieces)
        self._services.queue.on_rules(self._services.health_rules.replace(table))
        logger.info("health rules reloaded", configmap=self._name, mistakes=len(mistakes))
        if mistakes:
            message = describe(mistakes)
            logger.warning("invalid health rules ignored", configmap=self._name, mistakes=message)
            await self._services.management_cluster.emit_source_event(
                self._ref, type_="Warning", reason="InvalidHealthRules", message=message
            )

    @property
    def _name(self) -> str:
        return f"{self._ref.namespace}/{self._ref.name}"

    def _on_error(self, _name: str, _error: BaseException) -> None:
        self._retry_later("an internal error of the operator, see its log")


def describe(mistakes: tuple[Mistake, ...]) -> str:
    """Describe the first errors in one message, one line each."""
    lines = [f"- {mistake}" for mistake in mistakes[:MAX_REPORTED]]
    if len(mistakes) > MAX_REPORTED:
        lines.append(f"and {len(mistakes) - MAX_REPORTED} more")
    return "\n".join(["invalid rules are ignored, the others apply:", *lines])
