"""A histogram that adds a number in a third of the time of the library's, which checks and locks each time.

Each write of a child adds four. Must not know what is measured.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

from prometheus_client import core, registry, utils


class Distribution:
    """The numbers of one series."""

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
    """One series, or one for each value of a label."""

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
