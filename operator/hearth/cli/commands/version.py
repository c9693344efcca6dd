"""`hearth version`."""

from __future__ import annotations

import click

import hearth


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(hearth.__version__)
