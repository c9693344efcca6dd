"""`kubectl stack lint` and `render`: compile Stacks in files, with schemas from a cluster or a folder."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import click
import yaml

from hearth.cli import text_files
from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import built_in_schemas
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, FAILED, ClusterOptions
from hearth.cli.stack_commands.parameters import files_option, output_option
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.files import file_schema, rendering, stack_files, stack_lint
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import errors, members, names, object_fields, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.model.kinds import Kinds
from hearth.plan.resource import definition_warnings
from hearth.sandbox import process
from hearth.sandbox.process import OfflineEvaluator
from hearth.template.text import kubectl_yaml

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.template.blueprint import Blueprint
    from hearth.template.cel.evaluation import Evaluator


Warn: TypeAlias = Callable[[StackFile, str], None]
"""Receives a warning or note about one Stack."""
LINTED: Final = (*names.STACK_KINDS, well_known_kinds.STACK_TEMPLATE.name, names.DEFINITION_KIND)
"""The kinds that `lint` checks."""
UNKNOWN: Final = ("is not defined", "there is no ", "is not known", "did you mean")
"""Phrases of mistakes that no parameter value can fix."""


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `lint` and `render` share."""
    add_files = files_option(
        text="YAML or JSON file, optionally compressed with gzip, or a folder of such files; - is standard input. Repeatable."
    )
    add_schemas = click.option(
        "--schemas",
        type=click.Path(exists=True, file_okay=False),
        help="Folder of JSON schemas, in kubeconform's layout.",
    )
    add_cluster = click.option(
        "--cluster", "uses_cluster", is_flag=True, help="Check against the kinds and schemas of the cluster."
    )
    return add_files(add_schemas(add_cluster(cluster_options.cluster_options(command))))


