"""`kubectl stack diff`: previews the effects of a file or a rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import dry_runs, stack_locations
from hearth.cli.stack_access.dry_runs import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.files import file_commands
from hearth.cli.stack_commands.parameters import StackName, files_option, output_option
from hearth.cli.stack_views import preview_output, safe_text
from hearth.cli.stack_views.files import stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import errors, names, object_fields, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Tenancy
from hearth.model.well_known_kinds import STACK
from hearth.preview.changes import Preview

if TYPE_CHECKING:
    from hearth.cli.stack_access.stack_previews import DefinitionPreview
    from hearth.model.errors import Mistake
    from hearth.template.instances.instance_form import InstanceForm

NO_CHANGE, CHANGES, FAILED = 0, 1, 2
PREVIEWED: Final = (names.STACK, names.DEFINITION_KIND)
"""The kinds in files whose changes are shown."""
DEFINITION: Final = frozenset({400, 422, 500})
"""Codes of the API server's refusals of a Stack's content; 500 for a server-side apply of fields without schema."""


@example_command(
    "kubectl stack diff -f stack.yaml",
    "kubectl stack diff shop --to 3",
    "kubectl stack diff webapp/shop --to 3",
    "kubectl stack diff -f stack.yaml -o markdown",
    "kubectl stack diff -f webapps.yaml",
)
@click.argument("name", type=StackName(), metavar="[NAME]", required=False)
@files_option()
@click.option("--to", "number", type=click.IntRange(min=0), metavar="N", help="Preview a rollback to this revision.")
@output_option("text", "json", "markdown", default="text")
@cluster_options.tenancy_options
@cluster_options.cluster_options
def diff(
    cluster: ClusterOptions,
    name: str | None,
    files: tuple[str, ...],
    number: int | None,
    output: str,
    tenancy: Tenancy,
) -> None:
    """Preview the effect of applying a file, or of a rollback. Runs the engine itself, with dry runs, and writes
    nothing.

    Also says whether a rollback can undo the changes: completely (reversible), with new objects (recreates), or not at
    all (one-way).

    For a StackDefinition, shows the changes of each instance; equal changes are shown once. An instance in the same files
    is shown with the new definition.

    Exit code 0: no change; 1: changes; 2: an error, or a definition with mistakes.
    """
    # This imports the engine, which is slow and not needed for `--help`.
    from hearth.cli.stack_access import stack_previews

    if bool(files) == bool(name) or (number is not None) != bool(name):
        raise click.UsageError("pass -f FILE, or NAME with --to N")
    stated = read_files(files)

    async def work(session: Session) -> int:
        namespace = cluster.find_namespace()
        writer = PreviewWriter(output)
        codes, found = await preview_files(session, stated, namespace=namespace, writer=writer, tenancy=tenancy)
        if name is not None and number is not None:
            stack = await stack_locations.get_stack(session, namespace, name, wanted="revisions")
            found.append(await stack_previews.preview_rollback(session, stack, number, tenancy=tenancy))
        writer.write([each for each in found if each is not None])
        writer.finish()
        return max([*codes, find_code(found)])

    stack_previews.silence_engine()
    cluster_options.run(cluster, work, failure=FAILED)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StatedObjects:
    """The objects in files whose changes are shown."""

    stacks: Sequence[StackFile] = ()
    definitions: Sequence[StackFile] = ()
    others: Sequence[StackFile] = ()
    """Objects that may be instances of StackDefinitions."""


def read_files(files: Sequence[str]) -> StatedObjects:
    """Read the files. Ends the program if a file cannot be read, or if there is nothing to show in them."""
    try:
        documents = file_commands.read_documents(files)
        known = stack_files.find_stacks(documents, kinds=PREVIEWED)
        others = stack_files.find_custom_objects(documents)
        if files and not known and not others:
            raise click.ClickException(safe_text.clean(f"there is no Stack in {', '.join(files)}"))
    except click.ClickException as error:
        error.show()
        raise SystemExit(FAILED) from error
    return StatedObjects(
        stacks=[each for each in known if not each.is_definition],
        definitions=[each for each in known if each.is_definition],
        others=others,
    )


class PreviewWriter:
    """Writes previews when they are ready; JSON as one array at the end."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._entries: list[Object] = []

    def write_definition(self, preview: DefinitionPreview) -> None:
        """Write the preview of a StackDefinition: the notes about all instances, and each instance."""
        name, previews, pinned = preview.name, preview.previews, preview.pinned
        unfit, notes = preview.unfit, preview.lost_guards
        match self._output:
            case "json":
                entry = preview_output.write_definition(name, previews, pinned=pinned, unfit=unfit, notes=notes)
                self._entries.append(entry)
                self.write(previews)
            case "markdown":
                head = preview_output.write_definition_markdown(name, previews, pinned=pinned, unfit=unfit, notes=notes)
                click.echo(head + ("\n" if previews else ""))
                self.write(previews)
            case _:
                lines = preview_output.list_of_definition(name, previews, pinned=pinned, unfit=unfit, notes=notes)
                text_output.write_lines(lines)

    def write_refusal(self, name: str, mistakes: Sequence[Mistake]) -> None:
        """Write why a StackDefinition is rejected."""
        if self._output == "json":
            self._entries.append(preview_output.write_refusal(name, mistakes))
        else:
            text_output.write_lines(preview_output.list_refusal(name, mistakes))

    def write(self, previews: Sequence[Preview]) -> None:
        """Write the previews of Stacks and instances."""
        if self._output == "json":
            self._entries += [preview_output.to_output(each) for each in previews]
            return
        for at, preview in enumerate(previews):
            if self._output == "markdown":
                click.echo(("\n" if at else "") + preview_output.write_markdown(preview))
                continue
            if at:
                click.echo()
            text_output.write_lines(preview_output.list_lines(preview))

    def finish(self) -> None:
        """Write the output that must be one document."""
        if self._output == "json":
            text_output.write_object(self._entries, output="json")


