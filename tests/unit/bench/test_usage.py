"""What is read of processes and of the machine."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from bench.instruments import lab, usage
from bench.instruments.lab import Moment


def make_moment(*, machine: float, known: float) -> Moment:
    """Only CPU is of interest."""
    return Moment(
        time=0.0, machine_cpu=machine, known_cpu=known, control_plane_cpu=0.0, operator_cpu=0.0, requests=Counter()
    )


def test_the_name_of_a_process_does_not_confuse() -> None:
    """It may hold spaces and brackets; user and system time count both."""
    assert usage.parse_cpu("7 (a) b) S 1 7 7 0 -1 4194560 10 0 0 0 250 50 9 9 20 0 1") == 300


def test_waiting_is_no_work() -> None:
    """Neither idling nor waiting for a disk; time stolen by other machines is work of others."""
    assert usage.parse_machine_cpu("cpu  10 1 5 9999 888 2 3 4 0 0\ncpu0 1 1 1 1") == 25


def test_our_own_process_uses_something() -> None:
    """The real files of this machine."""
    assert usage.read_peak_memory(os.getpid()) > 1024 * 1024
    assert usage.read_cpu([os.getpid()]) > 0
    assert usage.read_machine_cpu() > usage.read_cpu([os.getpid()])


def test_a_process_that_is_gone_uses_nothing() -> None:
    """It may end between two looks."""
    assert usage.read_cpu([2**22 + 1]) == 0
    assert usage.read_peak_memory(2**22 + 1) == 0


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        pytest.param((10, 10), (20, 20), 0.0, id="all of it was ours"),
        pytest.param((10, 10), (20, 15), 0.5, id="half of it was ours"),
        pytest.param((10, 10), (20, 21), 0.0, id="rounding gives no negative share"),
        pytest.param((10, 10), (10, 10), 0.0, id="nothing happened"),
    ],
)
def test_what_others_took(before: tuple[int, int], after: tuple[int, int], share: float) -> None:
    """Of the CPU of the machine."""
    moments = [make_moment(machine=machine, known=known) for machine, known in (before, after)]
    assert lab.find_others_share(*moments) == pytest.approx(share)
