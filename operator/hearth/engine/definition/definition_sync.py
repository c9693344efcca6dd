"""Brings what one Stack runs up to what it wants: reads, compiles and stores the definition, as often as that changes.

Knows nothing of children; a definition that cannot be accepted leaves running what runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Set
from dataclasses import dataclass, field

import structlog

from hearth.engine import verified_revisions
from hearth.engine.definition import revision_builder, revision_history
from hearth.engine.definition.revision_builder import Acceptor
from hearth.engine.definition.target_tracker import Wishes
from hearth.engine.ports import Revision, StackObject
from hearth.engine.services import Services
from hearth.engine.work_queue import STACK
from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.errors import (
    ImpossibleOrder,
    InvalidDefinition,
    MissingSource,
    Refused,
    TamperedRevision,
    Unreachable,
)
from hearth.model.kinds import ObjectRef
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import Gates
from hearth.plan.stack import options
from hearth.plan.stack.cleanup_policy import Retention
from hearth.plan.stack.options import Flow
from hearth.plan.state import internal_errors
from hearth.plan.status.ready_condition import Refusal
from hearth.plan.target.target import NOTHING, Aim, Motive
from hearth.template.blueprint import Blueprint, Definition
from hearth.template.chunked_work import Unevaluated
from hearth.template.parser import policies

logger = structlog.get_logger(__name__)

RETRY = 2.0
"""Seconds until a definition that could not be read or stored is tried again."""
TAMPERED = "RevisionTampered"
"""The reason of a definition that cannot be used, as its revision is not as this operator stored it."""
HIDDEN_KEPT = 8
"""Definitions whose sensitive texts are hidden: one that is so old has long left the children."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A revision that is kept, ready to be wanted."""

    blueprint: Blueprint
    revision: Revision | None = None
    """None for the one that wants nothing."""
    renewed: tuple[str, ...] = ()
    """Sensitive parameters whose values are others by now."""


