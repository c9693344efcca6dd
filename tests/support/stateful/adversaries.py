"""Clients that undo what the operator writes: each looks at the children of a Stack ten times a second and does its one deed.

Must not know what the operator does about it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.server.fake_server import FakeServer
from support.server.request_faults import Request

BETWEEN_ACTS = 0.1
"""Seconds."""
MANAGER = "adversary"
FINALIZER = "adversary.example.com/hold"
FREE, PER_DOUBLING, STEADY, REQUESTS_PER_STEP = 20, 6, 30.0, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One child as it is now."""

    server: FakeServer
    kind: Kind
    raw: Object
    tick: int
    """Counts the acts."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.raw["metadata"]["name"])

    def patch(self, patch: Object) -> None:
        """Change it, as another client would."""
        self.server.patch(self.kind, self.raw["metadata"].get("namespace", ""), self.name, patch, manager=MANAGER)

    def delete(self) -> None:
        """Delete it."""
        self.server.delete(self.kind, self.raw["metadata"].get("namespace", ""), self.name)

    def set_value(self, value: int) -> None:
        """Set the field that every template of the adversaries' Stacks sets."""
        self.patch({"data": {"value": str(value)}} if self.kind.name == "ConfigMap" else {"spec": {"value": value}})

    @property
    def value(self) -> str:
        """What that field is."""
        return str((self.raw.get("data") or self.raw.get("spec") or {}).get("value", ""))


Deed: TypeAlias = Callable[[Victim], None]


def delete(victim: Victim) -> None:
    """Delete whatever is there."""
    victim.delete()


def delete_ready(victim: Victim) -> None:
    """Delete each object as soon as it is ready."""
    if victim.kind.name == "ConfigMap" or (victim.raw.get("status") or {}).get("value") is not None:
        victim.delete()


def revert(victim: Victim) -> None:
    """Set the same other value, whenever it was set back."""
    if victim.value != "9":
        victim.set_value(9)


def change(victim: Victim) -> None:
    """Set another value each time."""
    victim.set_value(1000 + victim.tick)


def alternate(victim: Victim) -> None:
    """Edit what is as wanted, delete what is not repaired yet."""
    if victim.value == "9":
        victim.delete()
    else:
        victim.set_value(9)


def prune(victim: Victim) -> None:
    """Take the field away."""
    if victim.value:
        victim.patch({"data": {"value": None}} if victim.kind.name == "ConfigMap" else {"spec": {"value": None}})


def strip(victim: Victim) -> None:
    """Take all annotations of the operator away, one after the other."""
    kept = [key for key in victim.raw["metadata"].get("annotations") or () if key.startswith(names.GROUP)]
    if kept:
        victim.patch({"metadata": {"annotations": {kept[victim.tick % len(kept)]: None}}})


def relabel(victim: Victim) -> None:
    """Take the label away by which the operator knows its objects."""
    victim.patch({"metadata": {"labels": {names.LABEL_STACK_UID: None}}})


def lock(victim: Victim) -> None:
    """Change a value, and make the object immutable."""
    if victim.kind.name == "ConfigMap" and not victim.raw.get("immutable"):
        victim.patch({"data": {"value": "9"}, "immutable": True})


def hold(victim: Victim) -> None:
    """Add a finalizer, delete, and let the object go a second later."""
    metadata = victim.raw["metadata"]
    if "deletionTimestamp" not in metadata:
        victim.patch({"metadata": {"finalizers": [*metadata.get("finalizers", ()), FINALIZER]}})
        victim.delete()
    elif victim.tick % 10 == 0:
        kept = [each for each in metadata.get("finalizers", ()) if each != FINALIZER]
        victim.patch({"metadata": {"finalizers": kept or None}})


def flap(victim: Victim) -> None:
    """Let the status tell one of two values, so that whatever is made from it changes."""
    if victim.kind.name == "Probe":
        status = {**(victim.raw.get("status") or {}), "value": 50 + victim.tick % 2}
        victim.server.patch_status(victim.kind, "default", victim.name, status, manager=MANAGER)


def count_up(victim: Victim) -> None:
    """Let the status tell another value each time."""
    if victim.kind.name == "Probe":
        status = {**(victim.raw.get("status") or {}), "value": 50 + victim.tick}
        victim.server.patch_status(victim.kind, "default", victim.name, status, manager=MANAGER)


