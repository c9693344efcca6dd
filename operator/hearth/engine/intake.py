"""Brings what one Stack runs up to its spec: reads, compiles and stores the definition, as often as that changes.

Knows nothing of children; a definition that cannot be accepted leaves running what runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from hearth.engine import acceptance
from hearth.engine.acceptance import Acceptor
from hearth.engine.inbox import STACK
from hearth.engine.ports import Revision, StackObject
from hearth.engine.services import Services
from hearth.model.errors import InvalidDefinition, MissingSource, Refused, Unreachable
from hearth.model.kinds import ObjectRef
from hearth.plan.report import Refusal
from hearth.template.blueprint import Blueprint

logger = structlog.get_logger(__name__)

RETRY = 2.0
"""Seconds until a definition that could not be read or stored is tried again."""
HIDDEN_KEPT = 8
"""Definitions whose sensitive texts are hidden: one that is so old has long left the children."""


@dataclass(slots=True)
class Intake:
    """What of one Stack's spec was accepted, and what was refused."""

    uid: str
    services: Services
    acceptor: Acceptor
    on_blueprint: Callable[[StackObject], None]
    """Told whenever `blueprint` is another one."""
    blueprint: Blueprint | None = None
    revision: Revision | None = None
    refusal: Refusal | None = None
    sources: frozenset[ObjectRef] = frozenset()
    """What the definition was read from besides the spec."""
    generation: int = -1
    """Of the spec that was accepted or refused last; -1 before the first."""
    is_deleting: bool = False
    hidden: tuple[frozenset[str], ...] = field(default=(), repr=False)
    """Sensitive texts of this definition and of those before it, which may still stand in some child's status."""
    is_outdated: bool = True
    """Whether something besides the spec changed that the definition depends on."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """What nothing that people read may hold."""
        return frozenset[str]().union(*self.hidden)

    def is_behind(self, stack: StackObject) -> bool:
        """Whether the Stack wants something else than what was looked at last."""
        return self.is_outdated or stack.generation != self.generation or stack.deleting != self.is_deleting

    async def catch_up(self) -> None:
        """Look at the spec until it stays the same meanwhile; intermediate ones are passed over without a trace."""
        home = self.services.home
        try:
            while (stack := home.find_stack(self.uid)) is not None and self.is_behind(stack):
                self.is_outdated = False
                await self._look(stack)
        except (Refused, Unreachable) as error:
            logger.warning("cannot accept a definition", stack=self.uid, error=str(error))
            self.is_outdated = True
            self.refusal = Refusal(
                reason="CannotAccept", message=f"cannot store the definition: {error}; it is tried again"
            )
            self.services.mark_later(RETRY, self.uid, STACK)
        self.services.inbox.mark(self.uid, STACK)

    async def _look(self, stack: StackObject) -> None:
        self._follow(stack)
        if stack.deleting:
            self._install(stack, acceptance.EMPTY, revision=self.revision)
            return
        try:
            definition = await self.acceptor.get_definition(stack.namespace, stack.spec)
            blueprint = await self.acceptor.compile(definition, stack)
        except InvalidDefinition as error:
            await self._refuse(stack, Refusal(reason="InvalidTemplate", message=describe_mistakes(error)))
            return
        except MissingSource as error:
            await self._refuse(stack, Refusal(reason="SourceMissing", message=str(error)))
            return
        last = self.revision.number if self.revision is not None else 0
        revision = await self.acceptor.store(stack, definition, blueprint, last=last)
        self.refusal = None
        self._install(stack, blueprint, revision=revision)

    def _follow(self, stack: StackObject) -> None:
        """Hear of what the definition is read from, and of nothing that it is no longer read from."""
        self.sources = frozenset() if stack.deleting else acceptance.find_sources(stack.namespace, stack.spec)
        self.services.home.follow_sources(self.uid, self.sources)

    async def _refuse(self, stack: StackObject, refusal: Refusal) -> None:
        """Keep what runs; after a restart that is the revision that the status names."""
        if self.blueprint is None:
            number = stack.status.get("revision")
            revisions = self.services.home.revisions(self.uid)
            revision = next((each for each in revisions if each.number == number), None)
            if revision is not None:
                # Without a blueprint, nothing is done to what runs; whose revision that is, is known all the same.
                self.revision = revision
                with contextlib.suppress(MissingSource, InvalidDefinition):
                    definition = await self.acceptor.get_stored(stack, revision)
                    self._install(stack, await self.acceptor.compile(definition, stack), revision=revision)
        self.refusal = refusal
        self.generation = stack.generation

    def _install(self, stack: StackObject, blueprint: Blueprint, *, revision: Revision | None) -> None:
        self.blueprint, self.revision = blueprint, revision
        if blueprint.hidden and blueprint.hidden not in self.hidden:
            self.hidden = (*self.hidden, blueprint.hidden)[-HIDDEN_KEPT:]
        self.generation, self.is_deleting = stack.generation, stack.deleting
        self.on_blueprint(stack)


def describe_mistakes(error: InvalidDefinition) -> str:
    """All mistakes in one message, a line each."""
    count = len(error.mistakes)
    head = "the definition has a mistake" if count == 1 else f"the definition has {count} mistakes"
    return "\n".join([f"{head}; what runs is left as it is:", *(f"- {mistake}" for mistake in error.mistakes)])
