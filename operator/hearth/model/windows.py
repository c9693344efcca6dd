"""Windows: the times of the week when a change may begin. Parses them, checks them, and finds the next opening."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model import value_class
from hearth.model.errors import Mistake

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MIDNIGHT: Final = 24 * 60
MINUTES: Final = 60
HORIZON: Final = 15
"""Days in which every window opens: it may miss one week, if the clocks skip it when they go forward."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Times of the week, in one time zone."""

    days: frozenset[int] = frozenset(range(7))
    """0 is Monday."""
    begin: int = 0
    """Minutes since midnight."""
    end: int = MIDNIGHT
    zone: str = "UTC"

    def is_open(self, now: float) -> bool:
        """Return whether a change may begin. now: seconds since the epoch. A window may last beyond midnight."""
        local = datetime.datetime.fromtimestamp(now, zoneinfo.ZoneInfo(self.zone))
        minute, today = local.hour * MINUTES + local.minute, local.weekday()
        if self.begin < self.end:
            return today in self.days and self.begin <= minute < self.end
        return (today in self.days and minute >= self.begin) or ((today - 1) % 7 in self.days and minute < self.end)

    def find_opening(self, now: float) -> float:
        """Return when the window opens next, in seconds since the epoch; `now` if it is open."""
        if self.is_open(now):
            return now
        zone = zoneinfo.ZoneInfo(self.zone)
        # Yesterday's begin may be today, at 24:00.
        first = datetime.datetime.fromtimestamp(now, zone).date() - datetime.timedelta(days=1)
        for day in range(HORIZON + 2):
            midnight = datetime.datetime.combine(first + datetime.timedelta(days=day), datetime.time())
            begin = midnight + datetime.timedelta(minutes=self.begin)
            for moment in _find_moments(begin, zone):
                if moment > now and self.is_open(moment):
                    return moment
        # Not reached by a window without mistakes: look again then.
        return now + datetime.timedelta(days=HORIZON).total_seconds()


def _find_moments(local: datetime.datetime, zone: zoneinfo.ZoneInfo) -> Iterator[float]:
    """Return the moments when a clock shows this time: usually one, and two if the clocks go back over it.

    If the clocks skip it, return each minute from shortly before to shortly after the jump.
    """
    earlier, later = sorted(local.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    yield earlier
    is_skipped = datetime.datetime.fromtimestamp(earlier, zone).replace(tzinfo=None) != local
    if is_skipped:
        yield from (earlier + minute * MINUTES for minute in range(1, int(later - earlier) // MINUTES))
    if later != earlier:
        yield later


def parse(stated: Mapping[str, Any]) -> Window:
    """Parse a window that the API server validated; `find_mistakes` finds the other mistakes."""
    return Window(
        days=frozenset(day for text in stated.get("days") or ("Mon-Sun",) for day in _parse_days(text)),
        begin=_parse_minute(stated.get("from", "00:00")),
        end=_parse_minute(stated.get("to", "24:00")),
        zone=stated.get("zone", "UTC"),
    )


def _parse_days(text: str) -> Iterator[int]:
    """Return the days of `Mon` or `Fri-Mon`."""
    first, _, last = text.partition("-")
    day, end = DAYS.index(first), DAYS.index(last or first)
    yield day
    while day != end:
        day = (day + 1) % len(DAYS)
        yield day


def _parse_minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * MINUTES + int(minutes)


def find_mistakes(stated: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find errors that the schema cannot express. stated: as the API server validated it; path: of the window."""
    zone = stated.get("zone", "UTC")
    try:
        zoneinfo.ZoneInfo(zone)
    except (KeyError, TypeError, ValueError, OSError):
        yield Mistake(path=f"{path}.zone", message=f"is {zone!r}, which is not a time zone; write e.g. Europe/Berlin")
    if stated.get("from") == "24:00" and stated.get("to") == "00:00":
        yield Mistake(path=path, message="never opens, because it begins and ends at midnight; set from or to")
