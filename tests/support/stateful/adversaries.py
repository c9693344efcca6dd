"""Clients that undo the operator's writes: each checks the children of a Stack ten times a second and acts on them.

The operator's reaction is checked in `stack_session`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hearth.model import errors, names
from hearth.model.child import Object
from support.server.request_faults import Request
from support.stories.world import Address, User

BETWEEN_ACTS = 0.1
"""Seconds between two actions."""
MANAGER = "adversary"
FINALIZER = "adversary.example.com/hold"
OWN_KINDS = frozenset({"Stack", "ResourceGroup", "ControllerRevision", "Event", "Namespace"})
"""Kinds whose requests are not about a child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """The current state of one child."""

    user: User
    raw: Object
    tick: int
    """Number of the action."""
    key: str = "value"
    """The key in the data of a ConfigMap that the template sets."""

    @property
    def is_config(self) -> bool:
        """Whether it is a ConfigMap rather than a Probe."""
        return bool(self.raw["kind"] == "ConfigMap")

    async def patch(self, patch: Object) -> None:
        """Change it, as another client would."""
        await self.user.patch(Address.of(self.raw), patch)

    async def delete(self) -> None:
        await self.user.delete(Address.of(self.raw))

    async def set_value(self, value: int | None) -> None:
        """Set the field that every template of the adversaries' Stacks sets."""
        text = str(value) if value is not None else None
        await self.patch({"data": {self.key: text}} if self.is_config else {"spec": {"value": value}})

    async def tell(self, value: int) -> None:
        """Set a value in the status."""
        if not self.is_config:
            await self.user.patch_status(Address.of(self.raw), {**(self.raw.get("status") or {}), "value": value})

    @property
    def value(self) -> str:
        stated = self.raw.get("data" if self.is_config else "spec") or {}
        return str(stated.get(self.key if self.is_config else "value", ""))


Deed: TypeAlias = Callable[[Victim], Awaitable[None]]


async def delete(victim: Victim) -> None:
    await victim.delete()


async def delete_ready(victim: Victim) -> None:
    """Delete each object as soon as it is ready."""
    if victim.is_config or (victim.raw.get("status") or {}).get("value") is not None:
        await victim.delete()


async def revert(victim: Victim) -> None:
    """Set the same other value whenever it was reverted."""
    if victim.value != "9":
        await victim.set_value(9)


async def change(victim: Victim) -> None:
    """Set another value each time."""
    await victim.set_value(1000 + victim.tick)


async def alternate(victim: Victim) -> None:
    """Edit intact objects, delete objects that are not repaired yet."""
    if victim.value == "9":
        await victim.delete()
    else:
        await victim.set_value(9)


async def prune(victim: Victim) -> None:
    """Remove the field."""
    if victim.value:
        await victim.set_value(None)


async def strip(victim: Victim) -> None:
    """Remove all annotations of the operator, one after the other."""
    kept = [key for key in victim.raw["metadata"].get("annotations") or () if key.startswith(names.GROUP)]
    if kept:
        await victim.patch({"metadata": {"annotations": {kept[victim.tick % len(kept)]: None}}})


async def relabel(victim: Victim) -> None:
    """Remove the label that identifies objects of the operator."""
    await victim.patch({"metadata": {"labels": {names.LABEL_STACK_UID: None}}})


async def lock(victim: Victim) -> None:
    """Change a value, and make the object immutable."""
    if victim.is_config and not victim.raw.get("immutable"):
        await victim.patch({"data": {victim.key: "9"}, "immutable": True})


async def hold(victim: Victim) -> None:
    """Add a finalizer, delete the object, and remove the finalizer a second later."""
    metadata = victim.raw["metadata"]
    if "deletionTimestamp" not in metadata:
        await victim.patch({"metadata": {"finalizers": [*metadata.get("finalizers", ()), FINALIZER]}})
        await victim.delete()
    elif victim.tick % 10 == 0:
        kept = [each for each in metadata.get("finalizers", ()) if each != FINALIZER]
        await victim.patch({"metadata": {"finalizers": kept or None}})


async def flap(victim: Victim) -> None:
    """Alternate between two values in the status, so that all objects made from it change."""
    await victim.tell(50 + victim.tick % 2)


async def count_up(victim: Victim) -> None:
    """Set another value in the status each time."""
    await victim.tell(50 + victim.tick)


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
"""An adversary's action on one object, by name."""


class Adversary:
    """One or more deeds on children, until it is stopped."""

    def __init__(
        self,
        user: User,
        deeds: Sequence[str],
        *,
        find_children: Callable[[], Awaitable[Sequence[Object]]],
        chance: random.Random | None = None,
        key: str = "value",
    ) -> None:
        """deeds: names of `DEEDS`, one for each act, in turn or by chance. key: as `Victim.key`."""
        self._user, self._deeds, self._find_children, self._chance = user, deeds, find_children, chance
        self._key = key
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        for tick in itertools.count(1):
            for raw in await self._find_children() if self._deeds else ():
                turn = self._chance.choice(self._deeds) if self._chance else self._deeds[tick % len(self._deeds)]
                with contextlib.suppress(errors.ApiStatusError):
                    await DEEDS[turn](Victim(user=self._user, raw=raw, tick=tick, key=self._key))
            await asyncio.sleep(BETWEEN_ACTS)


def count_by_object(requests: Sequence[Request]) -> Counter[str]:
    """How many requests concern each child, by its name."""
    found = [each for each in requests if each.kind.name not in OWN_KINDS and each.name]
    return Counter(each.name for each in found)
