"""What a profile reports."""

from __future__ import annotations

import cProfile
from pathlib import Path

from bench.instruments import profiles
from hearth.plan.ownership import keyed_hash


def test_the_slowest_functions_come_first(tmp_path: Path) -> None:
    """In one list all of them, in the other our own with what they call."""
    file = tmp_path / "some.prof"
    profile = cProfile.Profile()
    hasher = keyed_hash.KeyedHasher(b"0123456789abcdef")
    profile.runcall(lambda: [hasher.hash({"a": [1.5, number]}) for number in range(50)])
    profile.dump_stats(file)

    own, ours = profiles.describe(file, shown=2).split("our own functions")
    assert own.count(" calls ") == 2
    assert ours.count(" calls ") == 2
    assert "50 calls  hash  (plan/ownership/keyed_hash.py:" in ours.splitlines()[1]


def test_the_frame_around_everything_tells_nothing() -> None:
    """It would fill the list."""
    ours = Path(profiles.OURS)
    inside, outside = str(ours / "plan" / "stack" / "stack_planner.py"), str(ours / "app.py")

    assert profiles.is_telling((inside, 1, "refresh"))
    assert not profiles.is_telling((outside, 1, "run"))
    assert [each for each in profiles.FRAME if not (ours / each).exists()] == []
    assert not profiles.is_telling(("~", 0, "<built-in>"))
