"""Windows: when they are open, when they open next, also where the clocks change, and which are wrong."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.model import windows
from hearth.model.windows import Window

BERLIN = "Europe/Berlin"
ZONES = ("UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo")
CHANGES = ("2026-03-28", "2026-10-24", "2026-03-07", "2026-04-04", "2011-12-28", "2017-10-13")
"""Days shortly before clocks change in one of the zones, or a day is left out."""
MINUTE = 60.0


def at(text: str, zone: str = "UTC", *, fold: int = 0) -> float:
    """That local time in seconds since the epoch. fold: 1 for the second of two equal times."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("stated", "now", "opening"),
    [
        pytest.param({"from": "08:00", "to": "16:00"}, at("2026-11-29T09:00"), at("2026-11-29T09:00"), id="open"),
        pytest.param({"from": "08:00", "to": "16:00"}, at("2026-11-29T17:00"), at("2026-11-30T08:00"), id="tomorrow"),
        pytest.param({"days": ["Mon-Tue"]}, at("2026-11-29T17:00"), at("2026-11-30T00:00"), id="another day"),
        pytest.param(
            {"days": ["Fri"], "from": "22:00", "to": "02:00"},
            at("2026-12-05T02:00"),
            at("2026-12-11T22:00"),
            id="in a week, since its end beyond midnight has passed",
        ),
        pytest.param(
            {"days": ["Mon"], "from": "24:00", "to": "06:00"},
            at("2026-11-30T12:00"),
            at("2026-12-01T00:00"),
            id="begins at 24:00, which is the next day",
        ),
        pytest.param(
            {"from": "02:30", "to": "04:00", "zone": BERLIN},
            at("2026-03-29T01:00", BERLIN),
            at("2026-03-29T03:00", BERLIN),
            id="the clocks skip its begin",
        ),
        pytest.param(
            {"days": ["Sun"], "from": "02:10", "to": "02:20", "zone": BERLIN},
            at("2026-03-29T01:00", BERLIN),
            at("2026-04-05T02:10", BERLIN),
            id="the clocks skip all of it",
        ),
        pytest.param(
            {"from": "02:30", "to": "04:00", "zone": BERLIN},
            at("2026-10-25T02:10", BERLIN, fold=1),
            at("2026-10-25T02:30", BERLIN, fold=1),
            id="its begin comes twice",
        ),
    ],
)
def test_the_next_opening(stated: Mapping[str, object], now: float, opening: float) -> None:
    assert windows.parse(stated).find_opening(now) == opening


@settings(max_examples=60, deadline=None)
@given(
    days=st.frozensets(st.integers(0, 6), min_size=1),
    begin=st.sampled_from([0, 90, 150, 1439, 1440]),
    end=st.sampled_from([1, 155, 180, 1440]),
    zone=st.sampled_from(ZONES),
    day=st.sampled_from(CHANGES),
    minute=st.integers(0, 2_000),
)
def test_the_next_opening_is_the_first_minute_when_it_is_open(
    days: frozenset[int], begin: int, end: int, zone: str, day: str, minute: int
) -> None:
    window, now = Window(days=days, begin=begin, end=end, zone=zone), at(day) + minute * MINUTE

    opening = window.find_opening(now)

    assert window.is_open(opening)
    closed_until = now
    while not window.is_open(closed_until):
        closed_until += MINUTE
    assert opening == closed_until


@pytest.mark.parametrize(
    ("stated", "mistakes"),
    [
        pytest.param({}, [], id="always open"),
        pytest.param({"from": "24:00", "to": "24:00"}, [], id="the whole next day"),
        pytest.param(
            {"zone": "Europe/Atlantis"},
            ["w.zone: is 'Europe/Atlantis', which is not a time zone; write e.g. Europe/Berlin"],
            id="no such zone",
        ),
        pytest.param(
            {"from": "24:00", "to": "00:00"},
            ["w: never opens, because it begins and ends at midnight; set from or to"],
            id="never open",
        ),
    ],
)
def test_mistakes_are_named(stated: Mapping[str, object], mistakes: list[str]) -> None:
    assert list(map(str, windows.find_mistakes(stated, path="w"))) == mistakes


@pytest.mark.parametrize(
    "zone",
    ["", "/etc/passwd", "../../etc/passwd", "America", "zone.tab", "Europe/Berlin\0", "é" * 64, 3, None, ["UTC"]],
)
def test_a_hostile_zone_is_a_mistake(zone: object) -> None:
    (mistake,) = windows.find_mistakes({"zone": zone}, path="w")

    assert mistake.path == "w.zone"