DEEDS: Mapping[str, Deed] = {
    "delete": delete,
    "delete-ready": delete_ready,
    "revert": revert,
    "change": change,
    "alternate": alternate,
    "prune": prune,
    "strip": strip,
    "relabel": relabel,
    "lock": lock,
    "hold": hold,
    "flap": flap,
    "count-up": count_up,
}
"""What an adversary does to one object, by name."""


class Adversary:
    """One or more deeds on the children of all Stacks of the world, until it is stopped."""

    def __init__(
        self,
        world: FakeWorld,
        deeds: Sequence[str],
        *,
        chance: random.Random | None = None,
        spares: Callable[[Object], bool] = lambda _raw: False,
    ) -> None:
        """deeds: names of `DEEDS`, `collect`, `mutate`, `deny`, `late`; one per act, in turn, or by chance."""
        self._world, self._chance, self._spares = world, chance, spares
        self._deeds = [each for each in deeds if each in DEEDS]
        self._flags = frozenset(deeds) - frozenset(DEEDS)
        self._ticks = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        if self._flags & {"collect", "mutate"}:
            self._world.server.watchers.append(self._on_change)
        if "late" in self._flags:
            chance = self._chance or random.Random(1)
            self._world.find_latency = lambda: chance.choice((0.01, 0.3, 2.0))
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End; what it denied is allowed again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(ValueError):
            self._world.server.watchers.remove(self._on_change)
        self._world.traffic.troubles.clear()

    async def _run(self) -> None:
        while True:
            tick = next(self._ticks)
            if "deny" in self._flags:
                self._deny(tick)
            for kind, raw in self._find_children():
                if not self._deeds:
                    continue
                turn = self._chance.choice(self._deeds) if self._chance else self._deeds[tick % len(self._deeds)]
                with contextlib.suppress(errors.ApiStatusError):
                    DEEDS[turn](Victim(server=self._world.server, kind=kind, raw=raw, tick=tick))
            await asyncio.sleep(BETWEEN_ACTS)

    def _find_children(self) -> Iterator[tuple[Kind, Object]]:
        for kind, raw in list(self._world.server.everything()):
            if names.LABEL_RESOURCE in (raw["metadata"].get("labels") or {}) and self._is_prey(kind, raw):
                yield kind, raw

    def _is_prey(self, kind: Kind, raw: Object) -> bool:
        return kind != fake_kinds.CONTROLLER_REVISION.kind and not self._spares(raw)

    def _deny(self, tick: int) -> None:
        """Let a policy reject every write of a child, and take it back a moment later; the operator is told of both."""
        troubles = self._world.traffic.troubles
        if troubles:
            troubles.clear()
        else:
            troubles.append(
                request_faults.Trouble(refusal=request_faults.REFUSALS["policy"], verbs=frozenset({"apply"}))
            )
        kind = fake_kinds.ROLE_BINDING.kind
        manifest = {"apiVersion": kind.api_version, "kind": kind.name, "roleRef": {"name": str(tick)}}
        with contextlib.suppress(errors.ApiStatusError):
            self._world.server.create(
                {**manifest, "metadata": {"name": f"x{tick}", "namespace": "default"}}, manager=MANAGER
            )

    def _on_change(self, kind: Kind, _before: Object | None, after: Object | None) -> None:
        """Act at once, as the garbage collector and a mutating webhook do."""
        if after is None or names.LABEL_RESOURCE not in (after["metadata"].get("labels") or {}):
            return
        if not self._is_prey(kind, after) or self._world.traffic.acting is None:
            return
        victim = Victim(server=self._world.server, kind=kind, raw=after, tick=next(self._ticks))
        asyncio.get_running_loop().call_soon(self._answer, victim)

    def _answer(self, victim: Victim) -> None:
        with contextlib.suppress(errors.ApiStatusError):
            if "collect" in self._flags:
                victim.delete()
            if "mutate" in self._flags:
                victim.patch({"metadata": {"annotations": {names.ANNOTATION_HASH: "mutated"}}})


def count_by_object(requests: Sequence[Request]) -> Counter[str]:
    """How many requests concern each child, of every kind."""
    own = {"Stack", "ResourceGroup", "ControllerRevision", "Event", "Namespace"}
    return Counter(each.resource or each.name for each in requests if each.name and each.kind.name not in own)
