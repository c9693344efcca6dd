"""Parses `spec.rollout` of a StackDefinition: waves, windows and limits."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model import label_selectors, value_class
from hearth.model.errors import Mistake
from hearth.model.label_selectors import LabelSelector
from hearth.model.text import times

PROGRESSIVE: Final = "Progressive"
MANUAL: Final = "Manual"
ALL_AT_ONCE: Final = "AllAtOnce"
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DEFAULT_UNAVAILABLE: Final = "25%"
DEFAULT_DEADLINE: Final = 1800.0
"""Seconds: longer than a large database takes to start, shorter than a person waits."""
REST: Final = "rest"
"""The wave of all instances that are in no other."""
MIDNIGHT: Final = 24 * 60
MINUTES: Final = 60


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The instances that follow together."""

    name: str
    selector: LabelSelector = LabelSelector()
    """Labels that select its instances."""
    size: int | str | None = None
    """The maximum number or percentage of instances in the wave; None: no limit."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a wave may begin."""

    days: frozenset[int] = frozenset(range(7))
    """0 is Monday."""
    begin: int = 0
    """Minutes since midnight."""
    end: int = MIDNIGHT
    zone: str = "UTC"

    def is_open(self, now: float) -> bool:
        """Return whether a wave may begin. now: seconds since the epoch. A window may last beyond midnight."""
        local = datetime.datetime.fromtimestamp(now, zoneinfo.ZoneInfo(self.zone))
        minute, today = local.hour * MINUTES + local.minute, local.weekday()
        if self.begin < self.end:
            return today in self.days and self.begin <= minute < self.end
        return (today in self.days and minute >= self.begin) or ((today - 1) % 7 in self.days and minute < self.end)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPolicy:
    """The policy of one StackDefinition."""

    strategy: str = PROGRESSIVE
    waves: tuple[Wave, ...] = ()
    """In order, without the last one, which has all others."""
    max_unavailable: int | str = DEFAULT_UNAVAILABLE
    """Maximum number of instances of a wave that may be in progress, or not ready, at the same time."""
    pause: float = 0.0
    """Seconds that every instance of a wave must stay ready before the next wave begins."""
    max_failed: int = 0
    """How many instances may fail; all failures in one namespace count as one."""
    deadline: float = DEFAULT_DEADLINE
    """Seconds that an instance may be in progress before it counts as failed."""
    goes_back: bool = False
    """Whether all moved instances are rolled back if too many fail."""
    window: Window | None = None


def parse(stated: Mapping[str, Any]) -> RolloutPolicy:
    """Parse a valid `spec.rollout`; `find_mistakes` validates it."""
    window = stated.get("window")
    return RolloutPolicy(
        strategy=stated.get("strategy", PROGRESSIVE),
        waves=tuple(_parse_wave(each) for each in stated.get("waves") or ()),
        max_unavailable=stated.get("maxUnavailable", DEFAULT_UNAVAILABLE),
        pause=times.parse_duration(stated["pause"]) if "pause" in stated else 0.0,
        max_failed=stated.get("maxFailed", 0),
        deadline=times.parse_duration(stated["progressDeadline"]) if "progressDeadline" in stated else DEFAULT_DEADLINE,
        goes_back=stated.get("onFailure") == "Rollback",
        window=_parse_window(window) if window is not None else None,
    )


def _parse_wave(stated: Mapping[str, Any]) -> Wave:
    selector = label_selectors.parse(stated.get("select") or {})
    return Wave(name=stated["name"], selector=selector, size=stated.get("size"))


def _parse_window(stated: Mapping[str, Any]) -> Window:
    days = frozenset(day for text in stated.get("days") or ("Mon-Sun",) for day in _parse_days(text))
    return Window(
        days=days,
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


def find_mistakes(stated: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find errors that the schema cannot express. stated: as the API server validated it."""
    seen: set[str] = set()
    for at, wave in enumerate(stated.get("waves") or ()):
        path = f"spec.rollout.waves[{at}]"
        if wave["name"] == REST or wave["name"] in seen:
            yield Mistake(path=f"{path}.name", message=f"is {wave['name']}, the name of another wave; choose another")
        if not wave.get("select") and "size" not in wave:
            yield Mistake(path=path, message="includes all instances; set select or size, or remove the wave")
        seen.add(wave["name"])
    zone = (stated.get("window") or {}).get("zone", "UTC")
    try:
        zoneinfo.ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        yield Mistake(
            path="spec.rollout.window.zone", message=f"is {zone!r}, which is not a time zone; write e.g. Europe/Berlin"
        )
