"""The share of a core that one other cluster may take."""

from __future__ import annotations

from hearth.kube.remote.tenant_share import CpuBudget


def test_a_burst_is_free_and_more_is_paid_for_by_waiting() -> None:
    """In the long run the share is kept."""
    budget, now, worked = CpuBudget(share=0.1, burst=1.0), 100.0, 0.0

    assert budget.charge(now, now + 0.9) == 0
    now += 0.9
    for _ in range(50):
        pause = budget.charge(now, now + 0.05)
        worked += 0.05
        now += 0.05 + pause

    assert worked / (now - 100.9) < 0.11


def test_an_idle_source_regains_no_more_than_a_burst() -> None:
    """A day of silence buys no hour of work."""
    budget = CpuBudget(share=0.1, burst=1.0)
    budget.charge(0.0, 1.0)

    assert budget.charge(86_400.0, 86_401.0) == 0
    assert budget.charge(86_401.0, 86_401.5) > 3
