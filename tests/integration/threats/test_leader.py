"""A leader that hangs: the replica that stands by takes over, and tenants are served."""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from pathlib import Path

import pytest

from support.threats.world import ThreatWorld

DURATION = 6.0
ELECTION = ("--leader-election", "--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s")
PROGRAM = """
import runpy, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))
sys.argv[0] = "hearth"
runpy.run_module("hearth", run_name="__main__", alter_sys=True)
"""
HANGS_ON_SIGNAL = (sys.executable, "-c", PROGRAM)
"""The operator, whose main thread sleeps once the signal comes, while its other threads run: as in a long call of C."""


@pytest.mark.operator_options(*ELECTION)
def test_the_standby_takes_over_from_a_leader_that_hangs(threats: ThreatWorld, tmp_path: Path) -> None:
    """Within twice the time of the Lease: once for the silence, once for what is left of it."""
    leader = threats.operator
    leader.kill()
    leader.program = HANGS_ON_SIGNAL
    leader.start()
    threats.canary(within=2 * DURATION + 10)
    standby = dataclasses.replace(leader, log_file=tmp_path / "standby.log", port=0, process=None)
    standby.start()
    try:
        assert leader.process is not None
        leader.process.send_signal(signal.SIGUSR1)
        began = time.monotonic()
        threats.operator = standby
        threats.canary(within=2 * DURATION + 5)
        print(f"served again after {time.monotonic() - began:.1f} s")

        assert leader.process.wait(timeout=1) == 1
        assert "its event loop hangs" in leader.read_log()
        assert standby.get("/healthz").is_ok
    finally:
        standby.kill()
        threats.operator = leader
