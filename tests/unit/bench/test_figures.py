"""Figures that are derived from measurements, and their presentation on the page."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.cases import catalogue
from bench.instruments import figures
from bench.instruments.figures import Ceiling, Pace, Phase
from bench.report import page, results, tables
from bench.report.results import Run


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
    """The pace of a bare loop."""
    return Pace(rate=rate, cpu_ms=cpu_ms)


def test_a_rate_is_reported_as_a_part_of_the_ceiling() -> None:
    phase = make_phase(ceiling=800.0)

    assert phase.rate == 200.0
    assert phase.ratio == 0.25
    assert phase.written_ratio == 0.5


def test_without_a_ceiling_there_is_no_ratio() -> None:
    assert make_phase().ratio is None
    assert make_phase().written_ratio is None


def test_cpu_is_reported_for_one_object() -> None:
    assert make_phase().operator_ms == pytest.approx(2.0)
    assert make_phase().control_plane_ms == pytest.approx(3.0)
    assert make_phase(control_plane_cpu=None).control_plane_ms is None


def test_events_do_not_count_as_requests_of_a_stack() -> None:
    assert make_phase().requests_per_stack == 6.01
    assert make_phase().writes == 700


def test_refused_writes_are_writes() -> None:
    """Refused writes cost the server the same."""
    assert make_phase(requests={"patch Stack.hearth.dev (409)": 3, "list ConfigMap": 9}).writes == 3


def test_each_phase_has_the_ceiling_of_its_own_kind_of_request() -> None:
    one = Ceiling(created=pace(100), changed=pace(200), deleted=pace(300))
    other = Ceiling(created=pace(300), changed=pace(400), deleted=pace(500, cpu_ms=None))
    between = figures.mean(one, other)

    assert figures.with_ceiling(make_phase(), between).ceiling == 200
    assert figures.with_ceiling(make_phase(name="changed"), between).ceiling == 300
    assert figures.with_ceiling(make_phase(name="deleted"), between).ceiling == 400
    assert figures.with_ceiling(make_phase(name="deleted"), between).ceiling_ms is None


def test_cpu_tells_the_ratio_where_others_disturb() -> None:
    assert make_phase(ceiling_ms=2.5).cpu_ratio == 0.5
    assert make_phase().cpu_ratio is None
    assert make_phase(ceiling_ms=2.5, control_plane_cpu=None).cpu_ratio is None


def test_a_phase_survives_being_described() -> None:
    phase = make_phase(ceiling=800.0)
    described = figures.describe(phase)

    assert described["ratio"] == 0.25
    assert figures.parse(described) == phase


def test_requests_are_counted_by_verb_and_kind() -> None:
    page = """\
