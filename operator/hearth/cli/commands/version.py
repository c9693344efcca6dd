"""`hearth version`."""

from __future__ import annotations

import json
import platform

import click

import hearth
from hearth.model import names


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print an object with the versions of program, API and Python.")
def version(*, is_json: bool) -> None:
    """Print the version."""
    if is_json:
        described = {
            "version": hearth.__version__,
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "python": platform.python_version(),
            "platform": f"{platform.system()}/{platform.machine()}".lower(),
        }
        click.echo(json.dumps(described))
    else:
        click.echo(hearth.__version__)
