"""The verbs of `kubectl stack`, for example `retry`, `rollback`, `pause`, `snapshot` and `scale`; and `wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import following, revisions, stack_locations
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, Failure
from hearth.cli.stack_commands.parameters import NAME, Duration, GroupName, ResourceName
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_commands.steering.verb_execution import Waiting, decision, verb
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import goals, snapshot_requests, verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalType
from hearth.cli.stack_views.steering.snapshot_requests import SnapshotState
from hearth.cli.stack_views.steering.verbs import Refusal, VerbResult, Write
from hearth.model import limits, object_fields
from hearth.model.child import Object
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK_SNAPSHOT

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@example_command(
    "kubectl stack retry shop",
    "kubectl stack retry shop --wait --timeout 5m",
    "kubectl stack retry shop migrate",
)
@NAME
@click.argument("resource", required=False, default="")
@decision
def retry(stack: StackState, resource: str) -> VerbResult:
    """Retry all failed resources now, from the point of failure.

    After an automatic rollback, retries the definition in the spec, which failed. With RESOURCE, reruns work that has
    finished.
    """
    return verbs.retry(stack, token=following.make_token(), resource=resource)


@example_command("kubectl stack rollback shop", "kubectl stack rollback shop --to 3 --wait")
@NAME
@click.option(
    "--to",
    "to_revision",
    type=click.IntRange(min=0),
    default=0,
    help="Revision to roll back to. Default: the last completed revision other than the one in the spec.",
)
@verb
async def rollback(session: Session, namespace: str, name: str, to_revision: int, waiting: Waiting) -> int:
    """Roll back to an earlier revision, from any state."""
    location = await stack_locations.locate(session, namespace, name)
    if location.is_group:
        raise Failure("a ResourceGroup cannot be rolled back: restore its previous spec")
    stack = await stack_locations.read(session, location)
    stored = await revisions.list_revisions(session, stack)
    numbers = set(stored.by_number) if stored.is_readable else None
    result = verbs.rollback(stack, to_revision=to_revision, stored=numbers)
    return await verb_execution.carry_out(session, stack, result, waiting)


@example_command(
    "kubectl stack continue shop web",
    "kubectl stack continue shop web/PreUpdate --wait",
    "kubectl stack continue shop 'workers[*]'",
    name="continue",
)
@NAME
@click.argument("where", metavar="RESOURCE[/HOOK]", default="", type=ResourceName())
@decision
def continue_(stack: StackState, where: str) -> VerbResult:
    """Continue a resource that waits at a breakpoint. `cache/db` is a resource of the nested Stack `cache`.

    `workers[*]` is all members of a collection, `*` all members of a group.
    """
    return verbs.continue_(stack, where=where, token=following.make_token())


@example_command("kubectl stack check shop --wait")
@NAME
@decision
def check(stack: StackState) -> VerbResult:
    """Compare all objects with the API server, and report differences. Changes nothing."""
    return verbs.check(stack, token=following.make_token())


@example_command("kubectl stack cleanup shop")
@NAME
@decision
def cleanup(stack: StackState) -> VerbResult:
    """Delete obsolete objects now, instead of after the new definition is complete."""
    return verbs.cleanup(stack, token=following.make_token())


@example_command("kubectl stack pause shop")
@NAME
@decision
def pause(stack: StackState) -> VerbResult:
    """Stop all writes of the operator for a Stack. The status then shows the pending steps."""
    return verbs.set_paused(stack, paused=True)


@example_command("kubectl stack unpause shop --wait")
@NAME
@decision
def unpause(stack: StackState) -> VerbResult:
    """Allow the operator to write again. It then performs all pending steps."""
    return verbs.set_paused(stack, paused=False)


@example_command("kubectl stack suspend shop --wait")
@NAME
@decision
def suspend(stack: StackState) -> VerbResult:
    """Scale workloads to zero, dependents first. Data is kept."""
    return verbs.set_suspended(stack, suspended=True)


@example_command("kubectl stack resume shop --wait")
@NAME
@decision
def resume(stack: StackState) -> VerbResult:
    """Resume suspended workloads in order, with their previous replica counts."""
    return verbs.set_suspended(stack, suspended=False)


class GoalParameter(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The value of `--for`."""

    name = "goal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Goal:
        """Parse the value of `--for`."""
        if isinstance(value, Goal):
            return value
        try:
            return goals.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@example_command(
    "kubectl stack wait shop",
    "kubectl stack wait shop --for=deleted --timeout 5m",
    "kubectl stack wait shop --for=phase=UpdateComplete",
)
@NAME
@click.option(
    "--for",
    "goal",
    type=GoalParameter(),
    default="ready",
    metavar="GOAL",
    show_default=True,
    help="State to wait for: ready, suspended, stopped (at a breakpoint), deleted, phase=PHASE or condition=TYPE[=STATUS].",
)
@click.option("--timeout", type=Duration(), help="Time limit, e.g. 90s or 10m. Default: no limit.")
@cluster_options.on_cluster
async def wait(
    session: Session,
    namespace: str,
    name: str,
    goal: Goal,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Wait for a state, and show progress. Exit with 1 and the reason as soon as the Stack cannot reach it without
    help.

    `kubectl wait`, in contrast, waits for its timeout even if the Stack has failed.
    """
    location = await stack_locations.locate(session, namespace, name)
    sources = {}
    if goal.type is not GoalType.DELETED:
        # A Stack that never existed was not deleted.
        stack = await stack_locations.read(session, location)
        # A template or parameters in another object change without a new generation of the Stack.
        sources = await following.read_source_versions(session, stack)
    followed = Followed(
        kind=location.kind, namespace=location.namespace, name=location.name, goal=goal, sources=sources
    )
    return await verb_execution.follow(session, followed, seconds=timeout)


@example_command("kubectl stack scale workers --replicas 5 --wait")
@click.argument("name", type=GroupName(), metavar="GROUP")
@click.option("--replicas", required=True, type=click.IntRange(0, limits.GROUP_MEMBERS), help="Number of members.")
@verb
async def scale(session: Session, namespace: str, name: str, replicas: int, waiting: Waiting) -> int:
    """Set the number of members of a ResourceGroup. Members with the highest indices are removed first."""
    group = StackState(await session.get(RESOURCE_GROUP, namespace, name))
    result = verbs.scale(group, replicas=replicas)
    if isinstance(result, Refusal):
        raise Failure(result.said)
    if isinstance(result, Write):
        await session.patch(RESOURCE_GROUP, namespace, name, body=result.patches[0], subresource="scale")
    click.echo(f"resourcegroup.hearth.dev/{name} {result.said}")
    for note in verbs.note_size(group):
        text_output.write_note(note)
    if not waiting.is_wanted:
        return DONE
    # The response of the subresource has no generation.
    scaled = await session.get(RESOURCE_GROUP, namespace, name)
    followed = Followed(
        kind=RESOURCE_GROUP,
        namespace=namespace,
        name=name,
        goal=Goal(type=GoalType.SETTLED),
        generation=object_fields.number(scaled, "metadata", "generation") or 0,
    )
    return await verb_execution.follow(session, followed, seconds=waiting.seconds)


@example_command("kubectl stack snapshot shop", "kubectl stack snapshot shop --name before-migration --wait")
@NAME
@click.option("--name", "snapshot_name", default="", help="Name of the StackSnapshot. Default: NAME and a suffix.")
@click.option("--retain", is_flag=True, help="Keep the VolumeSnapshots when the StackSnapshot is deleted.")
@verb
async def snapshot(
    session: Session, namespace: str, name: str, snapshot_name: str, waiting: Waiting, *, retain: bool
) -> int:
    """Save the complete revision of a Stack, and a VolumeSnapshot of each of its volumes, as a StackSnapshot."""
    stack = await stack_locations.get_stack(session, namespace, name, wanted="snapshots")
    if refusal := snapshot_requests.find_refusal(stack):
        raise Failure(refusal)
    body = snapshot_requests.make_snapshot(stack, name=snapshot_name, is_retained=retain)
    created = await session.create(STACK_SNAPSHOT, stack.namespace, body=body)
    made, said = created["metadata"]["name"], safe_text.one_line(snapshot_requests.describe(body))
    click.echo(f"stacksnapshot.hearth.dev/{made} created: {said}")
    for note in snapshot_requests.note_waiting(stack):
        text_output.write_note(note)
    return await follow_snapshot(session, stack.namespace, made, seconds=waiting.seconds) if waiting.is_wanted else DONE


async def follow_snapshot(session: Session, namespace: str, name: str, *, seconds: float | None) -> int:
    """Show progress until the snapshot is complete or needs help; return the exit code. seconds: the time limit."""
    with text_output.open_progress() as progress:

        def judge(raw: Object | None) -> SnapshotState | None:
            found = SnapshotState(raw)
            if found.is_complete or found.needs_help:
                return found
            progress.report(found.message)
            return None

        state = await following.wait_until(session, STACK_SNAPSHOT, namespace, name, judge, seconds=seconds)
    if state is None:
        raise Failure(f"timed out waiting for stacksnapshot/{name}: {progress.last}")
    if not state.is_complete:
        raise Failure(f"stacksnapshot/{name}: {state.message}")
    click.echo(f"stacksnapshot/{name}: {safe_text.one_line(state.message)}")
    return DONE


@example_command("kubectl stack restore shop before-migration --wait")
@NAME
@click.argument("snapshot_name", metavar="SNAPSHOT")
@verb
async def restore(session: Session, namespace: str, name: str, snapshot_name: str, waiting: Waiting) -> int:
    """Restore a StackSnapshot: its revision, with the data of its volumes. Restores again even if it was restored
    before.
    """
    stack = await stack_locations.get_stack(session, namespace, name, wanted="snapshots")
    stored = await session.get(STACK_SNAPSHOT, stack.namespace, snapshot_name)
    return await verb_execution.carry_out(session, stack, snapshot_requests.restore(stack, stored), waiting)
