"""Entry points of `hearth`, of `kubectl stack`, and of the process for other clusters.

The command line (`hearth.cli`) receives `run` as an argument, because it does not import the operator.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from hearth import imports
from hearth.cli import main as cli

if TYPE_CHECKING:
    from hearth.settings import Settings


def run(settings: Settings) -> int:
    """Run the operator until it is stopped; return the exit code."""
    # Imported late, so that `hearth --help` does not load the whole operator.
    with imports.freeze_garbage_collector():
        with imports.hide_package("rich"):
            # structlog imports rich to format tracebacks. The operator formats them itself (see `hearth.serve.logs`).
            importlib.import_module("structlog")
        from hearth import app

    return app.run(settings)


def main() -> None:
    """Run `hearth` with the arguments of this process."""
    cli.main(prog_name="hearth", obj=cli.Programs(run=run))


def serve_clusters() -> None:
    """Serve the Stacks of other clusters, with the settings that the parent process sends."""
    from hearth import clusters_process

    raise SystemExit(run(clusters_process.receive(sys.stdin.buffer)))


def kubectl_stack() -> None:
    """Run `kubectl stack` with the arguments of this process. kubectl finds the plugin by its executable's name."""
    from hearth.cli.stack_commands import stack_group

    stack_group.stack(prog_name="kubectl stack")


def complete_kubectl_stack() -> None:
    """Complete a command line of `kubectl stack`. kubectl passes its words; the last one may be unfinished."""
    from hearth.cli.stack_commands import stack_group

    stack_group.complete()


if __name__ == "__main__":
    main()
