"""kstatus, by which Flux and Helm wait, on each status that the operator reports."""

from __future__ import annotations

from hearth.model import names
from support.ecosystem import programs
from support.gitops import agreement, recorded_statuses


def test_kstatus_finds_what_the_page_says() -> None:
    """docs/gitops.md has a row for each phase."""
    rows = agreement.list_rows()

    found = dict(zip(rows, programs.ask_kstatus(list(rows.values())), strict=True))
    assert agreement.read_page("kstatus: Flux, Helm 4") == found


def test_kstatus_waits_for_the_operator() -> None:
    """An object of any kind is not current before the operator has seen it."""
    new = {each.kind: raw for each, raw in recorded_statuses.record().items() if not each.phase}

    assert set(new) == recorded_statuses.KINDS
    assert programs.ask_kstatus(list(new.values())) == ["InProgress"] * len(new)


def test_kstatus_finds_other_kinds_current_when_they_are_ready() -> None:
    """Groups, marks and snapshots."""
    objects = [
        recorded_statuses.find(names.GROUP_KIND, "UpdateComplete"),
        recorded_statuses.find("HealthMark", "Marked"),
        recorded_statuses.find("StackSnapshot", "Complete"),
        recorded_statuses.find("HealthMark", "Pending"),
        recorded_statuses.find("StackSnapshot", "Failed"),
        recorded_statuses.find(names.GROUP_KIND, "UpdateFailed"),
    ]

    assert programs.ask_kstatus(objects) == ["Current", "Current", "Current", "InProgress", "Failed", "Failed"]
