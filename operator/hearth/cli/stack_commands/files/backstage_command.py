"""`kubectl stack backstage`: writes a Backstage software template for a StackDefinition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, ClusterOptions, Failure
from hearth.cli.stack_commands.files import file_commands
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.files import stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import errors, names, object_fields
from hearth.template.text import error_hints, kubectl_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hearth.cli.stack_access.session import Session
    from hearth.cli.stack_views.files.backstage_template import BackstageTemplate

HOSTS: Final = ("github", "gitlab")
TEMPLATE_FILE: Final = "template.yaml"


@example_command(
    "kubectl stack backstage webapps.platform.example --directory backstage/webapp",
    "kubectl stack backstage -f webapps.yaml --directory backstage/webapp --owner team-platform",
    "kubectl stack backstage webapp --directory backstage/webapp --publish gitlab --folder clusters/prod",
)
@click.argument("definition", metavar="[DEFINITION]", required=False)
@click.option(
    "-f", "--filename", "file", metavar="FILE", help="File with the StackDefinition, instead of the one in the cluster."
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help=f"Folder to write {TEMPLATE_FILE} and its skeleton to. Created if it does not exist.",
)
@click.option("--owner", default="platform", show_default=True, help="Owner of the template in the Backstage catalog.")
@click.option(
    "--publish",
    type=click.Choice(HOSTS, case_sensitive=False),
    default=HOSTS[0],
    show_default=True,
    help="Code host where the template opens a pull or merge request.",
)
@click.option("--folder", default=".", show_default=True, help="Folder of the manifests in the target repository.")
@cluster_options.cluster_options
def backstage(  # noqa: PLR0913 -- each is an option
    cluster: ClusterOptions,
    definition: str | None,
    file: str | None,
    directory: Path,
    owner: str,
    publish: str,
    folder: str,
) -> None:
    """Write a Backstage software template that creates an instance of a StackDefinition.

    Its form has a field for each parameter, with the parameter's rules. It proposes the manifest in a pull request.
    DEFINITION is the name of the StackDefinition, or its kind or plural.
    """
    # This imports the models of all kinds, which `--help` does not need.
    from hearth.cli.stack_views.files import backstage_template

    if bool(definition) == bool(file):
        raise click.UsageError("specify DEFINITION, or a file with -f FILE")

    def finish(found: StackFile) -> None:
        spec = object_fields.mapping(found.manifest, "spec")
        made = backstage_template.make_template(spec, owner=owner, destination=publish, folder=folder)
        write(made, directory)

    if file is not None:
        (found, *others) = file_commands.read_stacks([file], kinds=(names.DEFINITION_KIND,))
        if others:
            raise click.ClickException(safe_text.clean(f"{file} contains several StackDefinitions; split the file"))
        finish(complete(found))
        return

    async def work(session: Session) -> int:
        from hearth.cli.stack_access import stack_previews

        live = await get_definition(session, str(definition))
        finish(check(await stack_previews.include_template(session, live)))
        return DONE

    cluster_options.run(cluster, work)


def complete(file: StackFile) -> StackFile:
    """Return a StackDefinition with the template in its spec. Ends the program if it has mistakes."""
    try:
        return check(stack_files.include_template(file))
    except errors.HearthError as error:
        raise click.ClickException(safe_text.clean(f"{file.source}: {file.title}: {error}")) from error


def check(file: StackFile) -> StackFile:
    """Return a StackDefinition, with the template in its spec. Raises Failure if it has mistakes."""
    with file_commands.evaluating() as evaluator:
        mistakes = stack_files.find_definition_mistakes(file, FolderKinds(None), evaluator)
    if mistakes:
        raise Failure("; ".join(map(str, mistakes)))
    return file


async def get_definition(session: Session, named: str) -> StackFile:
    """Return a StackDefinition of the cluster. named: its name, kind or plural. Raises Failure."""
    from hearth.model.well_known_kinds import STACK_DEFINITION

    known = await session.list(STACK_DEFINITION)
    found = [each for each in known if named.lower() in list_names(each)]
    if len(found) != 1:
        every = [object_fields.text(each, "metadata", "name") for each in (found or known)]
        hint = "" if found else error_hints.did_you_mean(named, [word for each in known for word in list_names(each)])
        problem = f"{len(found)} StackDefinitions match" if found else "there is no StackDefinition"
        listed = error_hints.list_words(every) or "none"
        raise Failure(f"{problem} {error_hints.quote(named)}{hint}; use one of these names: {listed}")
    manifest = {"apiVersion": STACK_DEFINITION.api_version, "kind": names.DEFINITION_KIND, **found[0]}
    return StackFile(source="the cluster", manifest=manifest, beside=())


def list_names(definition: Mapping[str, Any]) -> list[str]:
    """Return the names that a user may use for a StackDefinition, in lowercase."""
    stated = object_fields.mapping(definition, "spec", "names")
    short = [object_fields.text(stated, word).lower() for word in ("kind", "plural", "singular")]
    return [object_fields.text(definition, "metadata", "name"), *filter(None, short)]


def write(made: BackstageTemplate, directory: Path) -> None:
    """Write the files of a template. Ends the program if that is not possible."""
    skeleton = directory / made.skeleton_file
    try:
        skeleton.parent.mkdir(parents=True, exist_ok=True)
        skeleton.write_text(made.skeleton, encoding="utf-8")
        (directory / TEMPLATE_FILE).write_text(kubectl_yaml.write(made.template), encoding="utf-8")
    except OSError as error:
        message = f"cannot write to folder {directory}: {error.strerror}; pass another one with --directory"
        raise click.ClickException(safe_text.clean(message)) from error
    text_output.write_note(f"wrote {directory / TEMPLATE_FILE}; register it in the catalog of Backstage")
