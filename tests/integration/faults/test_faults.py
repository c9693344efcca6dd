"""Faults between a running operator and a real API server: nothing is lost or made twice, and the status says what is wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth.credentials import CredentialSource
from hearth.model import names
from support.real import fault_scenario
from support.real.fault_scenario import Site, elapse

CHILDREN = "/configmaps/shop-"
"""Of the writes of children; a status can be written meanwhile."""
REVISIONS = "/controllerrevisions"
"""Of the writes of revisions."""


@pytest.fixture
async def site(source: CredentialSource, tmp_path: Path) -> AsyncIterator[Site]:
    """A fresh namespace, a proxy and an operator."""
    async with fault_scenario.run_site(source, tmp_path) as made:
        yield made


async def test_watches_that_are_cut_again_and_again(site: Site) -> None:
    """While every object changes."""
    await site.create()
    number = 1
    for _ in range(5):
        number = await site.edit()
        for _ in range(3):
            site.proxy.cut()
            await elapse(0.2)
    await site.until_complete(number)
    await site.finish()


async def test_versions_that_the_server_has_forgotten(site: Site) -> None:
    """Every watch that continues where it was gets 410."""
    await site.create()
    await site.until_complete()
    forgotten = site.proxy.refuse(410, where="resourceVersion=", times=30)
    site.proxy.cut()
    number = await site.edit()
    await site.until_complete(number)
    assert forgotten.given > 0
    await site.finish()


async def test_answers_that_are_lost(site: Site) -> None:
    """The writes took effect."""
    site.proxy.losses = 10
    await site.create()
    await site.until_complete()
    site.proxy.losses = 10
    await site.until_complete(await site.edit())
    assert site.proxy.losses == 0
    await site.finish()


async def test_a_revision_whose_creation_is_not_known(site: Site) -> None:
    """It was stored, and a definition that fails follows before any answer or event says so: no two share a number."""
    await site.create(1)
    await site.user.patch(site.stack, {"spec": {"rollback": {"onFailure": True}, "retry": {"limit": 1}}})
    await site.until_complete()
    site.proxy.filter = hide_revisions
    site.proxy.losses, site.proxy.losses_where = 1, REVISIONS
    await site.edit()
    await site.proxy.pulse.until(lambda: not site.proxy.losses)
    away = site.proxy.refuse(503, where=REVISIONS)
    refused = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"no key": ""}}
    await site.user.patch(site.stack, {"spec": {"template": {"resources": {"r0": {"manifest": refused}}}}})
    await site.until_said("by the test")
    away.lift()
    await site.until_phase("RollbackComplete")
    stored = await site.find_revisions()
    assert sorted(raw["revision"] for raw in stored) == [1, 2, 3]
    site.proxy.filter = None
    site.proxy.cut()
    await site.finish()


async def test_a_server_that_asks_for_patience(site: Site) -> None:
    """429 with Retry-After: no write is repeated sooner, nor those that have not asked yet, and the status says so."""
    busy = site.proxy.refuse(429, where=CHILDREN, retry_after=3)
    await site.create(40)
    await site.until_said("too many requests")
    await elapse(2.0)
    times: dict[str, list[float]] = {}
    for target, moment in zip(site.proxy.targets, site.proxy.moments, strict=True):
        if CHILDREN in target:
            times.setdefault(target.partition("?")[0], []).append(moment)
    assert all(later - sooner >= 3.0 for moments in times.values() for sooner, later in itertools.pairwise(moments))
    first = min(min(moments) for moments in times.values())
    assert not [moment for moments in times.values() for moment in moments if first + 1.0 < moment < first + 2.9]
    busy.lift()
    await site.until_complete()
    await site.finish()


@pytest.mark.parametrize("code", [500, 503])
async def test_a_server_that_fails_at_writes(site: Site, code: int) -> None:
    """The status says so while it lasts."""
    broken = site.proxy.refuse(code, where=CHILDREN)
    await site.create()
    await site.until_said("cannot apply", "by the test")
    await elapse(2.0)
    broken.lift()
    await site.until_complete()
    await site.finish()


@pytest.mark.parametrize("seconds", [5.0, pytest.param(120.0, marks=pytest.mark.soak)])
async def test_a_server_that_is_away(site: Site, seconds: float) -> None:
    """503 to everything, in the middle of an update."""
    await site.create()
    await site.until_complete()
    number = await site.edit()
    away = site.proxy.refuse(503)
    site.proxy.cut()
    await elapse(seconds)
    away.lift()
    await site.until_complete(number)
    await site.finish()


async def test_a_server_that_is_slow(site: Site) -> None:
    """A second for every answer."""
    site.proxy.delay = 1.0
    await site.create(10)
    await site.until_complete()
    site.proxy.delay = 0.0
    await site.finish()


@pytest.mark.parametrize("times", [10, pytest.param(400, marks=pytest.mark.soak)])
async def test_memory_stays_flat(site: Site, times: int) -> None:
    """However often the server goes away and comes back."""
    await site.create(50)
    await site.until_complete()

    async def suffer(often: int) -> None:
        number = 1
        for _ in range(often):
            number = await site.edit()
            away = site.proxy.refuse(503)
            site.proxy.cut()
            await asyncio.sleep(0.2)
            away.lift()
            await asyncio.sleep(0.1)
        await site.until_complete(number)

    # What is made once and kept (code, pools, tables) is no leak.
    await suffer(10)
    before = site.operator.read_memory()
    await suffer(times)
    grown = site.operator.read_memory() - before
    print(f"grew by {grown:.1f} MiB from {before:.1f} MiB")
    assert grown < 10, f"grew by {grown:.1f} MiB from {before:.1f} MiB"
    await site.finish()


def hide_revisions(line: bytes) -> bytes | None:
    """The line of a watch, unless it is about a revision: of these its metadata are watched."""
    is_revision = line.startswith(b'{"type":') and f'"{names.ANNOTATION_REVISION}":'.encode() in line
    return None if is_revision else line
