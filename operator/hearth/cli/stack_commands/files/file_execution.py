"""Reads files, compiles the Stacks in them, and writes mistakes or manifests."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import yaml

from hearth.cli import text_files
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.files import line_numbers, sarif, stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kinds
from hearth.plan.resource import definition_warnings
from hearth.sandbox import offline
from hearth.sandbox.offline import OfflineEvaluator
from hearth.template.text import kubectl_yaml

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.template.blueprint import Blueprint
    from hearth.template.cel.evaluation import Evaluator

DONE, FAILED = 0, 1


def read_texts(files: Sequence[str]) -> dict[str, str]:
    """Return the files with their content. Ends the program if one cannot be read."""
    return {file: text_files.read(file) for file in files}


def find_stacks(texts: Mapping[str, str], *, kinds: Collection[str]) -> list[StackFile]:
    """Return the Stacks in the texts. kinds: Stack, ResourceGroup, or both. Ends the program if one is no YAML."""
    documents: dict[str, Sequence[Any]] = {}
    for file, text in texts.items():
        try:
            documents[file] = [document.value for document in kubectl_yaml.parse_documents(text)]
        except yaml.YAMLError as error:
            message = f"{file} is not valid YAML: {kubectl_yaml.describe(error)}"
            raise click.ClickException(safe_text.clean(message)) from error
    return stack_files.find_stacks(documents, kinds=kinds)


def read_stacks(files: Sequence[str], *, kinds: Collection[str] = (names.STACK,)) -> list[StackFile]:
    """Return the Stacks in the files. Ends the program if a file cannot be read, or there is no Stack.

    kinds: as for `find_stacks`.
    """
    stacks = find_stacks(read_texts(files), kinds=kinds)
    if not stacks:
        raise click.ClickException(safe_text.clean(f"there is no Stack in {', '.join(files)}"))
    return stacks


def with_kinds(
    cluster: ClusterOptions, stacks: Sequence[StackFile], *, schemas: str | None, uses_cluster: bool, act: Any
) -> NoReturn:
    """Call `act` with the kinds, from the cluster or the folder, and end the program with its exit code."""
    if not uses_cluster:
        raise SystemExit(act(FolderKinds(Path(schemas) if schemas else None)))

    async def work(session: Session) -> int:
        await session.kinds.refresh()
        pairs = {pair for found in stacks for pair in list_kinds(found)}
        await session.schemas.load([kind for pair in pairs if (kind := session.kinds.find(*pair)) is not None])
        code: int = act(session.kinds)
        return code

    cluster_options.run(cluster, work)


def list_kinds(found: StackFile) -> list[tuple[str, str]]:
    """Return apiVersion and kind of each manifest in a Stack, none if it has no template."""
    from hearth.cli import object_fields

    if found.is_group:
        manifest = object_fields.mapping(found.manifest, "spec", "template", "manifest")
        return [(object_fields.text(manifest, "apiVersion"), object_fields.text(manifest, "kind"))]
    try:
        resources = object_fields.mapping(stack_files.find_template(found), "resources")
    except errors.InvalidDefinition:
        return []
    manifests = [object_fields.mapping(each, "manifest") for each in resources.values()]
    return [(object_fields.text(each, "apiVersion"), object_fields.text(each, "kind")) for each in manifests]


def lint(
    cluster: ClusterOptions,
    files: Sequence[str],
    *,
    schemas: str | None,
    uses_cluster: bool,
    output: str,
    allows_none: bool = False,
) -> NoReturn:
    """Write the mistakes, and end the program. allows_none: whether files without a Stack are no error."""
    texts = read_texts(files)
    stacks = find_stacks(texts, kinds=names.STACK_KINDS)
    if not stacks and not allows_none:
        raise click.ClickException(safe_text.clean(f"there is no Stack in {', '.join(files)}"))

    def act(kinds: Kinds) -> int:
        with evaluating() as evaluator:
            found = [mistake for each in stacks for mistake in find_mistakes(each, kinds, evaluator)]
        for mistake in found:
            mistake["line"] = line_numbers.find_line(
                texts[mistake["file"]], mistake["stack"], mistake["path"], kind=mistake["kind"]
            )
        write_mistakes(found, output=output, stacks=stacks)
        return FAILED if found else DONE

    with_kinds(cluster, stacks, schemas=schemas, uses_cluster=uses_cluster, act=act)


def write_mistakes(found: Sequence[Object], *, output: str, stacks: Sequence[StackFile]) -> None:
    """Write the mistakes. stacks: those that were checked."""
    match output:
        case "json":
            text_output.write_object(found, output="json")
        case "sarif":
            text_output.write_object(sarif.report(found), output="json")
        case _ if found:
            for mistake in found:
                text_output.write_text(f"{mistake['file']}: {stack_files.describe_mistake(mistake)}")
        case _:
            click.echo(f"{count_kinds(stacks)}: no mistake")


def count_kinds(stacks: Sequence[StackFile]) -> str:
    """Return how many Stacks and ResourceGroups there are: `2 Stacks, 1 ResourceGroup`."""
    groups = sum(each.is_group for each in stacks)
    counts = {names.STACK: len(stacks) - groups, names.GROUP_KIND: groups}
    found = [f"{count} {kind}{'s'[: count != 1]}" for kind, count in counts.items() if count]
    return ", ".join(found) or "0 Stacks"


def find_mistakes(found: StackFile, kinds: Kinds, evaluator: Evaluator) -> list[Object]:
    """Return the mistakes of one Stack."""
    try:
        warn(found, stack_files.compile_stack(found, kinds, evaluator=evaluator))
    except errors.InvalidDefinition as error:
        where = {"file": found.source, "kind": found.manifest["kind"], "stack": found.identity.name}
        return [{**where, "path": mistake.path, "message": mistake.message} for mistake in error.mistakes]
    except errors.SourceNotFound as unknown:
        click.echo(safe_text.clean(f"note: {found.source}: {found.title}: not checked: {unknown}"), err=True)
    return []


def evaluating() -> contextlib.closing[OfflineEvaluator]:
    """Return the evaluator of expressions that may take long, for the time of one command."""
    return contextlib.closing(offline.OfflineEvaluator())


def warn(found: StackFile, blueprint: Blueprint) -> None:
    """Write what is allowed and probably not meant."""
    for warning in definition_warnings.find_warnings(blueprint):
        click.echo(safe_text.one_line(f"warning: {found.source}: {found.title}: {warning}"), err=True)


def render(cluster: ClusterOptions, files: Sequence[str], *, schemas: str | None, uses_cluster: bool) -> NoReturn:
    """Write the manifests, and end the program."""
    stacks = read_stacks(files, kinds=names.STACK_KINDS)

    def act(kinds: Kinds) -> int:
        code = DONE
        with evaluating() as evaluator:
            for found in stacks:
                try:
                    write_manifests(found, stack_files.compile_stack(found, kinds, evaluator=evaluator))
                except errors.HearthError as error:
                    cluster_options.complain(f"error: {found.source}: {found.title}: {error}")
                    code = FAILED
        return code

    with_kinds(cluster, stacks, schemas=schemas, uses_cluster=uses_cluster, act=act)


def write_manifests(found: StackFile, blueprint: Blueprint) -> None:
    """Write the manifests of one Stack as documents; sensitive values are replaced."""
    from hearth.model.text import redaction

    for name, manifest, why in stack_files.render(found, blueprint):
        click.echo(f"---\n# {safe_text.one_line(name)}{': ' + safe_text.one_line(why) if why else ''}")
        if manifest is not None:
            text_output.write_object(redaction.redact_within(manifest, blueprint.sensitive_texts), output="yaml")
