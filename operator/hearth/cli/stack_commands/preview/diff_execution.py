"""Reads files, asks for previews, and writes them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import click
import structlog

from hearth.cli import object_fields
from hearth.cli.stack_access.preview import preview_reader, wanted_stack
from hearth.cli.stack_access.preview.dry_run_cluster import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.files import file_execution
from hearth.cli.stack_views.files import stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.cli.stack_views.preview import preview_lines, preview_markdown, preview_output
from hearth.kube.well_known_kinds import STACK
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.tenancy import Tenancy
from hearth.preview.changes import Preview

NO_CHANGE, CHANGES, FAILED = 0, 1, 2
DEFINITION: Final = frozenset({400, 422, 500})
"""Codes with which the API server refuses the content of a Stack; 500 for a server-side apply of fields without schema."""


def execute(
    cluster: ClusterOptions,
    *,
    files: Sequence[str],
    rollback: tuple[str, int] | None,
    output: str,
    tenancy: Tenancy,
) -> NoReturn:
    """Write the previews, and end the program. rollback: the Stack and the revision."""
    try:
        stacks = file_execution.read_stacks(files) if files else []
    except click.ClickException as error:
        error.show()
        raise SystemExit(FAILED) from error

    async def work(session: Session) -> int:
        namespace = cluster.find_namespace()
        found: list[Preview | None] = [
            await preview_file(session, each, namespace=namespace, tenancy=tenancy) for each in stacks
        ]
        if rollback is not None:
            found.append(await preview_rollback(session, namespace, *rollback, tenancy=tenancy))
        previews = [each for each in found if each is not None]
        write(previews, output=output)
        return find_code(found)

    # The engine logs what it would write. Here, that is the result.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    cluster_options.run(cluster, work, failure=FAILED)


def find_code(found: Sequence[Preview | None]) -> int:
    """Return the exit code for these previews; None: one that failed."""
    if any(each is None or each.rejection for each in found):
        return FAILED
    return CHANGES if any(each is not None and each.has_changes for each in found) else NO_CHANGE


async def preview_file(session: Session, file: StackFile, *, namespace: str, tenancy: Tenancy) -> Preview | None:
    """Return the preview of a file; None if the API server refuses its content, which is written."""
    stated = dict(file.manifest)
    metadata = {"namespace": namespace, **object_fields.mapping(stated, "metadata")}
    stated["metadata"] = metadata
    present = await session.find(STACK, metadata["namespace"], object_fields.text(metadata, "name"))
    cluster = DryRunCluster(session, namespace=metadata["namespace"])
    try:
        wanted = await wanted_stack.try_file(cluster, stated, present)
    except errors.ApiStatusError as refused:
        if refused.code not in DEFINITION:
            raise
        await complain_all(session, file, refused)
        return None
    beside = find_sources(file.beside, namespace=metadata["namespace"])
    return await preview_reader.make_preview(session, present=present, wanted=wanted, tenancy=tenancy, beside=beside)


async def complain_all(session: Session, file: StackFile, refused: errors.ApiStatusError) -> None:
    """Write what the API server finds, and the mistakes that the compiler finds besides."""
    cluster_options.complain(cluster_options.describe_refusal(refused))
    await session.kinds.refresh()
    try:
        stack_files.compile_stack(file, session.kinds)
    except errors.InvalidDefinition as error:
        for mistake in error.mistakes:
            cluster_options.complain(f"error: {file.source}: stack/{file.identity.name}: {mistake}")
    except errors.SourceNotFound:
        pass


async def preview_rollback(session: Session, namespace: str, name: str, number: int, *, tenancy: Tenancy) -> Preview:
    """Return the preview of a rollback."""
    present = await session.get(STACK, namespace, name)
    cluster = DryRunCluster(session, namespace=namespace)
    wanted = await wanted_stack.try_rollback(cluster, present, number)
    return await preview_reader.make_preview(session, present=present, wanted=wanted, tenancy=tenancy, beside={})


def find_sources(documents: Sequence[Any], *, namespace: str) -> Mapping[ObjectRef, Object]:
    """Return the ConfigMaps and Secrets among the documents, which are applied with the Stack."""
    found: dict[ObjectRef, Object] = {}
    for each in documents:
        kind = object_fields.text(each, "kind")
        if kind in ("ConfigMap", "Secret") and object_fields.text(each, "apiVersion") == "v1":
            metadata = object_fields.mapping(each, "metadata")
            where = object_fields.text(metadata, "namespace") or namespace
            ref = ObjectRef(group="", kind=kind, namespace=where, name=object_fields.text(metadata, "name"))
            found[ref] = preview_output.encode_secret(each)
    return found


def write(previews: Sequence[Preview], *, output: str) -> None:
    """Write the previews."""
    if output == "json":
        text_output.write_object([preview_output.to_output(each) for each in previews], output="json")
        return
    for at, preview in enumerate(previews):
        if output == "markdown":
            click.echo(("\n" if at else "") + preview_markdown.write(preview))
            continue
        if at:
            click.echo()
        for line in preview_lines.list_lines(preview):
            text_output.write_segments(line)
