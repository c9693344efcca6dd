"""Random wishes, at random moments, in a world that fails: what a Stack comes to is what its user asked for."""

from __future__ import annotations

import os
import random

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from support.machine.rules import Wishes

QUICK = settings(
    max_examples=100,
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
SEED = "HEARTH_SOAK_SEED"
EXAMPLES = "HEARTH_SOAK_EXAMPLES"


def test_whatever_is_wished_comes_true() -> None:
    """The same steps in every run of the tests: about three thousand."""
    run_state_machine_as_test(Wishes, settings=QUICK)


@pytest.mark.soak
def test_whatever_is_wished_comes_true_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Other steps in every run, unless `HEARTH_SOAK_SEED` says which; `HEARTH_SOAK_EXAMPLES`: how many beginnings."""
    seed = int(os.environ.get(SEED) or random.randrange(2**32))
    with capsys.disabled():
        print(f"\nrandom wishes: {SEED}={seed} brings the same ones again")
    longer = settings(
        QUICK,
        derandomize=False,
        database=None,
        max_examples=int(os.environ.get(EXAMPLES) or 5_000),
        stateful_step_count=60,
    )
    run_state_machine_as_test(hypothesis.seed(seed)(Wishes), settings=longer)