# TYPE hearth_api_requests_total counter
hearth_api_requests_total{code="200",kind="ConfigMap",verb="apply"} 4.0
hearth_api_requests_total{code="409",kind="Stack.hearth.dev",verb="patch"} 2.0
hearth_api_requests_created{code="200",kind="ConfigMap",verb="apply"} 1.7e+09
hearth_reconcile_total{result="done"} 9.0
"""

    assert figures.count_requests(page) == {"apply ConfigMap": 4, "patch Stack.hearth.dev (409)": 2}


def test_the_page_is_the_one_that_the_operator_makes() -> None:
    from hearth.serve.metrics import Metrics

    observer = Metrics()
    observer.on_request(verb="apply", kind="Role.rbac.authorization.k8s.io", code=200, seconds=0.01)
    observer.on_request(verb="apply", kind="Role.rbac.authorization.k8s.io", code=200, seconds=0.01)

    assert figures.count_requests(observer.render().decode()) == {"apply Role.rbac.authorization.k8s.io": 2}


# The figures as tables, as a page, and as JSON.


PHASE = Phase(
    benchmark="B1",
    name="created",
    stacks=1000,
    objects=4000,
    seconds=8.0,
    ceiling=1000.0,
    operator_cpu=4.0,
    control_plane_cpu=None,
    others_share=0.02,
    peak_rss=128 * 1024 * 1024,
    requests={"apply ConfigMap": 4000, "create Event": 1000, "apply Role": 4000},
)
REST = dataclasses.replace(
    PHASE,
    benchmark="B9",
    name="at rest",
    seconds=30.0,
    ceiling=None,
    operator_cpu=0.1,
    control_plane_cpu=1.0,
    others_share=0.5,
    requests={},
)
KNOWN = ("B1", "B9")


def make_run(begun: str = "2026-01-01 10:00") -> Run:
    """Two phases, one of them disturbed."""
    return Run(begun=begun, circumstances={"cores": "2"}, works={"B1": "many", "B9": "none"}, phases=[PHASE, REST])


def test_a_row_tells_a_phase() -> None:
    head, created, rest = tables.make_figures([PHASE, REST])

    reported = dict(zip(head, created, strict=True))
    assert reported["objects"] == "4,000"
    assert reported["objects/s"] == "500"
    assert reported["ratio"] == "0.50"
    assert reported["operator ms/object"] == "1.00"
    assert reported["control plane ms/object"] == tables.NOTHING
    assert reported["peak RSS MiB"] == "128"
    assert dict(zip(head, rest, strict=True))["ratio"] == tables.NOTHING


def test_the_most_frequent_requests_come_first() -> None:
    assert tables.name_requests(PHASE) == "4,000 apply ConfigMap, 4,000 apply Role, 1,000 create Event"
    assert tables.name_requests(REST) == "none"


def test_columns_stand_below_each_other() -> None:
    assert tables.as_text([["phase", "objects"], ["created", "4,000"]]) == "phase    objects\ncreated    4,000"


def test_markdown_says_which_columns_hold_figures() -> None:
    assert tables.as_markdown([["phase", "n"], ["created", "4"]]) == "| phase | n |\n| --- | --: |\n| created | 4 |"


def test_a_run_survives_being_stored() -> None:
    assert results.from_json(results.to_json(make_run())) == make_run()


def test_the_page_names_what_was_disturbed() -> None:
    made = page.make([make_run()], known=KNOWN)

    assert "| B1 | created | 4,000 |" in made
    assert "Disturbed by other work on the machine: B9 at rest." in made
    assert "Ratio of each run" not in made


def test_the_page_compares_runs() -> None:
    made = page.make([make_run(), make_run("2026-02-01 10:00")], known=KNOWN)

    assert "| benchmark | phase | 2026-01-01 10:00 | 2026-02-01 10:00 |" in made
    assert "| B1 | created | 0.50 | 0.50 |" in made
    assert "B9" not in made.partition("Ratio of each run")[2]


def test_what_the_newest_run_left_out_is_shown_of_the_last_that_did_it() -> None:
    rest = dataclasses.replace(make_run("2026-02-01 10:00"), works={"B9": "none"}, phases=[REST])
    slower = dataclasses.replace(PHASE, seconds=16.0)
    begun = "2026-01-02 10:00"
    made = page.make([make_run(), dataclasses.replace(make_run(begun), phases=[slower, REST]), rest], known=KNOWN)

    assert f"- **B1** ({begun}): many\n- **B9** (2026-02-01 10:00): none" in made
    assert made.count("| B1 | created | 4,000 |") == 1
    assert "| B1 | created | 4,000 | 16.0 | 250 |" in made
    assert "| B1 | created | 0.50 | 0.25 | – |" in made
    assert "**B1**" not in page.make([make_run()], known=["B9"])


def test_benchmarks_are_chosen_by_name() -> None:
    assert [each.id for each in catalogue.choose(["b9", "B1-100"])] == ["B9", "B1-100"]
    assert {each.id for each in catalogue.ALL} - {each.id for each in catalogue.choose([])} == {
        "B1-100",
        "B14",
        "B16-10000",
        "B15",
        "B2",
    }
    assert len({each.id for each in catalogue.ALL}) == len(catalogue.ALL)


def test_a_wrong_name_gets_the_right_ones() -> None:
    with pytest.raises(catalogue.NoSuchBenchmark, match=r"there is no benchmark B77; there are .*B1-100, B1, .*B9"):
        catalogue.choose(["B1", "B77"])


def test_a_plot_has_a_bar_for_each_phase_with_a_ceiling() -> None:
    lines = page.draw_ratios(make_run()).splitlines()
    assert lines[:2] == ["```mermaid", "xychart-beta"]
    assert '    x-axis ["B1 created"]' in lines
    assert "    bar [0.500]" in lines


def test_a_history_has_a_bar_for_each_run() -> None:
    lines = page.draw_history(
        [make_run("2026-01-01 10:00"), make_run("2026-01-02 10:00")], "B1", "created"
    ).splitlines()
    assert "    bar [0.500, 0.500]" in lines
    assert not any("line [" in each for each in lines)


def test_without_a_value_nothing_is_drawn() -> None:
    assert page.draw_history([make_run()], "B3", "created") == ""
