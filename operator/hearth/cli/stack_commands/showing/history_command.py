"""`kubectl stack history`: shows the revisions of a Stack, one revision, or the difference between two."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import revisions, stack_locations
from hearth.cli.stack_access.revisions import StoredRevisions
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, Failure
from hearth.cli.stack_commands.parameters import NAME, output_option
from hearth.cli.stack_views.lists import revision_history

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


def check_numbers(ctx: click.Context, param: click.Parameter, value: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG001 -- click calls it so
    """Return `value` if it names at most two revisions."""
    if len(value) > 2:
        raise click.UsageError("specify one revision to show it, or two to compare them")
    return value


NUMBERS: Final = click.argument(
    "numbers", nargs=-1, type=click.IntRange(min=1), metavar="[REVISION [REVISION]]", callback=check_numbers
)
OUTPUT: Final = output_option("json", "yaml", text="Output format of the list.")


@example_command(
    "kubectl stack history shop",
    "kubectl stack history shop 3",
    "kubectl stack history shop 3 4",
)
@NAME
@NUMBERS
@OUTPUT
@cluster_options.on_cluster
async def history(session: Session, namespace: str, name: str, numbers: tuple[int, ...], output: str | None) -> int:
    """Show the revisions with author, commit and outcome; one definition; or the differences between two.

    Sensitive values are never shown: the output only says that they changed.
    """
    stack = await stack_locations.get_stack(session, namespace, name, wanted="history")
    stored = await revisions.list_revisions(session, stack)
    if not stored.is_readable:
        raise Failure(f"you cannot list controllerrevisions.apps in namespace {namespace}, which store the history")
    describe = functools.partial(revision_history.describe_state, stack=stack)
    await show(session, stored, numbers, title=stack.title, describe=describe, output=output)
    return DONE


async def show(
    session: Session,
    stored: StoredRevisions,
    numbers: Sequence[int],
    *,
    title: str,
    describe: Callable[[int], tuple[str, str]],
    output: str | None,
) -> None:
    """Show all revisions, one, or the difference between two. Raises Failure if a revision is not stored.

    title: their owner; describe: returns the outcome of each revision, and its color.
    """
    missing = [number for number in numbers if number not in stored.by_number]
    if missing:
        kept = ", ".join(map(str, stored.by_number)) or "none"
        raise Failure(f"{title} has no revision {missing[0]}; stored revisions: {kept}")
    if numbers:
        await show_definitions(session, stored, numbers, output=output or "yaml")
    else:
        show_list(stored, describe, output=output)


def show_list(stored: StoredRevisions, describe: Callable[[int], tuple[str, str]], *, output: str | None) -> None:
    """Show all revisions, the latest last."""
    if output:
        items = [
            revision_history.to_output(
                number, each, describe(number), previous=revision_history.find_previous(number, stored.by_number)
            )
            for number, each in stored.by_number.items()
        ]
        text_output.write_object(items, output=output)
        return
    now = time.time()
    rows = [
        revision_history.make_row(number, each, describe(number), now=now) for number, each in stored.by_number.items()
    ]
    header = list(revision_history.HEADER)
    if any(map(revision_history.find_definition_revision, stored.by_number.values())):
        header.insert(1, revision_history.DEFINITION)
        for row, each in zip(rows, stored.by_number.values(), strict=True):
            row.insert(1, (revision_history.find_definition_revision(each), ""))
    previous = {number: revision_history.find_previous(number, stored.by_number) for number in stored.by_number}
    if any(before != lower for lower, before in zip([None, *stored.by_number], previous.values(), strict=False)):
        header.append(revision_history.PREVIOUS)
        for row, before in zip(rows, previous.values(), strict=True):
            row.append((str(before or ""), ""))
    text_output.write_table(header, rows, is_wide=True)


async def show_definitions(session: Session, stored: StoredRevisions, numbers: Sequence[int], *, output: str) -> None:
    """Show one definition, or the difference between two."""
    definitions = [await revisions.get_definition(session, stored.by_number[number]) for number in numbers]
    if len(definitions) == 1:
        text_output.write_object(revision_history.show_definition(definitions[0]), output=output)
        return
    titles = (f"revision {numbers[0]}", f"revision {numbers[1]}")
    for line, color in revision_history.compare(definitions[0], definitions[1], titles=titles):
        text_output.write_segments([(line, color)])
