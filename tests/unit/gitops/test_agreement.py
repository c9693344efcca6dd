"""The table of docs/gitops.md: its rows, and the column of Argo CD."""

from __future__ import annotations

from support.gitops import agreement, argocd_scripts

FIELDS = {"Ready", "Reconciling", "Stalled"}


def test_the_page_has_a_row_for_each_phase() -> None:
    """Those that a Stack can be seen in, in the order of docs/phases.md."""
    assert list(agreement.read_page("Argo CD")) == list(agreement.list_rows())


def test_the_page_says_what_argocd_finds() -> None:
    """Found by running the health script on what the operator reported in that phase."""
    found = {row: argocd_scripts.assess(raw)[0] for row, raw in agreement.list_rows().items()}

    assert agreement.read_page("Argo CD") == found


def test_the_tools_agree_on_success() -> None:
    """What one of them takes for success, all take for success."""
    columns = [agreement.read_page(tool) for tool in agreement.TOOLS]
    successes = [{row for row, text in column.items() if text in {"met", "Current", "Healthy"}} for column in columns]

    assert successes[0] == successes[1] == successes[2] != set()


def test_no_tool_takes_a_failure_for_progress() -> None:
    """What Argo CD and kstatus take for failed is the same, but for a check, after which nothing failed."""
    kstatus = {row for row, text in agreement.read_page("kstatus: Flux, Helm 4").items() if text == "Failed"}
    degraded = {row for row, text in agreement.read_page("Argo CD").items() if text == "Degraded"}

    assert degraded - kstatus == {"`CheckFailed`", "`DeleteFailed`"}
    assert kstatus - degraded == set()
