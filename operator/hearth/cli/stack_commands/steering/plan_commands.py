"""`kubectl stack plan`, `approve` and `reject`: show the change that waits for an approval, and decide about it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import plan_decisions, stack_locations
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, ClusterOptions, Failure
from hearth.cli.stack_commands.parameters import NAME, output_option
from hearth.cli.stack_views import plan_output, safe_text
from hearth.cli.stack_views.plan_output import ShownPlan
from hearth.model import approvals, names
from hearth.model.approvals import Decision

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.cli.stack_views.stack_state import StackState

NOTHING_WAITS, WAITS, FAILED = 0, 1, 2
DIGEST: Final = click.argument("digest", metavar="[DIGEST]", required=False)
REASON: Final = click.option("--reason", default="", help="Why. Stored with the decision.")


@example_command("kubectl stack plan shop", "kubectl stack plan shop -o markdown")
@NAME
@output_option("text", "json", "markdown", default="text")
@cluster_options.cluster_options
def plan(cluster: ClusterOptions, name: str, output: str) -> None:
    """Show the change of a Stack that waits for an approval, with its digest and how a rollback can undo it.

    Exit code 0: no change waits; 1: a change waits for an approval, or was rejected; 2: an error.
    """

    async def work(session: Session) -> int:
        stack = await read_stack(session, cluster.find_namespace(), name)
        found = await plan_decisions.find_plan(session, stack)
        write_plan(found, stack, output=output)
        return WAITS if found is not None and found.is_waiting else NOTHING_WAITS

    cluster_options.run(cluster, work, failure=FAILED)


@example_command(
    "kubectl stack approve shop 3f9c1a2e", 'kubectl stack approve shop 3f9c1a2e --reason "after the backup"'
)
@NAME
@DIGEST
@REASON
@cluster_options.on_cluster
async def approve(session: Session, namespace: str, name: str, digest: str | None, reason: str) -> int:
    """Approve the change of a Stack that waits. DIGEST is that of the plan, or its first 8 digits or more.

    Without DIGEST, shows the plan on a terminal and asks. The digest makes sure that you approve the change that you
    have seen. Needs the verbs `patch` and `approve` on stackplans.
    """
    return await decide(session, namespace, name, digest=digest, reason=reason, decision=Decision.APPROVED)


@example_command('kubectl stack reject shop 3f9c1a2e --reason "not on a Friday"')
@NAME
@DIGEST
@REASON
@cluster_options.on_cluster
async def reject(session: Session, namespace: str, name: str, digest: str | None, reason: str) -> int:
    """Reject the change of a Stack that waits, or one that was approved and has not begun. Needs the same rights as
    approve.

    A rejection is final. Change the Stack, or run `kubectl stack retry`, to request another plan.
    """
    return await decide(session, namespace, name, digest=digest, reason=reason, decision=Decision.REJECTED)


async def decide(
    session: Session, namespace: str, name: str, *, digest: str | None, reason: str, decision: Decision
) -> int:
    """Write the decision about the present plan of a Stack; return the exit code."""
    stack = await read_stack(session, namespace, name)
    found = await plan_decisions.find_plan(session, stack)
    if found is None:
        raise Failure(f"{stack.title}: no change waits for an approval")
    if digest is None:
        confirm(found, stack, decision)
    elif not approvals.parse_request(digest).matches_digest(found.digest):
        raise Failure(
            f"{stack.title}: the digest of the present plan is {found.digest}, not {digest}; see the plan with "
            f"kubectl stack plan {stack.argument} -n {stack.namespace}"
        )
    stamp = await plan_decisions.send_decision(session, found, decision, reason=reason)
    click.echo(f"{found.reference} {plan_output.describe_approval(stamp)}")
    return DONE


def confirm(found: ShownPlan, stack: StackState, decision: Decision) -> None:
    """Show the plan and ask. Ends the program unless the answer is yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        shown = f"kubectl stack plan {stack.argument} -n {stack.namespace}"
        raise Failure(f"{stack.title}: pass the DIGEST that {shown} shows")
    write_plan(found, stack, output="text")
    verb = "Approve" if decision is Decision.APPROVED else "Reject"
    click.confirm(f"{verb} this plan ({found.digest[: names.PLAN_DIGITS]})?", abort=True)


async def read_stack(session: Session, namespace: str, name: str) -> StackState:
    """Return the Stack."""
    return await stack_locations.read(session, await stack_locations.locate(session, namespace, name))


def write_plan(found: ShownPlan | None, stack: StackState, *, output: str) -> None:
    """Write the plan, or that there is none."""
    match output:
        case "json":
            text_output.write_object(plan_output.to_output(found, stack) if found is not None else None, output=output)
        case "markdown" if found is not None:
            click.echo(plan_output.write_markdown(found, stack))
        case _ if found is not None:
            text_output.write_lines(plan_output.list_lines(found, stack))
        case _:
            click.echo(safe_text.one_line(f"{stack.title} in {stack.namespace}: no change waits for an approval"))
