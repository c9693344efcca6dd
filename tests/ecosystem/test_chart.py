"""The chart as Helm reads it."""

from __future__ import annotations

import go_programs

from support.ecosystem import helm as helm_program
from support.ecosystem.helm import Helm


def test_helm_is_the_version_that_is_pinned(helm: Helm) -> None:
    """Its own answer."""
    pinned = go_programs.read_pin(helm_program.MODULE, "helm.sh/helm/v4")

    assert pinned in helm.call("version", "--template={{.Version}}")
