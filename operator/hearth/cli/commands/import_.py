"""`kubectl stack import` and `hearth import`: converts files of plain manifests to one Stack on standard output.

Knows files; `hearth.cli.importer` does the work.
"""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.importer import stack_assembly, stack_division
from hearth.cli.importer.manifest_documents import SourceText
from hearth.model import errors, limits, packing
from hearth.template.text import kubectl_yaml

STANDARD_INPUT = "-"
GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of every gzip file."""
UNNAMED = "imported"
LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def check_label(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001 -- click calls it so
    """Return `value` if it is a valid name in Kubernetes."""
    if value is not None and not LABEL.fullmatch(value):
        raise click.BadParameter(f"{value!r} must be at most 63 lower-case letters, digits and dashes, e.g. my-shop")
    return value


@click.command(
    "import",
    cls=ExampleCommand,
    examples=(
        "kubectl stack import shop.yaml database.yaml > stack.yaml",
        "kubectl get deployments,services -o yaml | kubectl stack import --adopt --name shop -",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--name", callback=check_label, help="Name of the Stack. Default: the name of the first file.")
@click.option(
    "--namespace",
    callback=check_label,
    help="Namespace of the Stack and of all objects that set none. Default: where it is applied.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Let the Stack take over the objects that exist already (spec.adoptionPolicy: Adopt).",
)
def import_(files: tuple[str, ...], name: str | None, namespace: str | None, *, adopt: bool) -> None:
    """Convert plain manifests to one Stack on standard output.

    FILE... are YAML or JSON with any number of documents and lists, optionally compressed by gzip; `-` is standard
    input. Each manifest becomes a resource. Objects keep their names, and resources wait for the objects that they
    reference. What a cluster added to exported manifests is dropped: status, defaults, addresses, and objects that
    controllers make (the Pods of a Deployment). A Stack that is too large for one object is written as compressed ConfigMaps and a Stack that references
    them.
    """
    try:
        texts = [read(file) for file in files]
        result = stack_assembly.assemble(texts, name=name or name_after(files[0]), namespace=namespace, adopts=adopt)
    except errors.InvalidDefinition as error:
        for mistake in error.mistakes:
            click.echo(f"error: {mistake}", err=True)
        raise SystemExit(1) from error
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"# Made by `hearth import` from {', '.join(text.source for text in texts)}.")
    objects = stack_division.divide(result.stack)
    if len(objects) > 1:
        count = len(objects) - 1
        message = f"the template is too large for one object: it is in {count} compressed ConfigMap{'s'[: count > 1]}"
        click.echo(f"note: {message}, which the Stack names in spec.templateRefs", err=True)
    click.echo("---\n".join(map(kubectl_yaml.write, objects)), nl=False)


def read(file: str) -> SourceText:
    """Read a file, decompressed if needed. Ends the program if it cannot be read."""
    source = "standard input" if file == STANDARD_INPUT else quote(file)
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        if content.startswith(GZIP_MAGIC):
            content = packing.inflate(content, limit=limits.IMPORT_BYTES)
        return SourceText(source=source, content=content.decode())
    except UnicodeDecodeError as error:
        message = f"{source} is not valid UTF-8: {error.reason} at byte {error.start}"
        raise click.ClickException(message) from error
    except (ValueError, zlib.error) as error:
        raise click.ClickException(f"cannot decompress {source}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"cannot read {source}: {error.strerror}") from error


def quote(file: str) -> str:
    """Return the name of a file on one line. A line break would end the comment around it and start a document."""
    return file if file.isprintable() else ascii(file)


def name_after(file: str) -> str:
    """Return a name for a Stack from the name of a file: `online-boutique` for `data/Online_Boutique.yaml.gz`."""
    words = re.findall(r"[a-z0-9]+", Path(file.removesuffix(".gz")).stem.lower())
    return "-".join(words)[:63].strip("-") or UNNAMED
