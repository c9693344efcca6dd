"""The reaction to each way a watch ends."""

from __future__ import annotations

import random

import pytest

from hearth.kube.watch import watch_errors
from hearth.kube.watch.watch_errors import WatchEndReason, WatchFailure
from hearth.model import errors

TOO_LARGE = {"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(errors.ApiStatusError(code=401, status=None), WatchEndReason.UNAUTHORIZED, id="401"),
        pytest.param(errors.ApiStatusError(code=410, status=None), WatchEndReason.EXPIRED, id="410"),
        pytest.param(errors.ApiStatusError(code=418, status=None), WatchEndReason.REFUSED, id="any other code"),
        pytest.param(
            errors.ApiStatusError(code=504, status=TOO_LARGE), WatchEndReason.BACKWARDS, id="a version from the future"
        ),
        pytest.param(errors.Unreachable("reset"), WatchEndReason.UNREACHABLE, id="no answer"),
        pytest.param(TimeoutError(), WatchEndReason.STALLED, id="nothing for too long"),
        pytest.param(KeyError("metadata"), WatchEndReason.UNEXPECTED, id="a bug, ours or theirs"),
    ],
)
def test_each_error_has_its_reason(error: Exception, reason: WatchEndReason) -> None:
    assert watch_errors.classify(error).reason == reason


def test_a_status_tells_how_long_to_wait_where_no_header_did() -> None:
    status = {"details": {"retryAfterSeconds": 2}}
    assert watch_errors.classify(errors.ApiStatusError(code=429, status=status)).retry_after == 2


@pytest.mark.parametrize(
    ("failures", "retry_after", "shortest", "longest"),
    [
        pytest.param(1, None, 0.05, 0.1, id="at first it is quick"),
        pytest.param(4, None, 0.4, 0.8, id="doubling"),
        pytest.param(10_000, None, 15.0, 30.0, id="to a limit, however long it lasts"),
        pytest.param(1, 7.0, 7.0, 7.0, id="as the server asks"),
        pytest.param(1, 86_400.0, 60.0, 60.0, id="but not for a day"),
        pytest.param(10_000, 1.0, 15.0, 30.0, id="never less for its asking"),
    ],
)
def test_pauses_are_drawn_from_a_range(
    failures: int, retry_after: float | None, shortest: float, longest: float
) -> None:
    chance = random.Random(failures)
    interruption = WatchFailure(reason=WatchEndReason.REFUSED, retry_after=retry_after)
    drawn = [watch_errors.find_delay(interruption, failures=failures, uniform=chance.uniform) for _ in range(100)]
    assert shortest <= min(drawn)
    assert max(drawn) <= longest
    assert len(set(drawn)) > 1 or shortest == longest
