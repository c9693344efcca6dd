"""What each button writes: decided by the same functions as the verbs of `kubectl stack`. Must not know HTML or HTTP.

A decision is made twice: when the user is asked to confirm, and again on the present object when the form arrives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from hearth.cli.page import action_fields
from hearth.cli.page.action_fields import Field
from hearth.cli.stack_access import following, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import group_size, mark_requests, snapshot_requests, verbs
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write
from hearth.kube.well_known_kinds import HEALTH_MARK, RESOURCE_GROUP, STACK_SNAPSHOT
from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind

Form: TypeAlias = Mapping[str, str]
Send: TypeAlias = Callable[[], Awaitable[object]]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of an action now."""

    refusal: str = ""
    """Why it does not apply."""
    said: str = ""
    """What is written, as `kubectl stack` says it."""
    notes: tuple[str, ...] = ()
    send: Send | None = None
    """Sends it; None if nothing is written."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a decision needs."""

    session: Session
    stack: StackState
    form: Form
    token: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One button."""

    name: str
    title: str
    explanation: str
    """What it does, in a sentence."""
    decide: Callable[[Context], Awaitable[Decision]]
    find_fields: Callable[[Session, StackState], Awaitable[tuple[Field, ...]]] = action_fields.find_none
    """What the user must enter or choose."""
    is_for_resource: bool = False
    is_for_group: bool = False


def make_token() -> str:
    """Return a token that was never used before: the present time, as `kubectl stack` writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_result(context: Context, result: VerbResult) -> Decision:
    """Return the decision of a verb."""
    match result:
        case Refusal():
            return Decision(refusal=result.said)
        case AlreadySo():
            return Decision(refusal=f"stack/{context.stack.name} is as requested: {result.said}")
        case Write():
            send = lambda: following.send(context.session, context.stack, result)  # noqa: E731 -- narrowed here only
            return Decision(
                said=f"stack/{result.stack or context.stack.name} {result.said}", notes=result.notes, send=send
            )


def simple(decide: Callable[[StackState, str], VerbResult]) -> Callable[[Context], Awaitable[Decision]]:
    """Return the decision of a verb that needs the Stack and a token only."""

    async def decided(context: Context) -> Decision:
        return from_result(context, decide(context.stack, context.token))

    return decided


async def continue_(context: Context) -> Decision:
    """Clear the breakpoint at which a resource waits."""
    where = context.form.get("where", "") or context.form.get("resource", "")
    return from_result(context, verbs.continue_(context.stack, where=where, token=context.token))


