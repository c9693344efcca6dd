"""The soak's samples: given amounts from a given seed."""

from __future__ import annotations

import sys

import pytest

from support import soak

pytest_plugins = ["pytester"]

SAMPLING = """
    import hypothesis, pytest
    from hypothesis import settings, strategies
    from support import soak

    @pytest.mark.soak
    @hypothesis.given(strategies.integers())
    @settings(database=None, max_examples=20)
    def test_drawn(number):
        with open("drawn", "a") as file:
            file.write(f"{number} ")
"""


def draw(pytester: pytest.Pytester, seed: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The samples that a soak run draws with that seed."""
    monkeypatch.setenv(soak.SEED, seed)
    drawn = pytester.path / "drawn"
    drawn.unlink(missing_ok=True)
    result = pytester.runpytest_subprocess("-p", "support.soak", "-p", "no:cacheprovider", "-m", "soak")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"soak: some of the samples*{soak.SEED}={seed} *"])
    return drawn.read_text()


@pytest.mark.parametrize("is_in_ci", [False, True])
def test_the_seed_that_a_run_names_draws_its_samples_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, is_in_ci: bool
) -> None:
    if is_in_ci:
        monkeypatch.setenv("CI", "true")
    monkeypatch.delenv(soak.FULL, raising=False)
    pytester.makepyfile(SAMPLING)
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    first = draw(pytester, "1", monkeypatch)
    assert draw(pytester, "1", monkeypatch) == first
    assert draw(pytester, "2", monkeypatch) != first


def test_the_amount_is_the_usual_one_the_full_one_or_the_stated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(soak.FULL, raising=False)
    monkeypatch.delenv("HEARTH_SOAK_EXAMPLES", raising=False)
    assert soak.amount(4, full=50, variable="HEARTH_SOAK_EXAMPLES") == 4
    monkeypatch.setenv(soak.FULL, "1")
    assert soak.amount(4, full=50, variable="HEARTH_SOAK_EXAMPLES") == 50
    monkeypatch.setenv("HEARTH_SOAK_EXAMPLES", "7")
    assert soak.amount(4, full=50, variable="HEARTH_SOAK_EXAMPLES") == 7


@pytest.mark.parametrize(
    ("done", "total", "expected"), [(0, 9, ""), (3, 9, ": 3 of 9"), (3, 0, ": 3"), (10, 9, ": 10")]
)
def test_progress_is_a_count(done: int, total: int, expected: str) -> None:
    progress = soak.Progress()
    progress.start(total)
    progress.advance(done)
    assert progress.describe() == expected


def test_a_failure_is_printed_before_the_next_test_starts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.soak
        def test_first():
            assert 1 == 2, "the reason"

        @pytest.mark.soak
        def test_second():
            os._exit(3)
        """
    )
    result = pytester.runpytest_subprocess("-p", "support.soak", "-p", "no:cacheprovider", "-m", "soak")
    result.stderr.fnmatch_lines(["*::test_first failed:", "*the reason*"])
