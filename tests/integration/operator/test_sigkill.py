"""The operator is killed (SIGKILL) at any of its writes, on a real API server, and restarted: the result is the same,
without duplicates.

Every run of `make test-ecosystem` tries one random write of some stories. `make soak` tries a third of the writes of
all stories, and all writes if `HEARTH_SOAK_FULL` is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client.connection import Connection
from hearth.model import names
from support import soak
from support.change_signal import Pulse
from support.fake_world import crash_injection
from support.real import fault_proxy, operator_process, real_user
from support.real.operator_process import CountingProxy, ProcessWorld
from support.real.real_user import RealUser
from support.server import fake_kinds
from support.stories import probe_controller, story, story_runner
from support.stories.story import Story
from support.stories.world import Address

SAMPLES = 4
"""Stories in every run."""
AT_ONCE = 3
"""Concurrent runs: each starts two processes, and there are few cores."""
EVERY = 3
"""The soak tries one out of this many writes. All writes take more than an hour on two cores."""
SEED = "HEARTH_SIGKILL_SEED"
"""The variable with the seed of a sample, to repeat it."""
STORIES = [
    story.load(story.FOLDER / f"{slug}.yaml")
    for slug in (
        "create-and-delete",
        "C05-update-then-delete",
        "C08-update-interrupts-create",
        "C11-update-add-rollback",
        "C14-update-replace",
        "C15-update-replace-missed-cleanup",
        "C16-update-replace-missed-cleanup-delete",
        "C17-update-replace-rollback",
        "C18-update-replace-invert-deps",
        "F06-update-rollback",
        "F26-stopped-in-the-midst-of-an-update",
        "cleanup-held-back",
        "collection-rollback",
        "collection-nested",
        "group-scaled-while-rolling",
        "group-of-stacks",
        "nested-levels-stopped",
    )
]
"""None of these stories replaces an object. `integration/clusters` has the same for objects in another cluster."""


@pytest.fixture
async def connection(connection: Connection) -> Connection:
    """The user's own connection to the server, bypassing the proxy."""
    await real_user.install_all(RealUser(connection, "default"))
    return connection


@contextlib.asynccontextmanager
async def make_namespace(connection: Connection) -> AsyncIterator[str]:
    """A fresh namespace, deleted at the end."""
    kind = fake_kinds.NAMESPACE.kind
    user = RealUser(connection, "")
    made = await user.create(
        {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"generateName": "sigkill-"}}
    )
    yield str(made["metadata"]["name"])
    await user.delete(Address.of({"apiVersion": kind.api_version, "kind": kind.name, "metadata": made["metadata"]}))


class Witness:
    """Records every object that is created for a resource in a namespace."""

    def __init__(self, user: RealUser) -> None:
        self._user = user
        self.made: dict[str, set[str]] = {}
        """UIDs by Stack, resource and incarnation."""

    async def watch(self) -> None:
        """Record objects until cancelled."""
        kinds = (probe_controller.kind_of(), fake_kinds.CONFIG_MAP.kind)
        await asyncio.gather(*(self._user.follow(kind, self._see) for kind in kinds))

    def _see(self, event: str, raw: dict[str, object]) -> None:
        metadata = raw["metadata"]
        assert isinstance(metadata, dict)
        labels = metadata.get("labels") or {}
        resource = labels.get(names.LABEL_RESOURCE)
        if resource is not None:
            incarnation = (metadata.get("annotations") or {}).get(names.ANNOTATION_INCARNATION, "1")
            place = f"{labels[names.LABEL_STACK_UID]}/{resource}/{incarnation}"
            self.made.setdefault(place, set()).add(metadata["uid"])


async def perform(
    played: Story, connection: Connection, source: CredentialSource, folder: Path, *, write: int, after: bool
) -> bool:
    """Play the story and kill the operator at that write; False if there is no such write."""
    async with contextlib.AsyncExitStack() as parts:
        namespace = await parts.enter_async_context(make_namespace(connection))
        between = await parts.enter_async_context(fault_proxy.run_proxy_of(CountingProxy, source.load(), pulse=Pulse()))
        between.fatal_write, between.is_kill_after = write, after
        user = RealUser(connection, namespace)
        kubeconfig = operator_process.write_kubeconfig(folder / f"{namespace}.json", between.url)
        world = ProcessWorld(user, source, between, kubeconfig)
        world.open()
        parts.push_async_callback(world.close)
        witness = Witness(user)
        watching = asyncio.create_task(witness.watch())
        parts.callback(watching.cancel)
        where = f"killed {'after' if after else 'before'} write {write}"
        try:
            await story_runner.Play(played, world, is_strict=False).perform()
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        assert {place: len(uids) for place, uids in witness.made.items() if len(uids) > 1} == {}, where
        return world.deaths > 0


def count_writes(played: Story) -> int:
    """The writes that a story always has: those in memory, except statuses, whose number depends on time."""
    return sum(verb != "status" for verb in crash_injection.perform(played).writes)


@pytest.mark.long
@pytest.mark.parametrize("sample", range(SAMPLES))
async def test_killed_at_some_write(
    sample: int, connection: Connection, source: CredentialSource, tmp_path: Path
) -> None:
    """Before the write reaches the server, or after it took effect and before the response: another write in
    each run.
    """
    seed = os.environ.get(SEED) or str(random.SystemRandom().randrange(1_000_000))
    print(f"{SEED}={seed}")
    chance = random.Random(f"{seed}/{sample}")
    played = chance.choice(STORIES[sample::SAMPLES])
    write = chance.randint(1, await asyncio.to_thread(count_writes, played))

    assert await perform(played, connection, source, tmp_path, write=write, after=chance.random() < 1 / 2)


@pytest.mark.soak
@pytest.mark.parametrize("after", [pytest.param(False, id="before"), pytest.param(True, id="after")])
@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
async def test_killed_at_every_write(
    played: Story, after: bool, connection: Connection, source: CredentialSource, tmp_path: Path
) -> None:
    """Every write, or every third one from a random start: before it reaches the server, or after it took effect."""
    every = soak.amount(EVERY, full=1)
    start = random.Random(f"{soak.seed()}/{played.slug}/{after}").randint(1, every)
    expected = range(start, await asyncio.to_thread(count_writes, played) + 1, every)
    soak.PROGRESS.start(len(expected))
    killed = 0
    for first in itertools.count(start, every * AT_ONCE):
        outcomes = await asyncio.gather(
            *(
                perform(played, connection, source, tmp_path, write=write, after=after)
                for write in range(first, first + every * AT_ONCE, every)
            )
        )
        killed += sum(outcomes)
        soak.PROGRESS.advance(sum(outcomes))
        if not all(outcomes):
            break

    assert killed >= len(expected)