async def preview_files(
    session: Session, stated: StatedObjects, *, namespace: str, writer: PreviewWriter, tenancy: Tenancy
) -> tuple[list[int], list[Preview | None]]:
    """Write the previews of StackDefinitions; return their exit codes, and the previews of all other objects.

    None stands for an object with mistakes, which are written.
    """
    made = [await preview_definition(session, each, writer=writer, tenancy=tenancy) for each in stated.definitions]
    found = [await preview_file(session, each, namespace=namespace, tenancy=tenancy) for each in stated.stacks]
    instances = await find_instances(session, stated.others, [each for _, each in made if each is not None])
    if stated.others and not (instances or stated.stacks or stated.definitions):
        raise NoInstance(stated.others[0])
    found += [await preview_instance(session, each, namespace=namespace, tenancy=tenancy) for each in instances]
    return [code for code, _ in made], found


class NoInstance(errors.HearthError):
    """Error for a file with objects that are no Stacks and no instances of a StackDefinition."""

    def __init__(self, file: StackFile) -> None:
        api_version, kind = (object_fields.text(file.manifest, word) for word in ("apiVersion", "kind"))
        super().__init__(
            f"there is no Stack in {file.source}, and no StackDefinition of the cluster or the files has the kind {kind} of "
            f"{api_version}; apply the StackDefinition first, or pass its file as well"
        )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFile:
    """One instance of a StackDefinition in a file."""

    file: StackFile
    kind: Kind
    form: InstanceForm | None
    """The revision of its StackDefinition in the files; None for the one in the cluster."""


async def find_instances(
    session: Session, others: Sequence[StackFile], stated: Sequence[DefinitionPreview]
) -> list[InstanceFile]:
    """Return the instances among other objects in files. stated: the StackDefinitions in the files."""
    if not others:
        return []
    served = {
        (each.kind.group, each.kind.name): each.kind for each in await stack_locations.list_instance_kinds(session)
    }
    forms = {(each.kind.group, each.kind.name): each for each in stated}
    found = []
    for file in others:
        group = object_fields.text(file.manifest, "apiVersion").partition("/")[0]
        key = group, object_fields.text(file.manifest, "kind")
        if key in forms:
            found.append(InstanceFile(file=file, kind=forms[key].kind, form=forms[key].form))
        elif key in served:
            found.append(InstanceFile(file=file, kind=served[key], form=None))
    return found


async def preview_instance(
    session: Session, instance: InstanceFile, *, namespace: str, tenancy: Tenancy
) -> Preview | None:
    """Return the preview of an instance in a file. If it has mistakes, print all of them and return None."""
    from hearth.cli.stack_access import stack_previews

    file = instance.file
    metadata = {"namespace": namespace, **object_fields.mapping(file.manifest, "metadata")}
    try:
        return await stack_previews.preview_instance(
            session,
            {**file.manifest, "metadata": metadata},
            instance.kind,
            form=instance.form,
            tenancy=tenancy,
            beside=find_sources(file.beside, namespace=metadata["namespace"]),
        )
    except errors.InvalidDefinition as error:
        for mistake in error.mistakes:
            cluster_options.complain(f"error: {file.source}: {file.title}: {mistake}")
    except errors.ApiStatusError as refused:
        if refused.code not in DEFINITION:
            raise
        cluster_options.complain(cluster_options.describe_refusal(refused))
    return None


