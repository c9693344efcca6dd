"""The one formula of all backoffs."""

from __future__ import annotations

import pytest

from hearth.model import growing_delay


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (100_000, 10.0)],
)
def test_a_delay_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    """Also after more failures than a power may have."""
    assert growing_delay.find(failures, first=2.0, longest=10.0) == seconds
