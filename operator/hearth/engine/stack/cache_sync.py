"""What one Stack's passes may trust of the caches: which kinds are watched for it, and whether all was looked at since.

Must not know what children mean; asks the cluster for watches and has the Stack looked at again once they are complete.
"""

from __future__ import annotations

import functools
from collections.abc import Set

from hearth.engine.definition import revision_builder
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.stack import denied_kinds
from hearth.engine.work_queue import ALL_RESOURCES, STACK_SELF
from hearth.model.child import Path
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind
from hearth.plan.health import watched_fields
from hearth.plan.health.health_rules import RuleChange
from hearth.template.blueprint import Blueprint

ASK_AGAIN = 2.0
"""Seconds until a question is put again that the server did not answer."""
SYNC_GRACE = 5.0
"""Seconds that the first list of a kind may take before the Stack says that it waits for it."""


class CacheSync:
    """The view that one Stack has of its children."""

    def __init__(self, uid: str, *, services: Services, intake: DefinitionSync) -> None:
        """Nothing is watched before `begin`."""
        self.unsynced: dict[Kind, frozenset[Path]] = {}
        """Kinds whose caches are not complete yet, and what is wanted of their objects."""
        self.denied: dict[Kind, str] = {}
        """Kinds that our account may not watch, in the server's words."""
        self._absent: set[Kind] = set()
        """Of these the ones of which nothing of the Stack can be there."""
        self._asked: set[Kind] = set()
        """Of the denied ones those for which that was found out, or is being."""
        self._wanted: dict[Kind, frozenset[Path]] = {}
        self.needs_full_refresh = False
        """Whether the board has not looked at everything since it was made, or since a cache was complete."""
        self._uid = uid
        self._services = services
        self._intake = intake
        self._blind_until = 0.0

    def start(self, blueprint: Blueprint) -> None:
        """Watch what another blueprint wants; `look` is to follow."""
        self.unsynced = self.find_required_watches(blueprint)
        self._wanted = dict(self.unsynced)
        self.denied.clear()
        self._absent.clear()
        self._asked.clear()

    def refresh(self) -> None:
        """Look at everything, once it is there with all that is wanted of it."""
        self.needs_full_refresh = True
        self._blind_until = self._services.clock.monotonic() + SYNC_GRACE
        self.check_synced()

    def check_synced(self) -> None:
        """Take the kinds out whose caches are complete by now."""
        cluster = self._services.workload_cluster
        absent = {kind: self._wanted[kind] for kind in self._absent}
        for kind, paths in {**self.unsynced, **absent}.items():
            if cluster.follow(kind, paths):
                self.unsynced.pop(kind, None)
                self._absent.discard(kind)
                self.denied.pop(kind, None)
                self.needs_full_refresh = True
            elif denial := cluster.find_denial(kind):
                self.denied[kind] = denial
        self._services.queue.enqueue(self._uid, ALL_RESOURCES)

    def waits_for(self, kind: Kind) -> bool:
        """Whether a complete cache of that kind, or that there can be none, is news."""
        return kind in self.unsynced or kind in self.denied

    @property
    def absent(self) -> Set[Kind]:
        """Kinds of which nothing of the Stack can be there, as our account may neither look at them nor write them."""
        return self._absent

    @property
    def has_questions(self) -> bool:
        """Whether it is to be found out if anything of a denied kind may be there."""
        return self._find_question() is not None

    def _find_question(self) -> Kind | None:
        return next((kind for kind in self.denied if kind in self.unsynced and kind not in self._asked), None)

    async def ask(self) -> None:
        """Find out whether anything may be there of the kinds that may not be watched: where not, nobody waits for them."""
        while (kind := self._find_question()) is not None:
            stack = self._services.management_cluster.find_stack(self._uid)
            if stack is None:
                return
            self._asked.add(kind)
            try:
                may_be = await denied_kinds.may_be_there(kind, stack, services=self._services, intake=self._intake)
            except (ApiStatusError, Unreachable):
                self._services.clock.call_later(ASK_AGAIN, functools.partial(self._forget_question, kind))
                continue
            if not may_be and kind in self.denied:
                self.unsynced.pop(kind, None)
                self._absent.add(kind)
        self._services.queue.enqueue(self._uid, ALL_RESOURCES)

    def _forget_question(self, kind: Kind) -> None:
        self._asked.discard(kind)
        self._services.queue.enqueue(self._uid, STACK_SELF)

    def on_rules_changed(self, blueprint: Blueprint, change: RuleChange) -> None:
        """Some kinds are judged otherwise, for which more may have to be seen of their objects."""
        wanted = self.find_required_watches(blueprint)
        touched = {kind: paths for kind, paths in wanted.items() if change.touches(kind)}
        if touched:
            self.unsynced.update(touched)
            self._wanted.update(touched)
            self.refresh()

    def grace_left(self) -> float:
        """Seconds for which nothing is to be said of the Stack, as a first look at its children is under way."""
        is_blind = self.needs_full_refresh or self.unsynced
        return max(0.0, self._blind_until - self._services.clock.monotonic()) if is_blind else 0.0

    def find_required_watches(self, blueprint: Blueprint) -> dict[Kind, frozenset[Path]]:
        """What is to be watched: all that the blueprint wants, and all that earlier revisions may have left."""
        revision = self._intake.revision
        earlier = self._intake.find_kinds() | (revision.kinds if revision is not None else frozenset())
        rules = self._services.health_rules
        wanted = {
            kind: rules.suspension_paths(kind)
            for kind in revision_builder.find_served_kinds(self._services.workload_cluster, earlier)
        }
        for kind, paths in watched_fields.find_watched_fields(
            blueprint, self._services.workload_cluster.kinds, rules
        ).items():
            wanted[kind] = wanted.get(kind, frozenset()) | paths
        return wanted
