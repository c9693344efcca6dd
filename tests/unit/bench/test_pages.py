"""Results as tables, as a page, and as JSON."""

from __future__ import annotations

import dataclasses

import pytest

from bench.cases import catalogue
from bench.instruments.figures import Phase
from bench.report import page, plots, results, tables
from bench.report.results import Run

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
REST = Phase(
    benchmark="B9",
    name="at rest",
    stacks=1000,
    objects=4000,
    seconds=30.0,
    operator_cpu=0.1,
    control_plane_cpu=1.0,
    others_share=0.5,
    peak_rss=128 * 1024 * 1024,
    requests={},
)


KNOWN = ("B1", "B9")


def make_run(begun: str = "2026-01-01 10:00") -> Run:
    """Two phases, one of them disturbed."""
    return Run(begun=begun, circumstances={"cores": "2"}, works={"B1": "many", "B9": "none"}, phases=[PHASE, REST])


def test_a_row_tells_a_phase() -> None:
    """Figures as people read them, a dash where there is none."""
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
    """Ties by name, so that two runs read alike."""
    assert tables.name_requests(PHASE) == "4,000 apply ConfigMap, 4,000 apply Role, 1,000 create Event"
    assert tables.name_requests(REST) == "none"


def test_columns_stand_below_each_other() -> None:
    """Words to the left, figures to the right."""
    assert tables.as_text([["phase", "objects"], ["created", "4,000"]]) == "phase    objects\ncreated    4,000"


def test_markdown_says_which_columns_hold_figures() -> None:
    """By the first row."""
    assert tables.as_markdown([["phase", "n"], ["created", "4"]]) == "| phase | n |\n| --- | --: |\n| created | 4 |"


def test_a_run_survives_being_stored() -> None:
    """History is read again long after."""
    assert results.from_json(results.to_json(make_run())) == make_run()


def test_the_page_names_what_was_disturbed() -> None:
    """A reader must not take such a figure for the operator's."""
    made = page.make([make_run()], known=KNOWN)

    assert "| B1 | created | 4,000 |" in made
    assert "Disturbed by other work on the machine: B9 at rest." in made
    assert "Ratio of each run" not in made


def test_the_page_compares_runs() -> None:
    """Only what has a ratio can be compared."""
    made = page.make([make_run(), make_run("2026-02-01 10:00")], known=KNOWN)

    assert "| benchmark | phase | 2026-01-01 10:00 | 2026-02-01 10:00 |" in made
    assert "| B1 | created | 0.50 | 0.50 |" in made
    assert "B9" not in made.partition("Ratio of each run")[2]


def test_what_the_newest_run_left_out_is_shown_of_the_last_that_did_it() -> None:
    """Some run only by name, since they take very long."""
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
    """In the order asked for, regardless of the case; where none is named, all but those that take long."""
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
    """So that no user must look into the code."""
    with pytest.raises(catalogue.NoSuchBenchmark, match=r"there is no benchmark B77; there are .*B1-100, B1, .*B9"):
        catalogue.choose(["B1", "B77"])


def test_a_plot_has_a_bar_for_each_phase_with_a_ceiling() -> None:
    """The other ones have nothing to be compared with."""
    lines = plots.draw_ratios(make_run()).splitlines()
    assert lines[:2] == ["```mermaid", "xychart-beta"]
    assert '    x-axis ["B1 created"]' in lines
    assert "    bar [0.500]" in lines


def test_a_history_has_a_bar_for_each_run() -> None:
    """And no line where the CPU of one of them is not known."""
    lines = plots.draw_history(
        [make_run("2026-01-01 10:00"), make_run("2026-01-02 10:00")], "B1", "created"
    ).splitlines()
    assert "    bar [0.500, 0.500]" in lines
    assert not any("line [" in each for each in lines)


def test_without_a_value_nothing_is_drawn() -> None:
    """An empty plot is an error to those who draw it."""
    assert plots.draw_history([make_run()], "B3", "created") == ""