async def roll_back(context: Context) -> Decision:
    """Make an earlier revision the target."""
    text = context.form.get("to", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return Decision(refusal=f"{text!r} is not the number of a revision")
    stored = await revisions.list_revisions(context.session, context.stack)
    numbers = set(stored.by_number) if stored.is_readable else {int(text)}
    return from_result(context, verbs.rollback(context.stack, to_revision=int(text), stored=numbers))


async def mark(context: Context) -> Decision:
    """Declare the object of a resource unhealthy."""
    reason = context.form.get("reason", "").strip()
    if not reason:
        return Decision(refusal="say what is wrong with the object: the reason is shown wherever the mark is")
    return put_mark(context, reason)


async def unmark(context: Context) -> Decision:
    """Take back a mark."""
    return put_mark(context, None)


def put_mark(context: Context, reason: str | None) -> Decision:
    """Create a HealthMark. reason: None to take back a mark."""
    resource = context.form.get("resource", "")
    if refusal := mark_requests.find_refusal(context.stack, resource):
        return Decision(refusal=refusal)
    body = mark_requests.make_mark(context.stack, resource, reason=reason)
    return create(context, HEALTH_MARK, body, said=mark_requests.describe(body), notes=verbs.note_paused(context.stack))


async def take_snapshot(context: Context) -> Decision:
    """Create a StackSnapshot."""
    if refusal := snapshot_requests.find_refusal(context.stack):
        return Decision(refusal=refusal)
    body = snapshot_requests.make_snapshot(context.stack, name="", is_retained=False)
    said, notes = snapshot_requests.describe(body), snapshot_requests.note_waiting(context.stack)
    return create(context, STACK_SNAPSHOT, body, said=said, notes=notes)


async def restore(context: Context) -> Decision:
    """Go back to a snapshot."""
    name = context.form.get("snapshot", "")
    if not name:
        return Decision(refusal=f"stack/{context.stack.name} has no snapshot to choose")
    found = await context.session.get(STACK_SNAPSHOT, context.stack.namespace, name)
    return from_result(context, snapshot_requests.restore(context.stack, found))


async def scale(context: Context) -> Decision:
    """Set the number of members of a ResourceGroup."""
    text, group = context.form.get("replicas", ""), context.stack
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return Decision(refusal=f"{text!r} is not a number of members")
    decided = group_size.decide(group, int(text))
    if decided.refusal or decided.patch is None:
        return Decision(refusal=decided.refusal or f"rg/{group.name} already has spec.replicas={text}")
    patch = decided.patch

    def send() -> Awaitable[Object]:
        return context.session.patch(RESOURCE_GROUP, group.namespace, group.name, body=patch, subresource="scale")

    said = f"rg/{group.name} scaled: spec.replicas={text}"
    return Decision(said=said, notes=tuple(group_size.list_notes(group)), send=send)


def create(context: Context, kind: Kind, body: Object, *, said: str, notes: tuple[str, ...]) -> Decision:
    """Create an object about the Stack."""
    namespace = context.stack.namespace
    return Decision(
        said=f"{kind.name} created: {said}",
        notes=notes,
        send=lambda: context.session.create(kind, namespace, body=body),
    )


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        name="retry",
        title="Retry",
        explanation="Everything that failed is tried again now, from the point of failure.",
        decide=simple(lambda stack, token: verbs.retry(stack, token=token)),
    ),
    Action(
        name="check",
        title="Check",
        explanation="All objects are compared with the API server. Nothing is changed.",
        decide=simple(lambda stack, token: verbs.check(stack, token=token)),
    ),
    Action(
        name="rollback",
        title="Roll back",
        explanation="An earlier revision becomes the target.",
        decide=roll_back,
        find_fields=action_fields.find_revisions,
    ),
    Action(
        name="continue",
        title="Continue",
        explanation="The resource continues past the breakpoint at which it waits.",
        decide=continue_,
        find_fields=action_fields.find_breakpoints,
    ),
    Action(
        name="pause",
        title="Pause",
        explanation="The operator stops all writes for this Stack, and shows what it would do.",
        decide=simple(lambda stack, _: verbs.set_paused(stack, paused=True)),
    ),
    Action(
        name="unpause",
        title="Unpause",
        explanation="The operator may write again: what it held back is done now.",
        decide=simple(lambda stack, _: verbs.set_paused(stack, paused=False)),
    ),
    Action(
        name="suspend",
        title="Suspend",
        explanation="Workloads are scaled to nothing, dependents first. Data stays.",
        decide=simple(lambda stack, _: verbs.set_suspended(stack, suspended=True)),
    ),
    Action(
        name="resume",
        title="Resume",
        explanation="Suspended workloads come back in order, with their previous replica counts.",
        decide=simple(lambda stack, _: verbs.set_suspended(stack, suspended=False)),
    ),
    Action(
        name="cleanup",
        title="Clean up",
        explanation="Obsolete objects are deleted now. Otherwise they stay until the new definition is complete.",
        decide=simple(lambda stack, token: verbs.cleanup(stack, token=token)),
    ),
    Action(
        name="snapshot",
        title="Take snapshot",
        explanation="A StackSnapshot keeps the present revision and the data of its volumes.",
        decide=take_snapshot,
    ),
    Action(
        name="restore",
        title="Restore",
        explanation="The Stack goes back to a snapshot. Data that was written since is replaced.",
        decide=restore,
        find_fields=action_fields.find_snapshots,
    ),
    Action(
        name="mark",
        title="Mark unhealthy",
        explanation="The present object is declared unhealthy, and the operator replaces it.",
        decide=mark,
        find_fields=action_fields.find_reason,
        is_for_resource=True,
    ),
    Action(
        name="unmark",
        title="Take back mark",
        explanation="The mark on the present object is taken back.",
        decide=unmark,
        is_for_resource=True,
    ),
    Action(
        name="scale",
        title="Scale",
        explanation="The group gets this number of members.",
        decide=scale,
        find_fields=action_fields.find_replicas,
        is_for_group=True,
    ),
)
BY_NAME: Final = {action.name: action for action in ACTIONS}


def list_for(stack: StackState, *, with_resource: bool = False) -> list[Action]:
    """Return the actions on a Stack or group as a whole, or on one of its resources, that fit its state."""
    if stack.is_group:
        return [action for action in ACTIONS if action.is_for_group and not with_resource]
    unfit = {
        "unpause" if not stack.is_paused else "pause",
        "resume" if not stack.is_suspended else "suspend",
        *(() if stack.breakpoints else ("continue",)),
    }
    return [
        action
        for action in ACTIONS
        if action.is_for_resource is with_resource and not action.is_for_group and action.name not in unfit
    ]
