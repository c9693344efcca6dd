"""The state machine: all that users, crashes and time do, in any order."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hearth.model import names
from support import soak
from support.fake_world import crash_injection
from support.stateful import adversaries, hostile_tenant, random_templates
from support.stateful.fake_adversary import WITHIN
from support.stateful.hostile_tenant import Deed
from support.stateful.random_templates import Drafts, Edit
from support.stateful.session_state import Ordered
from support.stateful.stack_session import Session
from support.stateful.tree_session import TreeSession

DELAYS = strategies.sampled_from((None, None, 0.0, 3.0))
MOMENTS = strategies.sampled_from((0.0015, 0.004, 0.01, 0.1, 1.2, 6.0, 20.0))
FAULTS = (*crash_injection.FAULTS, "quota")
SMALL = strategies.integers(0, 7)
ADVERSARIES = strategies.sampled_from((*adversaries.DEEDS, *WITHIN))


class Targets(RuleBasedStateMachine):
    """One Stack, and all that may happen to it."""

    def __init__(self) -> None:
        """Nothing is there yet."""
        super().__init__()
        soak.PROGRESS.advance()
        self.session: Session | None = None

    @initialize(
        delay=DELAYS, first=random_templates.beginnings, on_failure=strategies.booleans(), rests=strategies.booleans()
    )
    def begin(self, *, delay: float | None, first: Drafts, on_failure: bool, rests: bool) -> None:
        """A Stack is created."""
        self.session = self.make_session(delay)
        self.session.create(Ordered(drafts=first, rollback={"onFailure": True} if on_failure else {}))
        if rests:
            self.session.rest()

    def make_session(self, delay: float | None) -> Session:
        """An empty world."""
        return Session(delay=delay)

    @property
    def now(self) -> Session:
        """The session, once it has begun."""
        assert self.session is not None
        return self.session

    @property
    def lives(self) -> bool:
        """Whether there is a Stack that is not being deleted."""
        return self.session is not None and bool(self.session.uid) and not self.session.is_deleting

    def order(self, **changes: Any) -> None:
        """Say something else."""
        self.now.ordered = dataclasses.replace(self.now.ordered, **changes)
        self.now.say()

    # ------------------------------------------------------------ the definition

    def edit_drafts(self, changes: list[Edit]) -> None:
        """Change the template."""
        edited = self.now.ordered.drafts
        for change in changes:
            edited = random_templates.edit(edited, change)
        self.order(drafts=edited, mistake="")

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.changes)
    def edit(self, changes: list[Edit]) -> None:
        """An edit, in the midst of anything that is going on."""
        self.edit_drafts(changes)

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.changes)
    def edit_and_rest(self, changes: list[Edit]) -> None:
        """An edit that is given all the time it needs."""
        self.now.rest()
        self.edit_drafts(changes)
        self.now.rest()

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.changes, seconds=MOMENTS, other=random_templates.changes)
    def edit_twice(self, changes: list[Edit], seconds: float, other: list[Edit]) -> None:
        """An edit, and another one soon."""
        self.edit_drafts(changes)
        self.now.wait(seconds)
        self.edit_drafts(other)

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.changes, seconds=MOMENTS)
    def edit_and_back(self, changes: list[Edit], seconds: float) -> None:
        """An edit that is taken back soon."""
        before = self.now.ordered.drafts
        self.edit_drafts(changes)
        self.now.wait(seconds)
        self.order(drafts=before)

    @precondition(lambda self: self.lives)
    @rule()
    def mistake(self) -> None:
        """A definition that cannot be accepted."""
        self.order(mistake="${ghost.metadata.name}")

    # ------------------------------------------------------------ orders

    @precondition(lambda self: self.lives)
    @rule(number=SMALL)
    def go_back(self, number: int) -> None:
        """`toRevision`, of one that is kept."""
        kept = sorted(self.now.revisions())
        if kept:
            self.order(rollback={**self.now.ordered.rollback, "toRevision": kept[number % len(kept)]})

    @precondition(lambda self: self.lives)
    @rule(stated=strategies.sampled_from((0, 0, 99)))
    def go_back_to_last(self, stated: int) -> None:
        """`toRevision: 0`, or one that never was."""
        self.order(rollback={**self.now.ordered.rollback, "toRevision": stated})

    @precondition(lambda self: self.lives)
    @rule()
    def forget_order(self) -> None:
        """`toRevision` is taken away."""
        self.order(rollback={key: value for key, value in self.now.ordered.rollback.items() if key != "toRevision"})

    @precondition(lambda self: self.lives)
    @rule(is_wanted=strategies.booleans())
    def on_failure(self, is_wanted: bool) -> None:
        """`rollback.onFailure`."""
        self.order(rollback={**self.now.ordered.rollback, "onFailure": is_wanted})

    @precondition(lambda self: self.session is not None and bool(self.session.uid))
    @rule(is_wanted=strategies.booleans())
    def pause(self, is_wanted: bool) -> None:
        if self.now.ordered.is_paused != is_wanted and self.now.find_stack() is not None:
            self.order(is_paused=is_wanted)

    @precondition(lambda self: self.lives)
    @rule(verb=strategies.sampled_from((names.REQUEST_RETRY, names.REQUEST_CLEANUP)))
    def annotate(self, verb: str) -> None:
        self.now.annotate(verb)

    @precondition(lambda self: self.lives)
    @rule(seconds=MOMENTS)
    def delete(self, seconds: float) -> None:
        self.now.delete()
        self.now.wait(seconds)

    @precondition(lambda self: self.session is not None and self.session.is_deleting)
    @rule(first=random_templates.beginnings, on_failure=strategies.booleans())
    def create_again(self, first: Drafts, on_failure: bool) -> None:
        """Create another Stack of the same name after the previous one was deleted."""
        if self.now.ordered.is_paused and self.now.find_stack() is not None:
            self.order(is_paused=False)
        self.now.rest()
        self.now.create(Ordered(drafts=first, rollback={"onFailure": on_failure}))

    # ------------------------------------------------------------ the world

    @rule(number=SMALL, value=SMALL)
    def tamper(self, number: int, value: int) -> None:
        """A user changes a child."""
        self.now.tamper(number, value)

    @rule(number=SMALL)
    def delete_child(self, number: int) -> None:
        self.now.delete_child(number)

    @rule(delay=DELAYS)
    def crash(self, delay: float | None) -> None:
        """The operator dies, and another one starts."""
        self.now.crash(delay)

    @rule(
        writes=strategies.integers(1, 6), how=strategies.sampled_from((*crash_injection.KILLS, *crash_injection.WAYS))
    )
    def disturb(self, writes: int, how: str) -> None:
        """The operator dies at a write to come, or that fails."""
        self.now.disturb(writes, how)

    @rule(word=strategies.sampled_from(FAULTS), times=strategies.integers(1, 3))
    def refuse(self, word: str, times: int) -> None:
        """The next writes of children fail."""
        self.now.refuse(word, times)

    @rule(seconds=MOMENTS)
    def wait(self, seconds: float) -> None:
        """A little time passes."""
        self.now.wait(seconds)

    @rule()
    def rest(self) -> None:
        """All the time that it takes passes."""
        self.now.rest()

    @invariant()
    def always(self) -> None:
        """Nothing happened that must never happen."""
        if self.session is not None:
            self.session.check_always()

    def teardown(self) -> None:
        """At the end of all the Stack is deleted, and nothing is left."""
        if self.session is None:
            return
        try:
            self._end()
        finally:
            self.session.close()

    def _end(self) -> None:
        self.now.rest()
        if self.now.ordered.is_paused and self.now.find_stack() is not None:
            self.order(is_paused=False)
            self.now.rest()
        if self.lives:
            self.now.delete()
        self.now.rest()


class Trees(Targets):
    """A Stack of collections, groups and nested stacks, some of them in another cluster."""

    def make_session(self, delay: float | None) -> Session:
        """As the base class says."""
        return TreeSession(delay=delay)

    @property
    def tree(self) -> TreeSession:
        """The session, once it has begun."""
        assert isinstance(self.session, TreeSession)
        return self.session

    @initialize(
        delay=DELAYS,
        first=random_templates.tree_beginnings,
        on_failure=strategies.booleans(),
        rests=strategies.booleans(),
    )
    def begin(self, *, delay: float | None, first: Drafts, on_failure: bool, rests: bool) -> None:
        """As the base class says."""
        super().begin(delay=delay, first=first, on_failure=on_failure, rests=rests)

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.tree_changes)
    def edit(self, changes: list[Edit]) -> None:
        """As the base class says, with members and levels as well."""
        self.edit_drafts(changes)

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.tree_changes)
    def edit_and_rest(self, changes: list[Edit]) -> None:
        """As the base class says."""
        super().edit_and_rest(changes)

    @precondition(lambda self: self.lives)
    @rule(number=SMALL, replicas=strategies.integers(0, 5), rests=strategies.booleans())
    def scale(self, *, number: int, replicas: int, rests: bool) -> None:
        """An autoscaler writes the size of a group."""
        if rests:
            self.now.rest()
        self.tree.scale(number, replicas)

    @rule(number=SMALL, by_name=strategies.booleans())
    def mark(self, *, number: int, by_name: bool) -> None:
        """A user declares an object unhealthy."""
        self.tree.mark(number, by_name=by_name)

    @precondition(lambda self: self.lives)
    @rule()
    def take_snapshot(self) -> None:
        """A snapshot is taken, or deleted."""
        self.tree.take_snapshot()

    @rule(is_away=strategies.booleans())
    def set_away(self, *, is_away: bool) -> None:
        """Disconnect the other cluster, or reconnect it."""
        self.tree.set_away(is_away=is_away)


class Harassed(Targets):
    """The same Stack, while a client undoes the writes to one of its objects."""

    @precondition(lambda self: self.lives)
    @rule(number=SMALL, deed=ADVERSARIES, seconds=MOMENTS)
    def harass(self, number: int, deed: str, seconds: float) -> None:
        """A client comes upon an object, and continues through all that follows until there is time to rest."""
        self.now.harass(number, deed)
        self.now.wait(seconds)

    @rule(number=SMALL, deed=ADVERSARIES, seconds=strategies.sampled_from((20.0, 60.0)))
    def harass_for_a_while(self, number: int, deed: str, seconds: float) -> None:
        """A client interferes with an object for a while, then stops."""
        self.now.harass(number, deed)
        self.now.wait(seconds)
        self.now.relent()


class HarassedTrees(Harassed, Trees):
    """The same of a tree."""


class Named(Targets):
    """A Stack whose objects have explicit names that move between resources."""

    @initialize(
        delay=DELAYS,
        first=random_templates.named_beginnings,
        on_failure=strategies.booleans(),
        rests=strategies.booleans(),
    )
    def begin(self, *, delay: float | None, first: Drafts, on_failure: bool, rests: bool) -> None:
        """As the base class says."""
        super().begin(delay=delay, first=first, on_failure=on_failure, rests=rests)

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.name_changes)
    def edit(self, changes: list[Edit]) -> None:
        """As the base class says, with names as well."""
        self.edit_drafts(changes)

    @precondition(lambda self: self.lives)
    @rule(changes=random_templates.name_changes)
    def edit_and_rest(self, changes: list[Edit]) -> None:
        """As the base class says."""
        super().edit_and_rest(changes)


class Attacked(Targets):
    """The same Stack next to a hostile tenant, which must not affect it at all."""

    def make_session(self, delay: float | None) -> Session:
        """As the base class says."""
        return Session(delay=delay, is_attacked=True)

    @rule(acts=strategies.lists(hostile_tenant.acts, min_size=3, max_size=12))
    def attack(self, acts: list[Deed]) -> None:
        """The hostile tenant does all this at once."""
        for each in acts:
            self.now.attack(each)

    @rule(acts=strategies.lists(hostile_tenant.acts, min_size=2, max_size=6), seconds=MOMENTS)
    def attack_slowly(self, acts: list[Deed], seconds: float) -> None:
        """One act after the other, each with a moment to be noticed."""
        for each in acts:
            self.now.attack(each)
            self.now.wait(seconds)
