"""Parses `spec.rollout` of a StackDefinition: waves, windows, limits and gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model import label_selectors, value_class, windows
from hearth.model.errors import Mistake
from hearth.model.label_selectors import LabelSelector
from hearth.model.text import times
from hearth.model.windows import Window

PROGRESSIVE: Final = "Progressive"
MANUAL: Final = "Manual"
ALL_AT_ONCE: Final = "AllAtOnce"
DEFAULT_UNAVAILABLE: Final = "25%"
DEFAULT_DEADLINE: Final = 1800.0
"""Seconds: longer than a large database takes to start, shorter than a person waits."""
REST: Final = "rest"
"""The wave of all instances that are in no other."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The instances that follow together."""

    name: str
    selector: LabelSelector = LabelSelector()
    """Labels that select its instances."""
    size: int | str | None = None
    """The maximum number or percentage of instances in the wave; None: no limit."""


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
    """When a wave may begin; None: at any time."""
    gates: tuple[str, ...] = ()
    """The names of the approvals that the rollout needs after each wave."""

    @property
    def wave_names(self) -> tuple[str, ...]:
        """Return the names of the waves in order, without the instances that were unhealthy before."""
        return (*(wave.name for wave in self.waves if self.strategy == PROGRESSIVE), REST)


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
        window=windows.parse(window) if window is not None else None,
        gates=tuple(each["name"] for each in stated.get("gates") or ()),
    )


def _parse_wave(stated: Mapping[str, Any]) -> Wave:
    selector = label_selectors.parse(stated.get("select") or {})
    return Wave(name=stated["name"], selector=selector, size=stated.get("size"))


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
    gates = [gate["name"] for gate in stated.get("gates") or ()]
    for at, name in enumerate(gates):
        if name in gates[:at]:
            yield Mistake(
                path=f"spec.rollout.gates[{at}].name", message=f"is {name}, the name of another gate; choose another"
            )
    if gates and stated.get("strategy") == MANUAL:
        yield Mistake(
            path="spec.rollout.gates",
            message="cannot stop instances that users move (strategy: Manual); remove the gates, or use another strategy",
        )
    yield from windows.find_mistakes(stated.get("window") or {}, path="spec.rollout.window")
