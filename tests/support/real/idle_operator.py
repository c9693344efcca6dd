"""The operator's process with an engine that does nothing, for tests of the process life cycle: see `unit/test_app.py`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from hearth import app
from hearth.kube.auth.credentials import CredentialSource
from hearth.serve.metrics import Metrics
from hearth.settings import Address, Settings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRuntime:
    """Does nothing; ends at once, or never."""

    hangs: bool

    async def start(self) -> None:
        """At once."""

    async def stop(self) -> None:
        """Report the stop, unless it hangs."""
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        log.info("engine stopped")

    def on_kinds(self) -> None:
        """Not relevant here."""

    async def reconcile_definition(self, name: str) -> None:
        """Not relevant here."""

    def find_dead_watches(self) -> Sequence[str]:
        """No watch is dead."""
        return ()

    def find_not_ready(self) -> Sequence[str]:
        return ()

    def count_cached_bytes(self) -> Mapping[str, float]:
        return {}

    def count_cached_objects(self) -> Mapping[str, float]:
        return {}

    def count_writes(self) -> Mapping[str, float]:
        """As the protocol says."""
        return {}

    def measure_clusters(self) -> Mapping[str, Mapping[str, float]]:
        return {}

    def count_elsewhere(self) -> int:
        return 0

    def count_stacks(self) -> Mapping[str, float]:
        return {}

    def count_conditions(self) -> Mapping[str, float]:
        return {}

    def count_definitions(self) -> Mapping[str, float]:
        """As the protocol says."""
        return {}

    def measure_actions(self) -> Mapping[str, float]:
        return {}


def main() -> int:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig")
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--profile")
    parser.add_argument("--grace", type=float, default=app.SHUTDOWN_TIMEOUT)
    options = parser.parse_args()
    settings = Settings(
        kubeconfig=options.kubeconfig,
        log_format="json",
        http_address=Address(host="127.0.0.1", port=0),
        # No API server answers.
        ignore_leader=True,
        profile=options.profile,
    )

    def build(
        _settings: Settings, _source: CredentialSource, _metrics: Metrics, _on_elsewhere: Callable[[], None]
    ) -> IdleRuntime:
        return IdleRuntime(hangs=options.hang)

    return app.run(settings, build=build, grace=options.grace)


if __name__ == "__main__":
    sys.exit(main())
