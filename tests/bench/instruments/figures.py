"""Measurements as values, and the figures derived from them.

Pure; must not know how measurements are taken or shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

READS = frozenset({"get", "list"})
"""The verbs that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Rate and cost of a bare loop that writes objects."""

    rate: float
    """Objects a second."""
    cpu_ms: float | None
    """Milliseconds of CPU per object, for the loop and the control plane; None if the control plane runs elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The pace of a bare loop, by the name of the phase."""

    created: Pace
    changed: Pace
    deleted: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One piece of work, done by the operator; CPU in seconds."""

    benchmark: str
    name: str
    stacks: int
    objects: int
    """Number of children that were written."""
    seconds: float
    """From the user's first request until every Stack reports completion or is deleted."""
    written_seconds: float | None = None
    """Until the last change of a child; after that, the operator only reports to the user."""
    ceiling: float | None = None
    """Objects a second of the bare loop, for the same kind of request."""
    ceiling_ms: float | None = None
    """Milliseconds of CPU that the bare loop and the control plane took for one object."""
    operator_cpu: float
    control_plane_cpu: float | None
    """CPU of API server and etcd; None if they are not on this machine."""
    others_share: float
    """The share of the machine's CPU time of unrelated processes."""
    peak_rss: int
    """Bytes, since the operator's start."""
    requests: Mapping[str, int]
    """The operator's, by `verb kind`, and by code as well where it was refused."""
    found: Mapping[str, float] = field(default_factory=dict)
    """Further measurements, by a name with the unit."""

    @property
    def rate(self) -> float:
        """Objects a second."""
        return self.objects / self.seconds

    @property
    def ratio(self) -> float | None:
        """The rate relative to the ceiling."""
        return None if self.ceiling is None else self.rate / self.ceiling

    @property
    def written_ratio(self) -> float | None:
        """The same, by the time until the last child changed."""
        if self.ceiling is None or not self.written_seconds:
            return None
        return self.objects / self.written_seconds / self.ceiling

    @property
    def operator_ms(self) -> float:
        """Milliseconds of the operator's CPU for one object."""
        return 1000 * self.operator_cpu / self.objects

    @property
    def control_plane_ms(self) -> float | None:
        return None if self.control_plane_cpu is None else 1000 * self.control_plane_cpu / self.objects

    @property
    def cpu_ratio(self) -> float | None:
        """The CPU of the bare loop relative to ours: the ratio on a machine without other load."""
        if self.ceiling_ms is None or self.control_plane_ms is None:
            return None
        return self.ceiling_ms / (self.operator_ms + self.control_plane_ms)

    @property
    def requests_per_stack(self) -> float:
        """Requests per Stack, without Events, which only inform users."""
        return sum(count for name, count in self.requests.items() if not is_event(name)) / self.stacks

    @property
    def writes(self) -> int:
        """Requests that may have changed something."""
        return sum(count for name, count in self.requests.items() if name.partition(" ")[0] not in READS)


DERIVED = (
    "rate",
    "ratio",
    "written_ratio",
    "cpu_ratio",
    "operator_ms",
    "control_plane_ms",
    "requests_per_stack",
    "writes",
)


def describe_times(times: Sequence[float], name: str) -> dict[str, float]:
    """Median and 99th percentile of times in seconds, for `Phase.found` in milliseconds."""
    ordered = sorted(times)
    return {
        f"{name} p50 ms": 1000 * ordered[len(ordered) // 2],
        f"{name} p99 ms": 1000 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
    }


def is_event(request: str) -> bool:
    """Whether that is an Event posted about a Stack."""
    return request.partition(" ")[2].startswith("Event")


def mean(one: Ceiling, other: Ceiling) -> Ceiling:
    """The mean of two measurements."""
    return Ceiling(
        created=mean_pace(one.created, other.created),
        changed=mean_pace(one.changed, other.changed),
        deleted=mean_pace(one.deleted, other.deleted),
    )


def mean_pace(one: Pace, other: Pace) -> Pace:
    """The mean of two rates."""
    is_known = one.cpu_ms is not None and other.cpu_ms is not None
    cpu_ms = ((one.cpu_ms or 0.0) + (other.cpu_ms or 0.0)) / 2
    return Pace(rate=(one.rate + other.rate) / 2, cpu_ms=cpu_ms if is_known else None)


def with_ceiling(phase: Phase, ceiling: Ceiling) -> Phase:
    """The phase, compared with a bare loop that sends the same requests."""
    pace: Pace = getattr(ceiling, phase.name)
    return replace(phase, ceiling=pace.rate, ceiling_ms=pace.cpu_ms)


def beside_children(phase: Phase, children: Ceiling) -> Phase:
    """The phase, compared with a bare loop that only writes its children."""
    pace: Pace = getattr(children, phase.name)
    found = {"ratio to children alone": phase.rate / pace.rate}
    if pace.cpu_ms is not None and phase.control_plane_ms is not None:
        found["CPU ratio to children alone"] = pace.cpu_ms / (phase.operator_ms + phase.control_plane_ms)
    return replace(phase, found={**phase.found, **found})


def describe(phase: Phase) -> dict[str, Any]:
    """The phase as JSON: measurements and derived figures, with a sensible number of digits."""
    figures = asdict(phase) | {name: getattr(phase, name) for name in DERIVED}
    figures["found"] = {name: round(value, 4) for name, value in phase.found.items()}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}


def parse(figures: Mapping[str, Any]) -> Phase:
    """The phase that `describe` wrote."""
    return Phase(**{name: value for name, value in figures.items() if name not in DERIVED})


def count_requests(exposition: str) -> Counter[str]:
    """The requests by `verb kind` in an operator's metrics."""
    found: Counter[str] = Counter()
    for line in exposition.splitlines():
        if line.startswith("hearth_api_requests_total{"):
            labels, _, number = line[len("hearth_api_requests_total{") :].rpartition("} ")
            words = dict(part.split("=", 1) for part in labels.split(","))
            verb, kind, code = (words[name].strip('"') for name in ("verb", "kind", "code"))
            found[f"{verb} {kind}" if code == "200" else f"{verb} {kind} ({code})"] += int(float(number))
    return found