async def preview_definition(
    session: Session, file: StackFile, *, writer: PreviewWriter, tenancy: Tenancy
) -> tuple[int, DefinitionPreview | None]:
    """Write the preview of a StackDefinition over all its instances; return the exit code, and the preview if there is one."""
    from hearth.cli.stack_access import stack_previews

    await session.kinds.refresh()
    try:
        whole = await stack_previews.include_template(session, file)
        with file_commands.evaluating() as evaluator:
            mistakes = stack_files.find_definition_mistakes(whole, session.kinds, evaluator)
        if mistakes:
            raise errors.InvalidDefinition(mistakes)
    except errors.InvalidDefinition as error:
        writer.write_refusal(file.identity.name, error.mistakes)
        return FAILED, None
    try:
        with text_output.open_progress() as progress:
            made = await stack_previews.preview_definition(
                session,
                file.manifest,
                template=whole.manifest["spec"]["template"],
                tenancy=tenancy,
                show=progress.report,
            )
    except errors.ApiStatusError as refused:
        if refused.code not in DEFINITION:
            raise
        cluster_options.complain(cluster_options.describe_refusal(refused))
        return FAILED, None
    writer.write_definition(made)
    code = max(find_code(made.previews), CHANGES if made.lost_guards else NO_CHANGE)
    return FAILED if made.unfit else code, made


def find_code(found: Sequence[Preview | None]) -> int:
    """Return the exit code for these previews; None means a failed preview."""
    if any(each is None or each.rejection for each in found):
        return FAILED
    return CHANGES if any(each is not None and each.has_changes for each in found) else NO_CHANGE


async def preview_file(session: Session, file: StackFile, *, namespace: str, tenancy: Tenancy) -> Preview | None:
    """Return the preview of a file. If the API server rejects its content, print the reason and return None."""
    from hearth.cli.stack_access import stack_previews

    tried = await try_file(session, file, namespace=namespace)
    if tried is None:
        return None
    return await stack_previews.make_preview(
        session, present=tried.present, wanted=tried.wanted, tenancy=tenancy, beside=tried.beside
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TriedFile:
    """A Stack before and after its file is applied."""

    present: Object | None
    wanted: Object
    beside: Mapping[ObjectRef, Object]
    """Sources of the definition in the same files."""


async def try_file(session: Session, file: StackFile, *, namespace: str) -> TriedFile | None:
    """Return the Stack of a file. If the API server rejects its content, print the reason and return None."""
    stated = dict(file.manifest)
    metadata = {"namespace": namespace, **object_fields.mapping(stated, "metadata")}
    stated["metadata"] = metadata
    present = await session.find(STACK, metadata["namespace"], object_fields.text(metadata, "name"))
    cluster = DryRunCluster(session, namespace=metadata["namespace"])
    try:
        wanted = await dry_runs.try_file(cluster, stated, present)
    except errors.ApiStatusError as refused:
        if refused.code not in DEFINITION:
            raise
        await complain_all(session, file, refused)
        return None
    beside = find_sources(file.beside, namespace=metadata["namespace"])
    return TriedFile(present=present, wanted=wanted, beside=beside)


async def complain_all(session: Session, file: StackFile, refusal_error: errors.ApiStatusError) -> None:
    """Write the errors of the API server, and the additional errors of the compiler."""
    cluster_options.complain(cluster_options.describe_refusal(refusal_error))
    await session.kinds.refresh()
    try:
        stack_files.compile_stack(file, session.kinds)
    except errors.InvalidDefinition as error:
        for mistake in error.mistakes:
            cluster_options.complain(f"error: {file.source}: stack/{file.identity.name}: {mistake}")
    except errors.SourceNotFound:
        pass


def find_sources(documents: Sequence[Any], *, namespace: str) -> Mapping[ObjectRef, Object]:
    """Return the documents that are sources of the definition and applied with the Stack."""
    found: dict[ObjectRef, Object] = {}
    for each in documents:
        kind = object_fields.text(each, "kind")
        source = well_known_kinds.SOURCE_KINDS.get(kind)
        if source is not None and object_fields.text(each, "apiVersion") == source.api_version:
            metadata = object_fields.mapping(each, "metadata")
            where = (object_fields.text(metadata, "namespace") or namespace) if source.namespaced else ""
            name = object_fields.text(metadata, "name")
            ref = ObjectRef(group=source.group, kind=kind, namespace=where, name=name)
            found[ref] = stack_files.encode_secret(each)
    return found
