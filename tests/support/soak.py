"""The amount of samples and the seed of `make soak`, and its progress.

A pytest plugin. It does nothing unless `-m` selects the marker.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings

MARK = "soak"
SEED = "HEARTH_SOAK_SEED"
"""The environment variable with the random seed. The same seed draws the same samples."""
FULL = "HEARTH_SOAK_FULL"
"""If this environment variable is set, tests draw all samples, which takes some three hours."""
INTERVAL = 60.0
"""Seconds between two lines of progress."""
LINES = 40
"""Number of last lines of a failure that are printed at once."""
STDERR = 2


class Progress:
    """Samples that the running test has begun."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0

    def start(self, total: int = 0) -> None:
        """Begin to count. total: 0 for unknown."""
        self.done, self.total = 0, total

    def advance(self, by: int = 1) -> None:
        """Count more samples."""
        self.done += by

    def describe(self) -> str:
        """Return the progress of the test; "" if it counts nothing."""
        if not self.done:
            return ""
        return f": {self.done} of {self.total}" if self.done <= self.total else f": {self.done}"


PROGRESS = Progress()


def amount(usual: int, *, full: int, variable: str = "") -> int:
    """Return the number of samples: `full` if `HEARTH_SOAK_FULL` is set, otherwise `usual`; the variable overrides
    both.
    """
    if stated := os.environ.get(variable):
        return int(stated)
    return full if os.environ.get(FULL) else usual


def seed() -> int:
    """Return the seed of this run, which it prints at the start."""
    return int(os.environ.setdefault(SEED, str(random.SystemRandom().randrange(2**32))))


def is_asked_for(config: pytest.Config) -> bool:
    """Return whether `-m` names the marker."""
    words: str = config.option.markexpr
    return MARK in words.split() and f"not {MARK}" not in words


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Seed Hypothesis before its own plugin reads the option. Worker processes inherit the variable."""
    if not is_asked_for(config):
        return
    # If an environment variable names a CI system, Hypothesis ignores the seed.
    settings.register_profile(MARK, derandomize=False)
    settings.load_profile(MARK)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed())


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the seed and the amount."""
    if not is_asked_for(config):
        return None
    how_much = "all samples" if os.environ.get(FULL) else f"some of the samples ({FULL}=1: all)"
    return f"soak: {how_much}; {SEED}={seed()} draws the same ones again"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Print a line each minute while a soak test runs."""
    if item.get_closest_marker(MARK) is None:
        return (yield)
    PROGRESS.start()
    ended = threading.Event()
    reporter = threading.Thread(target=report, args=(item, ended), daemon=True)
    reporter.start()
    try:
        return (yield)
    finally:
        ended.set()
        reporter.join()


def report(item: pytest.Item, ended: threading.Event, *, interval: float = INTERVAL) -> None:
    """Print the progress until the test ends. Uses standard error, because worker processes have no other output."""
    capture = item.config.pluginmanager.getplugin("capturemanager")
    started = time.monotonic()
    while not ended.wait(interval):
        minutes = (time.monotonic() - started) / 60
        with capture.global_and_fixture_disabled():
            os.write(STDERR, f"\n{item.name}: {minutes:.0f} min{PROGRESS.describe()}\n".encode())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once: the summary comes hours later, and not at all if the run is interrupted."""
    # Worker processes send their reports to the process that prints.
    if report.failed and MARK in report.keywords and "PYTEST_XDIST_WORKER" not in os.environ:
        lines = report.longreprtext.splitlines()[-LINES:]
        os.write(STDERR, "\n".join(("", f"{report.nodeid} failed:", *lines, "")).encode())
