"""`hearth schema`: prints JSON Schemas of Hearth's kinds and of StackDefinitions' kinds, for editors and linters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, ClusterOptions
from hearth.cli.stack_commands.files import file_commands
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.files import editor_schemas, stack_files
from hearth.cli.stack_views.files.editor_schemas import KindSchema
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import errors, names, object_fields
from hearth.template.text import error_hints

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

ANY: Final = "all.json"
"""The file with the schema of all kinds."""
API_NAME: Final = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?")
"""A group, version or kind."""


@example_command(
    "hearth schema > hearth.schema.json",
    "hearth schema --directory schemas",
    "hearth schema -f webapps.yaml --kind WebApp > webapp.schema.json",
    "hearth schema --cluster --directory schemas",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Write one file per kind, and {ANY} for all kinds, to this folder, and print nothing. Creates the folder.",
)
@click.option("--kind", metavar="KIND", help="Print the schema of this kind, e.g. Stack, instead of one for all kinds.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="YAML or JSON file, or folder, with StackDefinitions, whose kinds are added; - is standard input. Repeatable.",
)
@click.option("--cluster", "uses_cluster", is_flag=True, help="Add the kinds of the StackDefinitions in the cluster.")
@cluster_options.cluster_options
def schema(
    cluster: ClusterOptions, directory: Path | None, kind: str | None, files: tuple[str, ...], *, uses_cluster: bool
) -> None:
    """Print JSON Schemas of Hearth's kinds, for YAML language servers and kubeconform.

    The schema for all kinds checks an object by its apiVersion and kind, and accepts objects of other kinds. The files
    in a folder are in kubeconform's layout, which `kubectl stack lint --schemas` also reads.
    """
    if directory is not None and kind is not None:
        raise click.UsageError("--kind prints one schema and --directory writes all of them; use one of the two")
    known = {each.key: each for each in [*list_own(), *read_definitions(files)]}

    async def work(session: Session) -> int:
        write({**known, **{each.key: each for each in await get_definitions(session)}}, directory=directory, kind=kind)
        return DONE

    if uses_cluster:
        cluster_options.run(cluster, work)
    write(known, directory=directory, kind=kind)


def list_own() -> Iterator[KindSchema]:
    """Yield the schemas of Hearth's own kinds."""
    # The models take long to import, and `--help` does not need them.
    from hearth.cli.stack_views.stack_tests.stack_test_models import StackTest
    from hearth.model.api import crd

    yield from map(editor_schemas.read_definition, crd.make_crds())
    tests = crd.make_root_schema(StackTest)
    yield editor_schemas.make_schema(tests, group=names.GROUP, version=names.VERSION, kind=StackTest.__name__)


def read_definitions(files: Sequence[str]) -> list[KindSchema]:
    """Return the schemas of the kinds that StackDefinitions in files define.

    Ends the program if a StackDefinition has mistakes.
    """
    documents = file_commands.read_documents(files)
    found = stack_files.find_stacks(documents, kinds=(names.DEFINITION_KIND,))
    if files and not found:
        message = f"there is no StackDefinition in {', '.join(files)}; pass a file that contains one with -f"
        raise click.ClickException(safe_text.clean(message))
    with file_commands.evaluating() as evaluator:
        listed = [
            f"{each.source}: {stack_files.describe_mistake(mistake)}"
            for each in found
            for mistake in file_commands.find_mistakes(each, FolderKinds(None), evaluator)
        ]
    if listed:
        message = "\n".join(["cannot generate a schema for an invalid definition:", *listed])
        raise click.ClickException(safe_text.clean(message))
    return [read_definition(each) for each in found]


def read_definition(file: StackFile) -> KindSchema:
    """Return the schema of the kind of a StackDefinition without mistakes."""
    from hearth.template.instances import instance_schema

    spec = object_fields.mapping(stack_files.include_template(file).manifest, "spec")
    return editor_schemas.read_definition(instance_schema.make_crd(spec))


async def get_definitions(session: Session) -> list[KindSchema]:
    """Return the schemas of all kinds of StackDefinitions, as the cluster publishes them.

    Only listing StackDefinitions needs a permission: every user may read published schemas.
    """
    from hearth.model.well_known_kinds import STACK_DEFINITION

    found: list[KindSchema] = []
    for definition in await session.list(STACK_DEFINITION):
        kind = find_kind(definition)
        # The names become file paths, and the cluster may be hostile.
        is_valid = all(map(API_NAME.fullmatch, kind.values()))
        published = await get_published(session, kind) if is_valid else None
        if published is None:
            name = object_fields.text(definition, "metadata", "name")
            message = "the cluster does not publish the schema of its kind; its Ready condition says why"
            text_output.write_warning(f"stackdefinition/{name}: {message}")
            continue
        found.append(
            editor_schemas.make_schema(published, group=kind["group"], version=kind["version"], kind=kind["kind"])
        )
    return found


def find_kind(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the group, version and kind that a StackDefinition defines, as published schemas name them."""
    spec = object_fields.mapping(definition, "spec")
    version = next((object_fields.text(each, "name") for each in object_fields.entries(spec, "versions")), "")
    return {
        "group": object_fields.text(spec, "group"),
        "version": version,
        "kind": object_fields.text(spec, "names", "kind"),
    }


async def get_published(session: Session, kind: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the schema of a kind, including the descriptions that the schema caches omit; None if it is not served."""
    path = f"/openapi/v3/apis/{kind['group']}/{kind['version']}"
    try:
        document = await session.connection.request("GET", path)
    except errors.ApiStatusError as refused:
        if not refused.is_not_found:
            raise
        return None
    for each in object_fields.mapping(document, "components", "schemas").values():
        if kind in object_fields.entries(each, "x-kubernetes-group-version-kind") and "properties" in each:
            return dict(each)
    return None


def write(known: Mapping[str, KindSchema], *, directory: Path | None, kind: str | None) -> None:
    """Write the schemas to a folder, or one of them to standard output. Ends the program if that is not possible."""
    schemas = list(known.values())
    if directory is not None:
        try:
            write_folder(schemas, directory)
        except OSError as error:
            message = f"cannot write to folder {directory}: {error.strerror}; pass another one with --directory"
            raise click.ClickException(safe_text.clean(message)) from error
        return
    if kind is None:
        click.echo(write_json(editor_schemas.write_any(schemas)), nl=False)
        return
    chosen = next((each for each in schemas if each.kind.lower() == kind.lower()), None)
    if chosen is None:
        hint = error_hints.did_you_mean(kind, [each.kind for each in schemas])
        message = (
            f"there is no kind {error_hints.quote(kind)}{hint}; add kinds of StackDefinitions with -f or --cluster"
        )
        raise click.ClickException(safe_text.clean(message))
    click.echo(write_json(editor_schemas.write_one(chosen)), nl=False)


def write_folder(schemas: Sequence[KindSchema], directory: Path) -> None:
    """Write one file per kind, and one for all kinds."""
    for each in schemas:
        file = directory / each.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(write_json(editor_schemas.write_one(each)), encoding="utf-8")
    (directory / ANY).write_text(write_json(editor_schemas.write_any(schemas)), encoding="utf-8")


def write_json(content: Mapping[str, Any]) -> str:
    """Return a schema as the text of a file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
