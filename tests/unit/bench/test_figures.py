"""What follows from measured figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.instruments import figures
from bench.instruments.figures import Ceiling, Pace, Phase


def make_phase(**changes: Any) -> Phase:
    """400 children of 100 Stacks in 2 seconds."""
    phase = Phase(
        benchmark="B1-100",
        name="created",
        stacks=100,
        objects=400,
        seconds=2.0,
        written_seconds=1.0,
        operator_cpu=0.8,
        control_plane_cpu=1.2,
        others_share=0.05,
        peak_rss=100 * 1024 * 1024,
        requests={"apply ConfigMap": 400, "patch Stack.hearth.dev": 200, "create Event": 100, "get Secret": 1},
    )
    return dataclasses.replace(phase, **changes)


def pace(rate: float, *, cpu_ms: float | None = 2.0) -> Pace:
    """Of a bare loop."""
    return Pace(rate=rate, cpu_ms=cpu_ms)


def test_a_rate_is_reported_as_a_part_of_the_ceiling() -> None:
    """By the user's time, and by the time in which children changed."""
    phase = make_phase(ceiling=800.0)

    assert phase.rate == 200.0
    assert phase.ratio == 0.25
    assert phase.written_ratio == 0.5


def test_without_a_ceiling_there_is_no_ratio() -> None:
    """Resting has no rate that one could compare."""
    assert make_phase().ratio is None
    assert make_phase().written_ratio is None


def test_cpu_is_reported_for_one_object() -> None:
    """In milliseconds, operator and control plane apart."""
    assert make_phase().operator_ms == pytest.approx(2.0)
    assert make_phase().control_plane_ms == pytest.approx(3.0)
    assert make_phase(control_plane_cpu=None).control_plane_ms is None


def test_events_do_not_count_as_requests_of_a_stack() -> None:
    """They tell people, and change nothing; as writes they count."""
    assert make_phase().requests_per_stack == 6.01
    assert make_phase().writes == 700


def test_refused_writes_are_writes() -> None:
    """They cost the server as much."""
    assert make_phase(requests={"patch Stack.hearth.dev (409)": 3, "list ConfigMap": 9}).writes == 3


def test_each_phase_has_the_ceiling_of_its_own_kind_of_request() -> None:
    """The mean of before and after."""
    one = Ceiling(created=pace(100), changed=pace(200), deleted=pace(300))
    other = Ceiling(created=pace(300), changed=pace(400), deleted=pace(500, cpu_ms=None))
    between = figures.mean(one, other)

    assert figures.with_ceiling(make_phase(), between).ceiling == 200
    assert figures.with_ceiling(make_phase(name="changed"), between).ceiling == 300
    assert figures.with_ceiling(make_phase(name="deleted"), between).ceiling == 400
    assert figures.with_ceiling(make_phase(name="deleted"), between).ceiling_ms is None


def test_cpu_tells_the_ratio_where_others_disturb() -> None:
    """What a bare loop takes for an object, beside what operator and control plane take."""
    assert make_phase(ceiling_ms=2.5).cpu_ratio == 0.5
    assert make_phase().cpu_ratio is None
    assert make_phase(ceiling_ms=2.5, control_plane_cpu=None).cpu_ratio is None


def test_a_phase_survives_being_described() -> None:
    """What is derived is there for readers, and made again where it is parsed."""
    phase = make_phase(ceiling=800.0)
    described = figures.describe(phase)

    assert described["ratio"] == 0.25
    assert figures.parse(described) == phase


def test_requests_are_counted_by_verb_and_kind() -> None:
    """From the operator's own page; a refusal is distinguished by its code, and other metrics are passed over."""
    page = """\
# TYPE hearth_api_requests_total counter
hearth_api_requests_total{code="200",kind="ConfigMap",verb="apply"} 4.0
hearth_api_requests_total{code="409",kind="Stack.hearth.dev",verb="patch"} 2.0
hearth_api_requests_created{code="200",kind="ConfigMap",verb="apply"} 1.7e+09
hearth_reconcile_total{result="done"} 9.0
"""

    assert figures.count_requests(page) == {"apply ConfigMap": 4, "patch Stack.hearth.dev (409)": 2}


def test_the_page_is_the_one_that_the_operator_makes() -> None:
    """Its real metrics, so that a change of a name there is noticed here."""
    from hearth.serve.metrics import Metrics

    observer = Metrics()
    observer.on_request(verb="apply", kind="Role.rbac.authorization.k8s.io", code=200, seconds=0.01)
    observer.on_request(verb="apply", kind="Role.rbac.authorization.k8s.io", code=200, seconds=0.01)

    assert figures.count_requests(observer.render().decode()) == {"apply Role.rbac.authorization.k8s.io": 2}