@example_command(
    "kubectl stack lint -f stack.yaml",
    "kubectl stack lint -f stack.yaml --schemas ./schemas -o json",
    "kubectl stack lint -f stack.yaml --cluster",
    "kubectl stack lint stacks/*.yaml --output sarif > lint.sarif",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@file_options
@output_option("text", "json", "sarif", default="text")
@click.option("--allow-none", "allows_none", is_flag=True, help="Do not fail if the files contain no Stack.")
def lint(  # noqa: PLR0913 -- each is an option
    cluster: ClusterOptions,
    files: tuple[str, ...],
    more: tuple[str, ...],
    schemas: str | None,
    output: str,
    *,
    uses_cluster: bool,
    allows_none: bool,
) -> None:
    """Report all mistakes of the Stacks and ResourceGroups in files.

    Objects of Kubernetes' own kinds are checked against schemas that are part of this program; other objects need
    --schemas or --cluster.

    Exit code 0: no mistake; 1: mistakes, or a file cannot be read, while all others are checked; 2: wrong usage.
    """
    if not files and not more:
        raise click.UsageError("specify a file: kubectl stack lint -f FILE")
    contents = read_files((*files, *more))
    stacks = stack_files.find_stacks(contents.documents, kinds=LINTED)
    for unreadable in contents.mistakes:
        cluster_options.complain(f"error: {unreadable}")
    if not stacks and contents.mistakes:
        raise SystemExit(FAILED)
    if not stacks and not allows_none:
        raise click.ClickException(safe_text.clean(f"there is no Stack in {', '.join((*files, *more))}"))

    def act(kinds: Kinds) -> int:
        with evaluating() as evaluator:
            found = [mistake for each in stacks for mistake in find_mistakes(each, kinds, evaluator)]
        for mistake in found:
            mistake["line"] = stack_lint.find_line(
                contents.texts[mistake["file"]], mistake["stack"], mistake["path"], kind=mistake["kind"]
            )
        if found or not contents.mistakes or output != "text":
            write_mistakes(found, output=output, stacks=stacks)
        return FAILED if found or contents.mistakes else DONE

    async def read_former(session: Session) -> None:
        stacks[:] = [await add_former(session, each, namespace=cluster.find_namespace()) for each in stacks]

    with_kinds(cluster, stacks, schemas=schemas, uses_cluster=uses_cluster, act=act, prepare=read_former)


@example_command("kubectl stack render -f stack.yaml", "kubectl stack render -f stack.yaml --external cluster.yaml")
@file_options
@click.option(
    "--external",
    "external",
    multiple=True,
    metavar="FILE",
    help="File with objects that the Stacks only read (externalRef), as printed by kubectl get -o yaml. Repeatable.",
)
def render(
    cluster: ClusterOptions,
    files: tuple[str, ...],
    external: tuple[str, ...],
    schemas: str | None,
    *,
    uses_cluster: bool,
) -> None:
    """Render the manifests of Stacks and ResourceGroups in files. Values known only at run time appear as comments."""
    if not files:
        raise click.UsageError("specify a file: kubectl stack render -f FILE")
    given = [document for found in read_documents(external).values() for document in found]
    beside = list(stack_files.flatten(given))
    stacks = [
        dataclasses.replace(each, beside=[*each.beside, *beside])
        for each in read_stacks(files, kinds=names.STACK_KINDS)
    ]

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


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FileContents:
    """The contents of all files that can be read."""

    texts: Mapping[str, str]
    """By file."""
    documents: Mapping[str, Sequence[Any]]
    """The YAML documents by file."""
    mistakes: Sequence[str]
    """One for each file or folder that cannot be read."""


def read_files(named: Sequence[str]) -> FileContents:
    """Return the contents of files and folders, with the mistakes of all that cannot be read."""
    texts: dict[str, str] = {}
    documents: dict[str, Sequence[Any]] = {}
    mistakes: list[str] = []
    files: list[str] = []
    for each in named:
        try:
            files += text_files.find(each)
        except click.ClickException as error:
            mistakes.append(error.message)
    for file in dict.fromkeys(files):
        try:
            text = text_files.read(file)
            documents[file] = [document.value for document in kubectl_yaml.parse_documents(text)]
            texts[file] = text
        except click.ClickException as error:
            mistakes.append(error.message)
        except yaml.YAMLError as error:
            mistakes.append(f"{file} is not valid YAML: {kubectl_yaml.describe(error)}")
    return FileContents(texts=texts, documents=documents, mistakes=[safe_text.one_line(each) for each in mistakes])


def read_documents(named: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """Return the documents by file. Ends the program with all mistakes if files cannot be read."""
    found = read_files(named)
    if found.mistakes:
        raise click.ClickException("\n".join(found.mistakes))
    return found.documents


def read_stacks(files: Sequence[str], *, kinds: Collection[str]) -> list[StackFile]:
    """Return the objects of these kinds in the files. Ends the program if a file cannot be read, or has none."""
    stacks = stack_files.find_stacks(read_documents(files), kinds=kinds)
    if not stacks:
        wanted = next(iter(kinds)) if len(kinds) == 1 else names.STACK
        raise click.ClickException(safe_text.clean(f"there is no {wanted} in {', '.join(files)}"))
    return stacks


def with_kinds(
    cluster: ClusterOptions,
    stacks: Sequence[StackFile],
    *,
    schemas: str | None,
    uses_cluster: bool,
    act: Callable[[Kinds], int],
    prepare: Callable[[Session], Awaitable[None]] | None = None,
) -> NoReturn:
    """Call `act` with the kinds from the cluster or the folder, and end the program with its exit code.

    prepare: reads further input if the cluster is used.
    """
    if not uses_cluster:
        raise SystemExit(act(FolderKinds(Path(schemas) if schemas else None)))

    async def work(session: Session) -> int:
        await session.kinds.refresh()
        pairs = {pair for found in stacks for pair in list_kinds(found)}
        await session.schemas.load([kind for pair in pairs if (kind := session.kinds.find(*pair)) is not None])
        if prepare is not None:
            await prepare(session)
        return act(session.kinds)

    cluster_options.run(cluster, work)


async def add_former(session: Session, stack_file: StackFile, *, namespace: str) -> StackFile:
    """Return the Stack with the resources of its namesake in the cluster. namespace: if the file has none."""
    if stack_file.is_group or stack_file.is_template or stack_file.is_definition:
        return stack_file
    namespace = object_fields.text(stack_file.manifest, "metadata", "namespace") or namespace
    with contextlib.suppress(errors.ApiStatusError):
        live = await session.find(well_known_kinds.STACK, namespace, stack_file.identity.name)
        former = definition_warnings.list_kinds(object_fields.find(live, "spec", "template"))
        return dataclasses.replace(stack_file, former=former)
    return stack_file


def list_kinds(stack_file: StackFile) -> list[tuple[str, str]]:
    """Return apiVersion and kind of each manifest in a Stack and its nested Stacks; none without a template."""
    if stack_file.is_group:
        manifest = object_fields.mapping(stack_file.manifest, "spec", "template", "manifest")
        return [(object_fields.text(manifest, "apiVersion"), object_fields.text(manifest, "kind"))]
    try:
        resources = object_fields.mapping(stack_files.find_template(stack_file), "resources")
    except errors.InvalidDefinition:
        return []
    nested = (
        object_fields.mapping(each, "spec", "template", "resources")
        for _, each, _ in stack_lint.find_nested(stack_file.manifest)
    )
    found = [each for part in (resources, *nested) for each in part.values()]
    stated = (object_fields.mapping(each, word) for each in found for word in ("manifest", "externalRef"))
    manifests = [each for each in stated if each]
    return [(object_fields.text(each, "apiVersion"), object_fields.text(each, "kind")) for each in manifests]


def write_mistakes(found: Sequence[Object], *, output: str, stacks: Sequence[StackFile]) -> None:
    """Write the mistakes. stacks: those that were checked."""
    match output:
        case "json":
            text_output.write_object(found, output="json")
        case "sarif":
            text_output.write_object(stack_lint.report_sarif(found), output="json")
        case _ if found:
            for mistake in found:
                text_output.write_text(f"{mistake['file']}: {stack_files.describe_mistake(mistake)}")
        case _:
            click.echo(f"{count_kinds(stacks)}: no mistake")


def count_kinds(stacks: Sequence[StackFile]) -> str:
    """Return the number of objects of each kind: `2 Stacks, 1 ResourceGroup`."""
    stated = [object_fields.text(each.manifest, "kind") for each in stacks]
    counts = {kind: stated.count(kind) for kind in LINTED}
    found = [f"{count} {kind}{'s'[: count != 1]}" for kind, count in counts.items() if count]
    return ", ".join(found) or "0 Stacks"


def warn(stack_file: StackFile, text: str) -> None:
    """Write a warning about a valid setting that is probably unintended."""
    text_output.write_warning(f"{stack_file.source}: {stack_file.title}: {text}")


def note(stack_file: StackFile, text: str) -> None:
    """Write a note about the result."""
    text_output.write_note(f"{stack_file.source}: {stack_file.title}: {text}")


def find_mistakes(
    stack_file: StackFile, kinds: Kinds, evaluator: Evaluator, *, warn: Warn = warn, note: Warn = note
) -> list[Object]:
    """Return the mistakes of one Stack and its nested Stacks. warn, note: receive its warnings and notes."""
    compiled = list(check_template(stack_file, kinds, evaluator, warn=warn, note=note))
    known = [mistake.path for mistake in compiled]
    found = [each for each in file_schema.find_mistakes(stack_file.manifest) if not is_known(each.path, known)]
    found += compiled
    if isinstance(kinds, FolderKinds):
        found += check_kinds(stack_file)
    if not stack_file.is_group:
        found += check_nested(stack_file, kinds, evaluator)
    where = {"file": stack_file.source, "kind": stack_file.manifest["kind"], "stack": stack_file.identity.name}
    return [{**where, "path": mistake.path, "message": mistake.message} for mistake in dict.fromkeys(found)]


def is_known(path: str, known: Sequence[str]) -> bool:
    """Return whether a mistake of the schema is at the place of one that the compiler found, or around or within it."""
    return any(
        f"{one}.".startswith((f"{other}.", f"{other}["))
        for each in known
        for one, other in ((path, each), (each, path))
    )


def check_template(
    stack_file: StackFile, kinds: Kinds, evaluator: Evaluator, *, warn: Warn = warn, note: Warn = note
) -> Sequence[Mistake]:
    """Return the mistakes of the template and its parameters. warn, note: receive its warnings and notes."""
    for warning in stack_files.find_secret_warnings(stack_file):
        warn(stack_file, warning)
    if stack_file.is_template:
        return stack_files.find_template_mistakes(stack_file, kinds, evaluator)
    if stack_file.is_definition:
        try:
            stack_file = stack_files.include_template(stack_file)
        except errors.InvalidDefinition as error:
            return error.mistakes
        for doubt in stack_files.find_definition_doubts(stack_file):
            warn(stack_file, doubt)
        return stack_files.find_definition_mistakes(stack_file, kinds, evaluator)
    try:
        blueprint = stack_files.compile_stack(stack_file, kinds, evaluator=evaluator)
    except errors.InvalidDefinition as error:
        return error.mistakes
    except errors.SourceNotFound as unknown:
        note(stack_file, f"not checked, because it depends on parameters: {unknown}")
        return ()
    if (
        not blueprint.resources
        and not blueprint.collections
        and not object_fields.mapping(stack_files.find_template(stack_file), "resources")
    ):
        warn(stack_file, "has no resources")
    former = stack_file.former
    renames = definition_warnings.find_renames(
        former, blueprint, is_new=lambda name: members.root_of(name) not in former
    )
    for warning in (*definition_warnings.find_warnings(blueprint), *renames):
        warn(stack_file, warning)
    return ()


def check_kinds(stack_file: StackFile) -> Iterator[Mistake]:
    """Yield each manifest with an API version of Kubernetes and a kind that this version does not have."""
    if stack_file.is_group:
        resources = {"": object_fields.find(stack_file.manifest, "spec", "template")}
    else:
        try:
            template = stack_files.find_template(stack_file)
        except errors.InvalidDefinition:
            return
        resources = {f".resources.{name}": each for name, each in object_fields.mapping(template, "resources").items()}
    for place, resource in resources.items():
        for word in ("manifest", "externalRef"):
            stated = object_fields.mapping(resource, word)
            version, kind = object_fields.text(stated, "apiVersion"), object_fields.text(stated, "kind")
            if message := built_in_schemas.explain_unknown_kind(version, kind):
                yield Mistake(path=f"spec.template{place}.{word}.kind", message=message)


def check_nested(stack_file: StackFile, kinds: Kinds, evaluator: Evaluator) -> Iterator[Mistake]:
    """Yield the mistakes of the templates of nested Stacks, with paths in the outermost Stack."""
    for path, manifest, is_known in stack_lint.find_nested(stack_file.manifest):
        nested = StackFile(source=stack_file.source, manifest=manifest, beside=stack_file.beside)
        with contextlib.suppress(errors.SourceNotFound):
            try:
                stack_files.compile_stack(nested, kinds, evaluator=evaluator)
            except errors.InvalidDefinition as error:
                for mistake in error.mistakes:
                    inner = mistake.path.removeprefix("spec.template")
                    # If a parameter has a sample, only mistakes that no value could fix are certain.
                    if inner != mistake.path and (is_known or any(each in mistake.message for each in UNKNOWN)):
                        yield Mistake(path=path + inner, message=mistake.message)


def evaluating() -> contextlib.closing[OfflineEvaluator]:
    """Provide the evaluator for expressions that may take long, within one command."""
    return contextlib.closing(process.OfflineEvaluator())


def write_manifests(stack_file: StackFile, blueprint: Blueprint) -> None:
    """Write the manifests of one Stack as documents; sensitive values are replaced."""
    for each in rendering.render(stack_file, blueprint):
        click.echo(f"---\n# {safe_text.one_line(each.name)}{': ' + safe_text.one_line(each.why) if each.why else ''}")
        if each.manifest is not None:
            text_output.write_object(each.manifest, output="yaml")
