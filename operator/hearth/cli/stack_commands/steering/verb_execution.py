"""Executes a verb: read, decide, write, say what was written, follow. Must not know what a verb means."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import assert_never

import click

from hearth.cli import object_fields
from hearth.cli.stack_access import following, revisions, stack_locations
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.steering import progress_output
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import verbs
from hearth.cli.stack_views.steering.goals import Verdict
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write


def make_token() -> str:
    """Return a token that was never used before: the present time, as `flux reconcile` writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def execute(
    session: Session,
    namespace: str,
    name: str,
    decide: Callable[[StackState], VerbResult],
    *,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code."""
    stack = await stack_locations.read(session, await stack_locations.locate(session, namespace, name))
    result = decide(stack)
    return await carry_out(session, stack, result, wait=wait, timeout=timeout)


async def roll_back(
    session: Session,
    namespace: str,
    name: str,
    *,
    to_revision: int,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code. Unlike other verbs this one reads the stored revisions first."""
    location = await stack_locations.locate(session, namespace, name)
    if location.is_group:
        cluster_options.complain("error: a ResourceGroup has no rollback: change its spec back")
        return FAILED
    stack = await stack_locations.read(session, location)
    stored = await revisions.list_revisions(session, stack)
    numbers = set(stored.by_number) if stored.is_readable else {to_revision}
    result = verbs.rollback(stack, to_revision=to_revision, stored=numbers)
    return await carry_out(session, stack, result, wait=wait, timeout=timeout)


async def carry_out(
    session: Session,
    stack: StackState,
    result: VerbResult,
    *,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Do what was decided; return the exit code."""
    match result:
        case Refusal():
            cluster_options.complain(f"error: {result.said}")
            return FAILED
        case AlreadySo():
            click.echo(f"{stack.reference} {safe_text.one_line(result.said)}")
            followed = Followed(kind=stack.kind, namespace=stack.namespace, name=stack.name, goal=result.goal)
        case Write():
            written = await following.send(session, stack, result)
            written_to = f"stack.hearth.dev/{result.stack}" if result.stack else stack.reference
            click.echo(f"{written_to} {safe_text.one_line(result.said)}")
            for note in result.notes:
                click.echo(f"note: {safe_text.one_line(note)}", err=True)
            generation = object_fields.number(written, "metadata", "generation") or 0
            followed = Followed(
                kind=stack.kind,
                namespace=stack.namespace,
                name=stack.name,
                goal=result.goal,
                handled=result.handled,
                generation=0 if result.stack else generation,
            )
        case _:
            assert_never(result)
    return await follow(session, followed, timeout=timeout) if wait else DONE


async def follow(
    session: Session,
    followed: Followed,
    *,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Show progress until the goal is reached; return the exit code."""
    with progress_output.opened() as progress:
        reached = await following.follow(session, followed, show=progress.show, timeout=timeout)
    subject = f"{followed.kind.name.lower()}/{followed.name}"
    if reached is None:
        cluster_options.complain(f"error: timed out waiting for {subject}: {progress.last}")
        return FAILED
    message = f"{subject}: {reached.message}"
    if reached.verdict is Verdict.REACHED:
        click.echo(safe_text.clean(message))
        return DONE
    cluster_options.complain(f"error: {message}")
    return FAILED
