"""`kubectl stack rollout …` controls the rollout of a StackDefinition. `kubectl stack promote` moves one instance."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, assert_never

import click

from hearth.cli import command_classes
from hearth.cli.command_classes import Entry, ExampleCommand, example_command
from hearth.cli.stack_access import decision_requests, following, revisions, stack_locations
from hearth.cli.stack_access.revisions import StoredRevisions
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, FAILED, ClusterOptions, Failure
from hearth.cli.stack_commands.parameters import NAME, Duration
from hearth.cli.stack_commands.showing import history_command
from hearth.cli.stack_commands.showing.history_command import NUMBERS, OUTPUT
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_commands.steering.verb_execution import Waiting, verb
from hearth.cli.stack_views import plan_output, safe_text
from hearth.cli.stack_views.steering import rollouts, verbs
from hearth.cli.stack_views.steering.goals import GoalState, GoalVerdict
from hearth.cli.stack_views.steering.rollouts import DefinitionState
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write
from hearth.model import object_fields
from hearth.model.approvals import Decision
from hearth.model.child import Object
from hearth.model.text import enumeration
from hearth.model.well_known_kinds import STACK_DEFINITION

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

MODULE: Final = "hearth.cli.stack_commands.steering.rollout_commands"
DEFINITION: Final = click.argument("definition", metavar="DEFINITION")
DIGEST: Final = click.argument("digest", metavar="DIGEST")
REASON: Final = click.option("--reason", default="", help="Why. Stored with the decision.")

ROLLOUT_COMMANDS: Mapping[str, Entry] = {
    "status": Entry(f"{MODULE}:status", "Watch a rollout until it finishes."),
    "history": Entry(f"{MODULE}:history", "Show the revisions of a StackDefinition."),
    "pause": Entry(f"{MODULE}:pause", "Pause a rollout."),
    "resume": Entry(f"{MODULE}:resume", "Continue a paused rollout."),
    "promote": Entry(f"{MODULE}:promote_wave", "Skip the pause after the current wave."),
    "approve": Entry(f"{MODULE}:approve", "Approve a gate after a wave."),
    "reject": Entry(f"{MODULE}:reject", "Reject a gate after a wave."),
    "evidence": Entry(f"{MODULE}:evidence", "Show who approved or rejected the gates of a revision."),
    "undo": Entry(f"{MODULE}:undo", "Roll back the revision that is being rolled out."),
    "force": Entry(f"{MODULE}:force", "Continue a rollout despite failures."),
    "restart": Entry(f"{MODULE}:restart", "Restart a rollout that was stopped or rolled back."),
}


class ExampleGroup(ExampleCommand, command_classes.LazyGroup):
    """A group whose help ends with examples."""


@click.group(cls=ExampleGroup, entries=ROLLOUT_COMMANDS, examples=("kubectl stack rollout status webapps",))
def rollout() -> None:
    """Watch and control how a change of a StackDefinition reaches its instances.

    DEFINITION is the name of a StackDefinition, or one of the names of its kind: `webapps.platform.example`, `webapp`.
    """


def on_definition(command: Callable[..., Awaitable[int]]) -> Callable[..., Any]:
    """Add the cluster options, and run the command with `session` and the StackDefinition that `definition` names."""

    @cluster_options.cluster_options
    @functools.wraps(command)
    def run_command(*, cluster: ClusterOptions, definition: str, **options: Any) -> NoReturn:
        async def work(session: Session) -> int:
            return await command(session=session, definition=await find_definition(session, definition), **options)

        cluster_options.run(cluster, work)

    return run_command


def decision(decide: Callable[[DefinitionState], VerbResult]) -> Callable[..., Any]:
    """Make a command from a function that decides the write. The command reads and writes the StackDefinition."""

    @on_definition
    @functools.wraps(decide)
    async def act(session: Session, definition: DefinitionState) -> int:
        return await carry_out(session, definition, decide(definition))

    return act


@example_command("kubectl stack rollout status webapps", "kubectl stack rollout status webapps --watch=false")
@DEFINITION
@click.option("--watch", type=bool, default=True, show_default=True, help="Watch the rollout until it finishes.")
@click.option("--timeout", type=Duration(), help="Time limit, e.g. 90s or 10m. Default: no limit.")
@on_definition
async def status(
    session: Session,
    definition: DefinitionState,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
    *,
    watch: bool,
) -> int:
    """Watch a rollout. Exit with 0 when all instances have the revision, or with 1 as soon as someone must step in."""
    if watch:
        return await follow(session, definition, seconds=timeout)
    click.echo(safe_text.clean(f"{definition.reference}: {rollouts.assess(definition).message}"))
    return DONE


@example_command("kubectl stack rollout history webapps", "kubectl stack rollout history webapps 3 4")
@DEFINITION
@NUMBERS
@OUTPUT
@on_definition
async def history(session: Session, definition: DefinitionState, numbers: tuple[int, ...], output: str | None) -> int:
    """Show the revisions with author, commit and state; one of them; or the differences between two."""
    stored = await list_stored(session, definition)
    title, describe = definition.reference, functools.partial(rollouts.describe_revision, definition)
    await history_command.show(session, stored, numbers, title=title, describe=describe, output=output)
    return DONE


async def list_stored(session: Session, definition: DefinitionState) -> StoredRevisions:
    """Return the revisions of a StackDefinition. Raises Failure if the user cannot list them."""
    stored = await revisions.list_definition_revisions(session, definition.raw)
    if not stored.is_readable:
        namespace = definition.raw["status"]["revisionNamespace"]
        raise Failure(f"you cannot list controllerrevisions.apps in namespace {namespace}, which has the history")
    return stored


@example_command("kubectl stack rollout pause webapps")
@DEFINITION
@decision
def pause(definition: DefinitionState) -> VerbResult:
    """Pause a rollout: no more instances are updated. Instances that were updated stay at the new revision."""
    return rollouts.set_paused(definition, paused=True)


@example_command("kubectl stack rollout resume webapps")
@DEFINITION
@decision
def resume(definition: DefinitionState) -> VerbResult:
    """Continue a paused rollout."""
    return rollouts.set_paused(definition, paused=False)


@example_command("kubectl stack rollout promote webapps", name="promote")
@DEFINITION
@decision
def promote_wave(definition: DefinitionState) -> VerbResult:
    """Skip the pause after the current wave and start the next one."""
    return rollouts.promote(definition)


@example_command("kubectl stack rollout undo webapps")
@DEFINITION
@decision
def undo(definition: DefinitionState) -> VerbResult:
    """Roll back the revision that is being rolled out: all its instances return to the last completed revision."""
    return rollouts.undo(definition)


@example_command("kubectl stack rollout restart webapps")
@DEFINITION
@decision
def restart(definition: DefinitionState) -> VerbResult:
    """Restart a rollout that was stopped or rolled back, from the first wave."""
    return rollouts.restart(definition, token=following.make_token())


@example_command("kubectl stack rollout force webapps")
@DEFINITION
@decision
def force(definition: DefinitionState) -> VerbResult:
    """Continue a rollout despite failures, for example of instances that their team does not repair."""
    return rollouts.force(definition)


@example_command(
    "kubectl stack rollout approve webapps 3f9c1a2e",
    'kubectl stack rollout approve webapps 3f9c1a2e --reason "looks good"',
)
@DEFINITION
@DIGEST
@REASON
@on_definition
async def approve(session: Session, definition: DefinitionState, digest: str, reason: str) -> int:
    """Approve a gate after a wave. DIGEST is that of the gate, or its first 8 digits or more; `kubectl stack rollout
    status` shows it. Needs the verbs `patch` and `approve` on stackdefinitions.
    """
    return await decide_gate(session, definition, digest=digest, reason=reason, decision=Decision.APPROVED)


@example_command('kubectl stack rollout reject webapps 3f9c1a2e --reason "too many errors"')
@DEFINITION
@DIGEST
@REASON
@on_definition
async def reject(session: Session, definition: DefinitionState, digest: str, reason: str) -> int:
    """Reject a gate after a wave: the rollout stops, or rolls back with `onFailure: Rollback`. Needs the same permissions
    as approve.

    A rejection is final. Correct the definition, or run `kubectl stack rollout restart`.
    """
    return await decide_gate(session, definition, digest=digest, reason=reason, decision=Decision.REJECTED)


@example_command("kubectl stack rollout evidence webapps", "kubectl stack rollout evidence webapps 7")
@DEFINITION
@click.argument("revision", type=click.IntRange(min=1), required=False)
@OUTPUT
@on_definition
async def evidence(session: Session, definition: DefinitionState, revision: int | None, output: str | None) -> int:
    """Show who approved or rejected the gates of a revision, in its last attempt. Default: the newest revision."""
    stored = await list_stored(session, definition)
    number = revision or definition.revision
    if number not in stored.by_number:
        known = enumeration.enumerate_names([str(each) for each in stored.by_number]) or "none"
        raise Failure(f"{definition.reference}: it has no revision {number}; existing ones: {known}")
    results = rollouts.read_evidence(stored.by_number[number])
    if output is not None:
        text_output.write_object(results, output=output)
        return DONE
    rows = [rollouts.make_evidence_row(each) for each in results]
    text_output.write_table(("WAVE", "GATE", "STATE", "USER", "TIME", "REASON"), rows, is_wide=True)
    return DONE


async def decide_gate(
    session: Session, definition: DefinitionState, *, digest: str, reason: str, decision: Decision
) -> int:
    """Write the decision about a gate; return the exit code."""
    gate = rollouts.find_gate(definition, digest)
    if isinstance(gate, Refusal):
        raise Failure(f"{definition.reference}: {gate.said}")
    made = await decision_requests.send_decision(
        session,
        STACK_DEFINITION,
        definition.raw["metadata"],
        decision=decision,
        request=decision_requests.write_request(gate.digest, reason),
        read_stamp=lambda written: rollouts.find_claim(DefinitionState(written), gate.digest),
    )
    where = f"gate {gate.name} after wave {gate.wave} of revision {definition.revision}"
    click.echo(safe_text.one_line(f"{definition.reference}: {where} {plan_output.describe_approval(made)}"))
    return DONE


@example_command("kubectl stack promote webapp/shop --wait")
@NAME
@click.option("--to", "revision", type=click.IntRange(min=1), help="Revision of the definition. Default: the newest.")
@verb
async def promote(session: Session, namespace: str, name: str, revision: int | None, waiting: Waiting) -> int:
    """Move an instance to a revision of its StackDefinition, if the rollout strategy is Manual."""
    stack = await stack_locations.read(session, await stack_locations.locate(session, namespace, name))
    if not stack.is_instance:
        raise Failure(f"{stack.title} is not an instance of a StackDefinition; specify an instance as TYPE/NAME")
    if revision is None:
        definition = await session.get(STACK_DEFINITION, "", f"{stack.kind.plural}.{stack.kind.group}")
        revision = object_fields.number(definition, "status", "revision") or 0
    return await verb_execution.carry_out(session, stack, verbs.promote(stack, revision=revision), waiting)


async def find_definition(session: Session, argument: str) -> DefinitionState:
    """Return the StackDefinition with that name or kind. Raises Failure, ApiStatusError."""
    word = argument.rpartition("/")[2].lower()
    found = [DefinitionState(raw) for raw in await session.list(STACK_DEFINITION)]
    fitting = [each for each in found if word in list_words(each)]
    if len(fitting) == 1:
        return fitting[0]
    listed = enumeration.enumerate_names(sorted(each.name for each in fitting or found)) or "none"
    problem = "matches several StackDefinitions" if fitting else "matches no StackDefinition; existing ones"
    raise Failure(f"{argument!r} {problem}: {listed}")


def list_words(definition: DefinitionState) -> set[str]:
    """Return the accepted names of a StackDefinition and its kind, in lower case."""
    stated = object_fields.mapping(definition.raw, "spec", "names")
    words = {object_fields.text(stated, each) for each in ("plural", "singular", "kind")}
    return {each.lower() for each in (definition.name, *words, *object_fields.texts(stated, "shortNames")) if each}


async def carry_out(session: Session, definition: DefinitionState, result: VerbResult) -> int:
    """Execute the decision; return the exit code."""
    match result:
        case Refusal():
            raise Failure(f"{definition.reference}: {result.said}")
        case AlreadySo():
            pass
        case Write():
            await following.send_to_definition(session, definition, result)
        case _:
            assert_never(result)
    click.echo(f"{definition.reference} {safe_text.one_line(result.said)}")
    for note in result.notes if isinstance(result, Write) else ():
        text_output.write_note(note)
    return DONE


async def follow(session: Session, definition: DefinitionState, *, seconds: float | None) -> int:
    """Show progress until the rollout ends; return the exit code. seconds: the time limit, None for none."""
    last: DefinitionState | None = definition
    with text_output.open_progress() as progress:

        def judge(raw: Object | None) -> GoalState | None:
            nonlocal last
            last = DefinitionState(raw) if raw is not None else None
            found = rollouts.assess(last)
            if found.verdict is not GoalVerdict.WAITING:
                return found
            progress.report(found.message)
            return None

        reached = await following.wait_until(session, STACK_DEFINITION, "", definition.name, judge, seconds=seconds)
    if reached is None:
        raise Failure(f"timed out waiting for {definition.reference}: {progress.last}")
    if reached.verdict is GoalVerdict.REACHED:
        click.echo(safe_text.clean(f"{definition.reference}: {reached.message}"))
        return DONE
    cluster_options.complain(f"error: {definition.reference}: {reached.message}")
    for command in rollouts.advise(last) if last is not None else ():
        click.echo(f"  {safe_text.one_line(command)}", err=True)
    return FAILED
