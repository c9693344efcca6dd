"""The code that `make mutants` changes still exists. Otherwise, only its next run would report this."""

from __future__ import annotations

import pytest

from mutants import run
from mutants.run import Mutant


@pytest.mark.parametrize("mutant", run.load(), ids=lambda mutant: mutant.rule)
def test_every_rule_is_where_it_is_broken(mutant: Mutant) -> None:
    assert mutant.find_in(run.ROOT) is not None
