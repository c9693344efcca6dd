"""`hearth lsp`: starts the language server for editors."""

from __future__ import annotations

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_views import safe_text
from hearth.model import errors


@example_command("hearth lsp", "hearth lsp --schemas ./schemas", "hearth lsp --cluster --context staging")
@click.option(
    "--schemas",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of JSON schemas for kinds that are not built into Kubernetes, in kubeconform's layout.",
)
@click.option("--stdio", is_flag=True, help="Accepted because many editors pass it; stdio is the only transport.")
@click.option(
    "--cluster", "uses_cluster", is_flag=True, help="Use the kinds and schemas that the cluster serves at startup."
)
@cluster_options.cluster_options
def lsp(
    cluster: ClusterOptions,
    schemas: str | None,
    *,
    stdio: bool,  # noqa: ARG001 -- there is nothing to choose
    uses_cluster: bool,
) -> None:
    """Run the language server: mistakes, completion, hover, definition and rename for Stacks in an editor.

    An editor starts it, and speaks the Language Server Protocol over standard input and output. It writes no file,
    and asks a cluster only with --cluster. It needs the extra lsp: pip install 'hearth[lsp]'.
    """
    try:
        from hearth.cli.language_server import server
        from hearth.cli.language_server.kinds_source import KindsSource
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.ClickException("pygls is not installed; run pip install 'hearth[lsp]'") from error
    try:
        server.serve(KindsSource(schemas=schemas or "", cluster=cluster if uses_cluster else None))
    except errors.HearthError as error:
        raise click.ClickException(safe_text.clean(str(error))) from error