@dataclass(slots=True)
class Intake:
    """What of one Stack's spec was accepted, and what was refused."""

    uid: str
    services: Services
    acceptor: Acceptor
    on_blueprint: Callable[[StackObject], None]
    """Told whenever `blueprint` or the wish behind it is another one."""
    blueprint: Blueprint | None = None
    revision: Revision | None = None
    """Of `blueprint`; None where nothing was accepted yet, or nothing is wanted."""
    refusal: Refusal | None = None
    tampered: str = ""
    """Which stored revisions are not as this operator wrote them, in words; "" for none."""
    renewed: tuple[str, ...] = ()
    """Of an earlier revision that is wanted, the sensitive parameters whose values are others by now."""
    sources: frozenset[ObjectRef] = frozenset()
    """What the definition was read from besides the spec."""
    flow: Flow = field(default_factory=Flow)
    wishes: Wishes = field(default_factory=Wishes)
    generation: int = -1
    """Of the spec that was accepted or refused last; -1 before the first."""
    is_deleting: bool = False
    hidden: tuple[frozenset[str], ...] = field(default=(), repr=False)
    """Sensitive texts of this definition and of those before it, which may still stand in some child's status."""
    is_outdated: bool = True
    """Whether something besides the spec changed that the definition or the wish depends on."""
    _names: dict[int, Set[str]] = field(default_factory=dict)
    """By number the resources of the present revision, and of those whose objects it holds back."""
    _present: int | None = None
    """The revision that the spec holds, where that is one that was accepted before."""
    _heard: int = 0
    """How often one of `sources` changed."""
    _heard_before: int = 0
    """The same, when the definition was accepted or refused last."""
    _is_sound: bool = True
    _looked_at: int = 0
    """The version of the Stack that was looked at last."""
    _put_off: int | None = None
    """The version of the Stack that could not be accepted a moment ago."""
    _flow_of: int = -1
    """The generation that `flow` was read from."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """What nothing that people read may hold."""
        return frozenset[str]().union(*self.hidden)

    @property
    def is_suspended(self) -> bool:
        """Whether workloads are to be at nothing: as soon as the spec says so, unless the Stack goes."""
        return self.flow.is_suspended and not self.is_deleting

    def is_behind(self, stack: StackObject) -> bool:
        """Whether the Stack wants something else than what was looked at last."""
        return self.is_outdated or stack.generation != self.generation or stack.deleting != self.is_deleting

    def is_unread(self, stack: StackObject) -> bool:
        """Whether the user wants something by now that was neither accepted nor refused yet."""
        return stack.generation != self.generation or self._heard != self._heard_before

    def hear(self, what: object) -> None:
        """Something happened that no single Stack is named by."""
        if what in self.sources:
            self._heard += 1
            self.is_outdated = True
            self.services.inbox.mark(self.uid, STACK)

    def look_at_flow(self, stack: StackObject) -> None:
        """Follow at once what the spec says of how to go about it."""
        self.wishes.recall(
            stack,
            hashes=self.services.hashes,
            count_revisions=lambda: len(self.acceptor.load_revisions(stack).verified),
        )
        if stack.generation != self._flow_of:
            has_parents = names.ANNOTATION_INHERITED in stack.annotations
            self._flow_of, self.flow = stack.generation, options.parse(stack.spec, has_parents=has_parents)

    def is_due(self, stack: StackObject) -> bool:
        """Whether that is to be looked at now: what could not be accepted is not tried again at once, unless the Stack changed."""
        return self.is_behind(stack) and stack.resource_version != self._put_off

    @property
    def is_sound(self) -> bool:
        """Whether the last look at the spec did not end in an internal error."""
        return self._is_sound

    async def catch_up(self) -> bool:
        """Look at the spec until it stays the same meanwhile; intermediate ones are passed over without a trace."""
        home = self.services.home
        try:
            while (stack := home.find_stack(self.uid)) is not None and self.is_due(stack):
                async with self.acceptor.place(stack):
                    latest = home.find_stack(self.uid)
                    if latest is None or latest.deleting != stack.deleting:
                        continue
                    self._looked_at, heard = latest.resource_version, self._heard
                    is_outdated, self.is_outdated = self.is_outdated, False
                    self.look_at_flow(latest)
                    is_evaluated = await self._look_unless_evaluating(latest, is_outdated=is_outdated)
                    if is_evaluated:
                        self._heard_before = heard
                if not is_evaluated:
                    # Outside of the place that others wait for.
                    await self.services.evaluations.wait(self.uid)
        except (Refused, Unreachable) as error:
            logger.warning("cannot accept a definition", stack=self.uid, error=str(error))
            self.is_outdated = True
            self.refusal = Refusal(
                reason="CannotAccept", message=f"cannot store the definition: {error}; it is tried again"
            )
            self._put_off_until(max(RETRY, error.retry_after or 0.0))
        self._is_sound = True
        self.services.inbox.mark(self.uid, STACK)
        return True

    async def give_up(self, message: str, *, delay: float) -> None:
        """Go on with what runs after an internal error; the spec is looked at again after so many seconds, or once it changes."""
        self._is_sound = False
        self._put_off_until(delay)
        stack = self.services.home.find_stack(self.uid)
        if stack is None:
            return
        self.generation = stack.generation
        if stack.deleting:
            # Whether anything is to be kept is not known, so nothing is deleted.
            return
        refusal = self.refusal = Refusal(reason=internal_errors.REASON, message=message)
        with contextlib.suppress(Refused, Unreachable):
            await self._refuse(stack, refusal)

    def _put_off_until(self, delay: float) -> None:
        """Try again what could not be accepted: after so many seconds, or once the Stack changes."""
        self.is_outdated = True
        self._put_off = self._looked_at
        self.services.clock.call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._put_off = None
        self.services.inbox.mark(self.uid, STACK)

    async def _look_unless_evaluating(self, stack: StackObject, *, is_outdated: bool) -> bool:
        """Look at the spec; whether that was possible, or expressions in it are still being evaluated."""
        try:
            await self._look(stack, is_outdated=is_outdated)
        except Unevaluated:
            self.is_outdated = True
            return False
        return True

    async def _look(self, stack: StackObject, *, is_outdated: bool) -> None:
        self._follow_sources(stack)
        if stack.deleting:
            self._install(stack, await self.acceptor.get_last_wish(stack), revision=self.revision)
            return
        spec = stack.spec
        read = await self._read(stack, spec)
        hashed = self.acceptor.hash(read, stack) if isinstance(read, Definition) else ""
        known = self.acceptor.load_revisions(stack)
        self.tampered = verified_revisions.explain_all(known.tampered)
        revisions = known.verified
        try:
            aim = self.wishes.choose(hashed, self.flow.to_revision, revisions=revisions)
        except ImpossibleOrder as error:
            unverified = known.find_unverified(self.flow.to_revision or 0)
            await self._refuse(stack, refuse_order(error, unverified))
            return
        if aim.revision is not None:
            await self._go_back(stack, aim, aim.revision)
        elif isinstance(read, Refusal):
            await self._refuse(stack, read)
        elif not is_outdated and self._runs(hashed, spec):
            self._keep(stack, aim)
        else:
            await self._go_on(stack, aim, read)
        self._present = next((each.number for each in revisions if each.hash == hashed), None)
        await self.trim()

    def _follow_sources(self, stack: StackObject) -> None:
        """Hear of what the definition is read from, and of nothing that it is no longer read from."""
        self.sources = frozenset() if stack.deleting else revision_builder.find_sources(stack.namespace, stack.spec)
        self.services.home.follow_sources(self.uid, self.sources)

    async def _read(self, stack: StackObject, spec: Object) -> Definition | Refusal:
        """The definition in the spec, or why it cannot be had."""
        if stack.defect:
            message = f"the spec cannot be read: {stack.defect}; what runs is left as it is"
            return Refusal(reason="SpecUnreadable", message=message)
        try:
            return await self.acceptor.get_definition(stack.namespace, spec)
        except InvalidDefinition as error:
            return Refusal(reason="InvalidTemplate", message=describe_mistakes(error))
        except MissingSource as error:
            return Refusal(reason="SourceMissing", message=str(error))

    def _runs(self, hashed: str, spec: Object) -> bool:
        """Whether the definition of that hash is the one that runs, as the spec wants it."""
        adopts = policies.adopts(spec.get("adoptionPolicy"))
        if self.blueprint is None or self.blueprint.adopts != bool(adopts):
            return False
        wish = self.wishes.wish
        is_accepted = self.revision is not None and self.revision.hash == hashed and self.refusal is None
        return is_accepted and wish is not None and wish.motive is Motive.SPEC and not self.is_deleting

    def _keep(self, stack: StackObject, aim: Aim) -> None:
        """Only how to go about it has changed."""
        if self.revision is not None:
            self.wishes.begin(aim, revision=self.revision.number, now=self.services.clock.now())
        self.generation = stack.generation

    async def _go_on(self, stack: StackObject, aim: Aim, definition: Definition) -> None:
        """Want the definition in the spec."""
        self.renewed = ()
        try:
            blueprint = await self.acceptor.compile(definition, stack)
        except InvalidDefinition as error:
            await self._refuse(stack, Refusal(reason="InvalidTemplate", message=describe_mistakes(error)))
            return
        last = max([0, *self.wishes.needed, *([self.revision.number] if self.revision is not None else [])])
        try:
            revision = await self.acceptor.store(stack, definition, blueprint, last=last)
        except TamperedRevision as error:
            await self._refuse(stack, Refusal(reason=TAMPERED, message=str(error)))
            return
        await self._begin(stack, aim, blueprint, revision=revision)

    async def _go_back(self, stack: StackObject, aim: Aim, number: int) -> None:
        """Want an earlier revision, whatever the spec says."""
        await self.services.home.put_finalizer(stack)
        try:
            stored = await self._compile_stored(stack, number)
        except InvalidDefinition as error:
            message = f"cannot go back to revision {number}: {describe_mistakes(error)}"
            await self._refuse(stack, Refusal(reason="CannotRollBack", message=message))
        except (MissingSource, TamperedRevision) as error:
            message = f"cannot go back to revision {number}: {error}"
            reason = TAMPERED if isinstance(error, TamperedRevision) else "CannotRollBack"
            await self._refuse(stack, Refusal(reason=reason, message=message))
        else:
            self.renewed = stored.renewed
            await self._begin(stack, aim, stored.blueprint, revision=stored.revision)

    async def _compile_stored(self, stack: StackObject, number: int) -> Stored:
        """The blueprint of a revision that is kept. Raises MissingSource, TamperedRevision or InvalidDefinition."""
        if number == NOTHING:
            return Stored(blueprint=revision_builder.EMPTY)
        revisions = self.acceptor.load_revisions(stack)
        revision = revisions.find(number)
        if (unverified := revisions.find_unverified(number)) is not None:
            raise TamperedRevision(verified_revisions.explain(unverified))
        if revision is None:
            raise MissingSource("it is not kept any more; name another one, or change the spec")
        definition = await self.acceptor.get_stored(stack, revision)
        blueprint = await self.acceptor.compile(definition, stack)
        return Stored(blueprint=blueprint, revision=revision, renewed=definition.renewed)

    async def _begin(self, stack: StackObject, aim: Aim, blueprint: Blueprint, *, revision: Revision | None) -> None:
        number = revision.number if revision is not None else NOTHING
        wish = self.wishes.begin(aim, revision=number, now=self.services.clock.now())
        self.refusal = None
        for kept in wish.keeps:
            if kept not in self._names and (names := await self._read_names(stack, kept)) is not None:
                self._names[kept] = names
        self._names = {each: names for each, names in self._names.items() if each in wish.keeps}
        self._names[number] = blueprint.resources.keys()
        self._install(stack, blueprint, revision=revision)

    async def _read_names(self, stack: StackObject, number: int) -> Set[str] | None:
        """The resources of a revision that is kept; None where nobody knows any more."""
        if number == NOTHING:
            return frozenset()
        try:
            stored = await self._compile_stored(stack, number)
        except (InvalidDefinition, MissingSource, TamperedRevision):
            return None
        return stored.blueprint.resources.keys()

    async def _refuse(self, stack: StackObject, refusal: Refusal) -> None:
        """Keep what runs; after a restart that is the revision that the wish names."""
        wish = self.wishes.wish
        if self.blueprint is None and wish is not None:
            try:
                stored = await self._compile_stored(stack, wish.revision)
            except (InvalidDefinition, MissingSource, TamperedRevision) as error:
                logger.warning("cannot read what runs", stack=self.uid, error=str(error))
            else:
                self._install(stack, stored.blueprint, revision=stored.revision)
        self.refusal = refusal
        self.generation = stack.generation

    def _install(self, stack: StackObject, blueprint: Blueprint, *, revision: Revision | None) -> None:
        self.blueprint, self.revision = blueprint, revision
        if blueprint.hidden and blueprint.hidden not in self.hidden:
            self.hidden = (*self.hidden, blueprint.hidden)[-HIDDEN_KEPT:]
        self.generation, self.is_deleting = stack.generation, stack.deleting
        self.on_blueprint(stack)

    async def trim(self) -> None:
        """Forget revisions beyond the limit."""
        stack, wish = self.services.home.find_stack(self.uid), self.wishes.wish
        if stack is None or wish is None or len(self.services.home.revisions(self.uid)) <= self.flow.history_limit + 1:
            return
        present = {self._present} if self._present is not None else set()
        needed = self.wishes.needed | present
        await revision_history.trim(stack, self.services, needed=needed, limit=self.flow.history_limit)

    def find_kinds(self) -> frozenset[str]:
        """Every kind that the Stack may have applied."""
        stack = self.services.home.find_stack(self.uid)
        return self.acceptor.load_revisions(stack).kinds if stack is not None else frozenset()

    def find_gates(self) -> Gates:
        """What holds steps because the user wants so: by the live spec, less what was passed under the present wish."""
        wish = self.wishes.wish
        if self.flow.environment.is_empty:
            return active_environment.OPEN
        if wish is None:
            return Gates(rules=self.flow.environment, can_record=False)
        known = (wish.revision,) if wish.is_completed else wish.keeps
        return Gates(
            rules=self.flow.environment,
            revision=wish.revision,
            passages=wish.passages,
            known=frozenset[str]().union(*(self._names.get(number, frozenset()) for number in known)),
        )

    def find_retention(self) -> Retention:
        """What of the obsolete objects the present wish holds back."""
        wish = self.wishes.wish
        if wish is None or self.is_deleting:
            return Retention()
        names: frozenset[str] | None = None
        if not wish.is_completed and all(kept in self._names for kept in wish.keeps):
            names = frozenset[str]().union(*(self._names[kept] for kept in wish.keeps))
        return Retention(names=names, is_waived=wish.is_waived, spares_data=wish.motive is Motive.AUTOMATIC)


def refuse_order(error: ImpossibleOrder, unverified: Revision | None) -> Refusal:
    """Why the user cannot have the revision that he orders. unverified: the one of that number that does not count."""
    if unverified is None:
        return Refusal(reason="RevisionNotFound", message=str(error))
    return Refusal(reason=TAMPERED, message=f"spec.rollback.toRevision: {verified_revisions.explain(unverified)}")


def describe_mistakes(error: InvalidDefinition) -> str:
    """All mistakes in one message, a line each."""
    count = len(error.mistakes)
    head = "the definition has a mistake" if count == 1 else f"the definition has {count} mistakes"
    shown = [f"- {str(mistake)[: limits.MISTAKE_LENGTH]}" for mistake in error.mistakes[: limits.MISTAKES]]
    rest = [f"- and {count - limits.MISTAKES} more, at least"] if count > limits.MISTAKES else []
    return "\n".join([f"{head}; what runs is left as it is:", *shown, *rest])
