"""`hearth lsp`: starts the language server for editors."""

from __future__ import annotations

import click

from hearth.cli.command_classes import example_command


@example_command("hearth lsp", "hearth lsp --schemas ./schemas")
@click.option(
    "--schemas",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of JSON schemas for kinds that are not Kubernetes' own, in kubeconform's layout.",
)
@click.option("--stdio", is_flag=True, help="Accepted because many editors pass it; there is no other transport.")
def lsp(schemas: str | None, *, stdio: bool) -> None:  # noqa: ARG001 -- there is nothing to choose
    """Run the language server: mistakes, completion, hover, definition and rename for Stacks in an editor.

    An editor starts it, and speaks the Language Server Protocol over standard input and output. It reads no cluster and
    writes no file. It needs the extra lsp: pip install 'hearth[lsp]'.
    """
    try:
        from hearth.cli.language_server import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.ClickException("pygls is not installed; run pip install 'hearth[lsp]'") from error
    server.serve(schemas or "")
