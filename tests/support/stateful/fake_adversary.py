"""An adversary of all children in a fake world, which also acts inside the server."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.stateful.adversaries import BETWEEN_ACTS, DEEDS, FINALIZER, MANAGER, Adversary, Victim
from support.stories.world import Address

WITHIN = ("collect", "mutate", "deny", "late")
"""Actions inside the server, or on the way to it."""


class FakeAdversary:
    """The same on all children in a fake world, plus actions inside the server: `collect`, `mutate`, `deny`, `late`."""

    def __init__(
        self,
        world: FakeWorld,
        deeds: Collection[str],
        *,
        chance: random.Random | None = None,
        kinds: Collection[str] = ("ConfigMap", "Probe"),
        name: str = "",
        key: str = "value",
    ) -> None:
        """kinds: the kinds of attacked children; name: of the only attacked child; key: as `Victim.key`."""
        self._world, self._kinds, self._chance, self._name = world, kinds, chance, name
        self._flags = frozenset(deeds) - frozenset(DEEDS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._adversary = Adversary(
            world.user,
            [each for each in deeds if each in DEEDS],
            find_children=self._find_children,
            chance=chance,
            key=key,
        )

    def start(self) -> None:
        """Start. Only operators that start later get late responses."""
        if self._flags & {"collect", "mutate"}:
            self._world.server.watchers.append(self._on_change)
        if "late" in self._flags:
            chance = self._chance or random.Random(1)
            self._world.find_latency = lambda: chance.choice((0.01, 0.3, 2.0))
        if "deny" in self._flags:
            self._spawn(self._deny())
        self._adversary.start()

    async def stop(self) -> None:
        """Stop; everything it denied is allowed again."""
        await self._adversary.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(ValueError):
            self._world.server.watchers.remove(self._on_change)
        self._world.traffic.troubles.clear()
        for raw in await self._find_children():
            finalizers = raw["metadata"].get("finalizers", ())
            if FINALIZER in finalizers:
                kept = [each for each in finalizers if each != FINALIZER]
                await self._world.user.patch(Address.of(raw), {"metadata": {"finalizers": kept or None}})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # Use a separate context, because it outlives the operator whose request starts it.
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _find_children(self) -> Sequence[Object]:
        return [raw for _, raw in self._world.server.everything() if self._is_prey(raw)]

    def _is_prey(self, raw: Object) -> bool:
        if raw["kind"] not in self._kinds or self._name not in ("", raw["metadata"]["name"]):
            return False
        return names.LABEL_RESOURCE in (raw["metadata"].get("labels") or {})

    async def _deny(self) -> None:
        """Deny the right to apply, and grant it a moment later; the operator is notified that rights changed."""
        kind = fake_kinds.ROLE_BINDING.kind
        denial = request_faults.Trouble(refusal=request_faults.REFUSALS["denied"], verbs=frozenset({"apply"}))
        for tick in itertools.count(1):
            self._world.traffic.troubles[:] = [denial] if tick % 2 else []
            manifest = {"apiVersion": kind.api_version, "kind": kind.name, "roleRef": {"name": str(tick)}}
            self._world.server.create(
                {**manifest, "metadata": {"name": f"adversary-{id(self)}-{tick}", "namespace": self._world.namespace}},
                manager=MANAGER,
            )
            await asyncio.sleep(BETWEEN_ACTS)

    def _on_change(self, _kind: Kind, _before: Object | None, after: Object | None) -> None:
        """Act at once, as the garbage collector and a mutating webhook do."""
        if after is not None and self._is_prey(after) and self._world.traffic.acting is not None:
            self._spawn(self._answer(Victim(user=self._world.user, raw=after, tick=1)))

    async def _answer(self, victim: Victim) -> None:
        with contextlib.suppress(errors.ApiStatusError):
            if "collect" in self._flags:
                await victim.delete()
            if "mutate" in self._flags:
                await victim.patch({"metadata": {"annotations": {names.ANNOTATION_HASH: "mutated"}}})
