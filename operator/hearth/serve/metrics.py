"""Prometheus metrics of the process.

Other layers call the methods of `hearth.engine.ports.Observer`, which take plain arguments. Values that can be counted
on demand are read at each scrape, by the functions passed to `sample`. The counts of the process for other clusters are
added to the counts of this process.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import prometheus_client
from prometheus_client import core, exposition, gc_collector, platform_collector, process_collector, registry, utils

import hearth

if TYPE_CHECKING:
    from hearth.engine.cluster_objects import StackObject

Sample: TypeAlias = Callable[[], Mapping[str, float]]
"""Returns the current number by value of the label."""

CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
PASS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds. An idle reconcile takes less than a millisecond. One with writes takes as long as the API server."""
REACTION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. An idle operator writes within milliseconds. If a thousand Stacks are queued, the last one waits for
seconds."""
REQUEST_BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. An apply takes some milliseconds, and a webhook may take thirty seconds."""
QUEUE_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds. There is no wait if the server keeps up, and a wait of minutes if a large Stack is rolled out on a slow
server."""
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)

CLUSTER_MEASURES: Mapping[str, str] = {
    "reachable": "1 while the other cluster answers, 0 while it does not.",
    "stacks": "Stacks whose objects are in the other cluster.",
    "cached_objects": "Objects of the other cluster in the watch caches.",
    "cached_bytes": "Cached bytes of the children in the other cluster.",
    "requests": "Requests to the other cluster since its connection was opened.",
    "failed_requests": "Those that got no answer, or a code of 500 or more.",
}
OUR_PREFIX = "hearth_"
OF_ONE_PROCESS = frozenset({"hearth_build", "hearth_build_info", "hearth_leader"})
"""Metrics that describe a single process. All metrics of the libraries do so too, for example its memory."""
HELP = "# HELP "


class Metrics:
    """All metrics, with a registry of their own; implements `hearth.engine.ports.Observer`."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry(auto_describe=True)
        self._sampler = Sampler()
        self._make_of_reconciles()
        self._make_of_requests()
        self._make_of_faults()
        self._make_of_process()
        self.registry.register(self._sampler)
        process_collector.ProcessCollector(registry=self.registry)
        platform_collector.PlatformCollector(registry=self.registry)
        gc_collector.GCCollector(registry=self.registry)

    def _make_of_reconciles(self) -> None:
        """Make the metrics of reconciles and their writes."""
        self._passes = self._count("hearth_reconcile", "Reconciles of Stacks.", "result")
        self._reconcile_seconds = self._measure(
            "hearth_reconcile_duration_seconds", "Duration of a reconcile of one Stack.", PASS_BUCKETS
        )
        self._reaction_seconds = self._measure(
            "hearth_event_to_write_seconds",
            "Time from an event, a timer or a response to the write of a child that it causes.",
            REACTION_BUCKETS,
        )
        self._queue_seconds = self._measure(
            "hearth_write_queue_duration_seconds", "Time that a write of a child waited in the queue.", QUEUE_BUCKETS
        )
        # Cache the children: on each lookup, the library converts every label to text, which costs more than counting.
        self._find_reconciles = functools.cache(self._passes.labels)

    def _make_of_requests(self) -> None:
        """Make the metrics of requests."""
        self._requests = self._count(
            "hearth_api_requests",
            "Requests to the API server; code is 0 if there was no response.",
            "verb",
            "kind",
            "code",
        )
        self._request_seconds = self._measure(
            "hearth_api_request_duration_seconds",
            "Time from a request, including the wait for a free connection, to its response.",
            REQUEST_BUCKETS,
            "verb",
        )
        self._watch_restarts = self._count("hearth_watch_restarts", "Restarts of watches.", "kind", "reason")
        # Cached for the same reason as `_find_reconciles`.
        self._find_requests = functools.cache(self._requests.labels)

    def _make_of_faults(self) -> None:
        """Make the metrics of faults and limits."""
        self._internal_errors = self._count(
            "hearth_internal_errors",
            "Unexpected exceptions, by the part of the operator that raised them; each is a bug.",
            "where",
        )
        self._skipped_objects = self._count(
            "hearth_skipped_objects",
            "Objects that the API server sent and the operator cannot parse.",
            "kind",
            "reason",
        )
        self._limits = self._count("hearth_limit_reached", "Times that a limit was reached.", "limit")
        self._notifications = self._count("hearth_notifications", "Notifications by result.", "result")
        self._kopf_restarts = self._count("hearth_kopf_restarts", "Unexpected exits of kopf.")
        self._clusters_process_ends = self._count(
            "hearth_clusters_process_restarts", "Unexpected ends of the process for other clusters."
        )

    def _make_of_process(self) -> None:
        """Make the metrics of the process."""
        self._lag = self._measure("hearth_event_loop_lag_seconds", "Lag of the event loop.", LAG_BUCKETS)
        self._leader = prometheus_client.Gauge(
            "hearth_leader",
            "1 while this process is the leader or the only one, 0 while it is on standby.",
            registry=self.registry,
        )
        prometheus_client.Info("hearth_build", "Version of the operator.", registry=self.registry).info(
            {"version": hearth.__version__}
        )

    def _count(self, name: str, documentation: str, *labels: str) -> prometheus_client.Counter:
        return prometheus_client.Counter(name, documentation, labels, registry=self.registry)

    def _measure(self, name: str, documentation: str, buckets: Sequence[float], label: str = "") -> Histogram:
        made = Histogram(name, documentation, buckets=buckets, label=label)
        self.registry.register(made)
        return made

    def close(self) -> None:
        """Do nothing: metrics are pulled, not sent."""

    def begin_reconcile(self) -> object | None:
        """Return None: metrics have no traces."""
        return None

    def resume_reconcile(self, trace: object) -> None:
        """Do nothing."""

    def on_reconcile(self, *, result: str, seconds: float, stack: StackObject | None = None) -> None:  # noqa: ARG002 -- the observer's parameters
        """Count a reconcile and observe its duration."""
        self._find_reconciles(result).inc()
        self._reconcile_seconds.find().observe(seconds)

    def on_dequeue(self, seconds: float) -> None:
        """Observe the seconds that a write of a child was in the queue."""
        self._queue_seconds.find().observe(seconds)

    def on_event_to_write(self, seconds: float) -> None:
        """Observe the seconds between an event and the write of a child that it causes."""
        self._reaction_seconds.find().observe(seconds)

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """Count a request and observe its duration. code: 0 if no response arrived."""
        self._find_requests(verb, kind, code).inc()
        self._request_seconds.find(verb).observe(seconds)

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """Count the restart of a watch."""
        self._watch_restarts.labels(kind, reason).inc()

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Count an object that cannot be parsed."""
        self._skipped_objects.labels(kind, reason).inc()

    def on_internal_error(self, where: str) -> None:
        """Count an unexpected exception."""
        self._internal_errors.labels(where).inc()

    def on_limit(self, limit: str) -> None:
        """Count that a limit was reached."""
        self._limits.labels(limit).inc()

    def on_notification(self, result: str) -> None:
        """Count a notification by its result."""
        self._notifications.labels(result).inc()

    def on_kopf_restart(self) -> None:
        """Count an unexpected exit of kopf."""
        self._kopf_restarts.inc()

    def on_clusters_process_end(self, _reason: str) -> None:
        """Count an unexpected end of the process for other clusters."""
        self._clusters_process_ends.inc()

    def on_lag(self, seconds: float) -> None:
        """Observe a delay of the event loop."""
        self._lag.find().observe(seconds)

    def on_leading(self) -> None:
        """Record that this process is the leader or the only one."""
        self._leader.set(1)

    def sample(  # noqa: PLR0913 -- each is one family of gauges
        self,
        *,
        cached_objects: Sample,
        cached_bytes: Sample,
        stacks: Sample,
        writes: Sample,
        conditions: Sample = dict,
        actions: Sample = dict,
        definitions: Sample = dict,
        clusters: Callable[[], Mapping[str, Mapping[str, float]]] = dict,
    ) -> None:
        """Set the functions that a scrape calls: for cached objects and bytes (by kind), Stacks (by phase) and writes.

        conditions: Stacks by true condition; actions: seconds of the oldest action in progress by phase; clusters:
        measures of the other clusters, by their hosts; definitions: StackDefinitions by the reason of their condition `Ready`.
        """
        self._sampler.clusters = clusters
        self._sampler.samples = (
            ("hearth_cached_objects", "Objects in the watch caches.", "kind", cached_objects),
            ("hearth_cached_bytes", "Cached bytes of children and Stacks.", "kind", cached_bytes),
            ("hearth_stacks", "Stacks by phase.", "phase", stacks),
            ("hearth_stack_conditions", "Stacks by condition that is True.", "condition", conditions),
            ("hearth_oldest_action_seconds", "Age of the oldest action in progress, by phase.", "phase", actions),
            ("hearth_definitions", "StackDefinitions by the reason of their condition Ready.", "reason", definitions),
            ("hearth_writes", "Writes of children: limit of those in flight, in flight, and queued.", "state", writes),
        )

    def render(self, other: bytes = b"") -> bytes:
        """Return all metrics in the text format of Prometheus, added to the metrics of another process."""
        return merge(exposition.generate_latest(self.registry), other)


class Sampler(registry.Collector):
    """Gauges that are read at each scrape."""

    def __init__(self) -> None:
        self.samples: tuple[tuple[str, str, str, Sample], ...] = ()
        self.clusters: Callable[[], Mapping[str, Mapping[str, float]]] = dict

    def collect(self) -> Iterable[core.Metric]:
        """Yield each gauge with its present numbers."""
        for name, documentation, label, sample in self.samples:
            family = core.GaugeMetricFamily(name, documentation, labels=[label])
            for value, number in sample().items():
                family.add_metric([value], number)
            yield family
        # Only the clusters in use: this limits the number of labels, whose values tenants choose.
        for measure, by_host in self.clusters().items():
            family = core.GaugeMetricFamily(
                f"hearth_cluster_{measure}", CLUSTER_MEASURES.get(measure, measure), labels=["cluster"]
            )
            for host, number in by_host.items():
                family.add_metric([host], number)
            yield family

    def describe(self) -> Iterable[core.Metric]:
        """Return nothing: the names are unknown until a scrape."""
        return ()


class Distribution:
    """The numbers of one series of a histogram."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, number: float) -> None:
        """Add a number."""
        self._counts[bisect.bisect_left(self._bounds, number)] += 1
        self._sum += number

    def add_to(self, family: core.HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add the series to the metric."""
        names = [*map(utils.floatToGoString, self._bounds), "+Inf"]
        totals = itertools.accumulate(self._counts)
        family.add_metric(labels, buckets=list(zip(names, totals, strict=True)), sum_value=self._sum)


class Histogram(registry.Collector):
    """A histogram with one series, or one for each value of a label.

    It adds a number in a third of the time of the library's, which checks and locks each time. Each write of a child adds
    four.
    """

    def __init__(self, name: str, documentation: str, *, buckets: Sequence[float], label: str = "") -> None:
        """buckets: the upper bounds in order, without infinity; label: its name, "" for none."""
        self._name = name
        self._documentation = documentation
        self._bounds = tuple(buckets)
        self._labels = [label] if label else []
        self._series: dict[str, Distribution] = {}
        if not label:
            self.find()

    def find(self, value: str = "") -> Distribution:
        """Return the series of that label value, or the only one."""
        found = self._series.get(value)
        if found is None:
            found = self._series[value] = Distribution(self._bounds)
        return found

    def collect(self) -> Iterable[core.Metric]:
        """Yield the metric with its present numbers."""
        family = core.HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        for value, series in list(self._series.items()):
            series.add_to(family, [value] if self._labels else [])
        yield family


def merge(own: bytes, other: bytes) -> bytes:
    """Return the metrics of this process with those of the other, both in the text format of Prometheus."""
    if not other:
        return own
    added = read_families(other.decode(errors="replace"))
    lines: list[str] = []
    for name, family in read_families(own.decode()).items():
        lines += merge_family(family, added.pop(name, []) if is_shared(name) else [])
    for name, family in added.items():
        if is_shared(name):
            lines += family
    return "".join(f"{line}\n" for line in lines).encode()


def is_shared(family: str) -> bool:
    """Return whether the samples of a family may be added up."""
    return family.startswith(OUR_PREFIX) and family not in OF_ONE_PROCESS


def read_families(text: str) -> dict[str, list[str]]:
    """Return the lines of each family by its name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(HELP):
            name = line.removeprefix(HELP).partition(" ")[0]
        found.setdefault(name, []).append(line)
    return found


def merge_family(own: list[str], other: list[str]) -> Iterator[str]:
    """Yield the lines of a family: each sample with the sum of its values."""
    added = dict(read_samples(other))
    for line in own:
        key = line.rpartition(" ")[0]
        yield add(line, added.pop(key)) if key in added else line
    yield from (f"{key} {value!r}" for key, value in added.items())


def read_samples(lines: list[str]) -> Iterator[tuple[str, float]]:
    """Yield each sample as its name with labels, and its value."""
    for line in lines:
        key, _, value = line.rpartition(" ")
        # The other process may send anything.
        with contextlib.suppress(ValueError):
            if not line.startswith("#") and key:
                yield key, float(value)


def add(line: str, value: float) -> str:
    """Return the line with a larger value."""
    key, _, before = line.rpartition(" ")
    return f"{key} {float(before) + value!r}"
