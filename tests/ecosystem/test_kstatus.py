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


def test_kstatus_finds_the_same_of_instances() -> None:
    """What a Stack in that situation is, an instance of a StackDefinition is."""
    stacks, instances = recorded_statuses.record(), recorded_statuses.record_instances()
    shared = [each for each in instances if each in stacks]

    assert len(shared) > 30
    found = programs.ask_kstatus([instances[each] for each in shared])
    assert found == programs.ask_kstatus([stacks[each] for each in shared])


def test_kstatus_finds_a_definition_current_when_its_rollout_is_complete() -> None:
    """Failed while it needs a person."""
    definitions = {each: raw for each, raw in recorded_statuses.record_instances().items() if each.kind != names.STACK}

    found = dict(zip(definitions, programs.ask_kstatus(list(definitions.values())), strict=True))
    for each, word in found.items():
        is_failed = each.is_current and each.stalled == "True"
        is_done = each.is_current and each.ready == "True"
        assert word == ("Failed" if is_failed else "Current" if is_done else "InProgress"), each
