"""Fixtures for all tests; they are implemented in `support/`."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator

# Before anything of Hearth is imported, here and in the processes that tests start.
os.environ["HEARTH_CHECK_FROZEN"] = "1"

import pytest
import structlog
from hypothesis import HealthCheck, settings

pytest_plugins = [
    *("support.real.control_plane_fixtures", "support.soak", "support.unseen_failures"),
    "support.tiers",  # after the hooks that mark tests for the control plane
]

# A busy machine draws slowly, which is no fault of the code: time never decides whether a test passes.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
LONG = ("soak", "ecosystem", "long", "node")
"""Marks of tests that run only where `-m` names them."""
WAITING = 9
"""Test processes of a run on a control plane: more than there are cores, as the tests there wait most of the time."""
TOGETHER = 6
"""Real-server tests that stay together: tests of one module may share an expensive setup."""


@pytest.fixture(autouse=True)
def same_log_configuration() -> Iterator[None]:
    """Restore the configuration of structlog: commands that run in the test process change it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that take minutes, unless `-m` mentions them, and mix waiting tests with computing ones."""
    long = [item for item in items if is_left_out(item, config.option.markexpr)]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not is_left_out(item, config.option.markexpr)]
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items[:] = mix(items)


def is_left_out(item: pytest.Item, asked: str) -> bool:
    """Whether the test is marked as long, and `-m` names none of its marks."""
    marks = [mark for mark in LONG if item.get_closest_marker(mark) is not None]
    return bool(marks) and not any(mark in asked for mark in marks)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Few test processes where tests compute, many where they wait; each takes seconds to collect all tests."""
    cores = os.cpu_count() or 1
    if "not cluster" in config.option.markexpr:
        return cores + 1
    if "ecosystem" in config.option.markexpr:
        return cores + 1
    return 2 * cores + 1 if config.option.markexpr == "not more" else WAITING


def pytest_collection_finish() -> None:
    """Leave modules and test items out of every garbage collection to come: they stay until the end."""
    gc.collect()
    gc.freeze()


def mix(items: list[pytest.Item]) -> list[pytest.Item]:
    """Spread the tests on a real server evenly: while each of them waits, others use the processors.

    The computing tests are shuffled, because otherwise one process would get all the long ones.
    """
    waiting = [item for item in items if item.get_closest_marker("cluster") is not None]
    first: dict[object, int] = {}
    placed = []
    for number, item in enumerate(waiting):
        is_together = item.get_closest_marker("together") is not None
        place = first.setdefault(item.path, number) if is_together else number // TOGETHER * TOGETHER
        placed.append((place / len(waiting), item))
    computing = [item for item in items if item.get_closest_marker("cluster") is None]
    placed += [(zlib.crc32(item.nodeid.encode()) / 2**32, item) for item in computing]
    return [item for _, item in sorted(placed, key=lambda pair: pair[0])]
