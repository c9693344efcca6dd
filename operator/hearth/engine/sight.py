"""What one Stack's passes may trust of the caches: which kinds are watched for it, and whether all was looked at since.

Must not know what children mean; asks the cluster for watches and has the Stack looked at again once they are complete.
"""

from __future__ import annotations

from hearth.engine import acceptance
from hearth.engine.inbox import EVERYTHING
from hearth.engine.intake import Intake
from hearth.engine.services import Services
from hearth.model.child import Path
from hearth.model.kinds import Kind
from hearth.plan import watching
from hearth.plan.health import Change
from hearth.template.blueprint import Blueprint

FIRST_LOOK = 5.0
"""Seconds that the first list of a kind may take before the Stack says that it waits for it."""


class Sight:
    """The view that one Stack has of its children."""

    def __init__(self, uid: str, *, services: Services, intake: Intake) -> None:
        """Nothing is watched before `begin`."""
        self.unwatched: dict[Kind, frozenset[Path]] = {}
        """Kinds whose caches are not complete yet, and what is wanted of their objects."""
        self.is_fresh = False
        """Whether the board has not looked at everything since it was made, or since a cache was complete."""
        self._uid = uid
        self._services = services
        self._intake = intake
        self._blind_until = 0.0

    def begin(self, blueprint: Blueprint) -> None:
        """Watch what another blueprint wants; `look` is to follow."""
        self.unwatched = self.find_wanted(blueprint)

    def look(self) -> None:
        """Look at everything, once it is there with all that is wanted of it."""
        self.is_fresh = True
        self._blind_until = self._services.clock.monotonic() + FIRST_LOOK
        self.look_at_watches()

    def look_at_watches(self) -> None:
        """Take the kinds out whose caches are complete by now."""
        for kind, paths in list(self.unwatched.items()):
            if self._services.cluster.follow(kind, paths):
                del self.unwatched[kind]
                self.is_fresh = True
        self._services.inbox.mark(self._uid, EVERYTHING)

    def judge_anew(self, blueprint: Blueprint, change: Change) -> None:
        """Some kinds are judged otherwise, for which more may have to be seen of their objects."""
        wanted = self.find_wanted(blueprint)
        touched = {kind: paths for kind, paths in wanted.items() if change.touches(kind)}
        if touched:
            self.unwatched.update(touched)
            self.look()

    def blind_for(self) -> float:
        """Seconds for which nothing is to be said of the Stack, as a first look at its children is under way."""
        is_blind = self.is_fresh or self.unwatched
        return max(0.0, self._blind_until - self._services.clock.monotonic()) if is_blind else 0.0

    def find_wanted(self, blueprint: Blueprint) -> dict[Kind, frozenset[Path]]:
        """What is to be watched: all that the blueprint wants, and all that earlier revisions may have left."""
        revision = self._intake.revision
        earlier = self._intake.find_kinds() | (revision.kinds if revision is not None else frozenset())
        rules = self._services.rules
        wanted = {kind: rules.suspension_paths(kind) for kind in acceptance.served(self._services.cluster, earlier)}
        for kind, paths in watching.find_paths(blueprint, self._services.cluster.kinds, rules).items():
            wanted[kind] = wanted.get(kind, frozenset()) | paths
        return wanted
