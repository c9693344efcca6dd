"""The actions of the buttons, with the same decisions as the verbs of `kubectl stack`.

Each action is decided twice: for the confirmation, and again on the current object when the form is submitted.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from hearth.cli.stack_access import following, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views import ages, safe_text
from hearth.cli.stack_views.lists import revision_history
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests, snapshot_requests, verbs
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write
from hearth.model import limits, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import HEALTH_MARK, RESOURCE_GROUP, STACK_SNAPSHOT

REASON_LENGTH = 1_024
UNUSED: Final = "0"
"""Replaces the token when a verb is only evaluated and nothing is written."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One value to choose."""

    value: str
    label: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One input of a form."""

    name: str
    label: str
    type: str = "select"
    """`select`, `text`, `number` or `hidden`."""
    value: str = ""
    options: tuple[Option, ...] = ()
    most: int = 0
    """Maximum length of a text, or the largest number."""
    is_optional: bool = False
    """Whether a text can be empty."""


async def find_revisions(session: Session, stack: StackState) -> tuple[Field, ...]:
    """Return the field to choose a revision, the latest first."""
    stored = await revisions.list_revisions(session, stack)
    last = verbs.find_other_completed(stack)
    words = f": {last}{describe_age(stored.by_number.get(last))}" if last else ""
    options = [Option(value="0", label=f"the last completed one other than that in the spec{words}")]
    for number in sorted(stored.by_number, reverse=True):
        state, _ = revision_history.describe_state(number, stack)
        age = describe_age(stored.by_number[number])
        options.append(Option(value=str(number), label=f"{number}{age} ({state})" if state else f"{number}{age}"))
    return (Field(name="to", label="Revision", options=tuple(options)),)


def describe_age(revision: Object | None) -> str:
    """Return the age of a stored revision as a part of a label, or "" if it is unknown."""
    created = object_fields.text(revision, "metadata", "creationTimestamp") if revision is not None else ""
    return f", made {ages.describe(created, now=time.time())} ago" if created else ""


async def find_breakpoints(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return the field to choose a breakpoint with a waiting resource."""
    waiting = [str(entry) for entry in stack.breakpoints]
    options = tuple(Option(value=each, label=safe_text.one_line(each)) for each in waiting)
    return (Field(name="where", label="Breakpoint", options=options),) if options else ()


async def find_snapshots(session: Session, stack: StackState) -> tuple[Field, ...]:
    """Return the field to choose a snapshot of this Stack."""
    found = await session.list_allowed(STACK_SNAPSHOT, stack.namespace)
    options = tuple(
        Option(value=name, label=safe_text.one_line(f"{name} ({object_fields.text(each, 'status', 'phase') or 'new'})"))
        for each in found
        if stack.is_named_by(each) and (name := object_fields.text(each, "metadata", "name"))
    )
    return (Field(name="snapshot", label="Snapshot", options=options),) if options else ()


async def find_reason(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return the field for the reason of a mark."""
    return (Field(name="reason", label="What is wrong with it?", type="text", most=REASON_LENGTH),)


async def find_replicas(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return the field for the number of members."""
    present = object_fields.number(stack.spec, "replicas")
    value = "1" if present is None else str(present)
    return (Field(name="replicas", label="Members", type="number", value=value, most=limits.GROUP_MEMBERS),)


Form: TypeAlias = Mapping[str, str]
Send: TypeAlias = Callable[[], Awaitable[object]]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether an action applies now, and why not."""

    refusal: str = ""
    """Why it does not apply."""
    effect: str = ""
    """What happens now, in addition to the explanation of the action."""
    said: str = ""
    """The written fields, as `kubectl stack` reports them."""
    notes: tuple[str, ...] = ()
    send: Send | None = None
    """Sends the write. None if nothing is written."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The input of a decision."""

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
    """Its effect, in a sentence."""
    judge: Callable[[StackState, str], VerbResult] | None = None
    """Evaluates the verb with a token. None if the decision needs more than the Stack."""
    attempt: Callable[[Context], Awaitable[Decision]] | None = None
    """Decides with the form and further objects. Returns None if `judge` decides everything."""
    find_fields: Callable[[Session, StackState], Awaitable[tuple[Field, ...]]] | None = None
    """Returns the input that the user must enter or choose. None if there is none."""
    is_for_resource: bool = False
    is_for_group: bool = False
    is_dangerous: bool = False
    """Whether the action reverts running objects or replaces data. Its button shows a warning style."""

    async def decide(self, context: Context) -> Decision:
        """Return the outcome of the action."""
        if self.attempt is not None:
            return await self.attempt(context)
        assert self.judge is not None  # noqa: S101 -- it has one of the two
        return from_result(context, self.judge(context.stack, context.token))


def from_result(context: Context, result: VerbResult) -> Decision:
    """Return the decision of a verb."""
    match result:
        case Refusal():
            return Decision(refusal=result.said)
        case AlreadySo():
            return Decision(refusal=f"{context.stack.title} is as requested: {result.said}")
        case Write():
            send = lambda: following.send(context.session, context.stack, result)  # noqa: E731 -- narrowed here only
            return Decision(
                said=f"{f'stack/{result.stack}' if result.stack else context.stack.title} {result.said}",
                notes=result.notes,
                send=send,
            )


async def continue_(context: Context) -> Decision:
    """Clear the breakpoint of a waiting resource."""
    where = context.form.get("where", "") or context.form.get("resource", "")
    return from_result(context, verbs.continue_(context.stack, where=where, token=context.token))


def is_number(text: str) -> bool:
    """Return whether a text is a whole number of at most nine digits."""
    return text.isascii() and text.isdigit() and len(text) < 10


async def roll_back(context: Context) -> Decision:
    """Make an earlier revision the target."""
    text = context.form.get("to", "0")
    if not is_number(text):
        return Decision(refusal=f"{text!r} is not the number of a revision")
    stored = await revisions.list_revisions(context.session, context.stack)
    numbers = set(stored.by_number) if stored.is_readable else {int(text)}
    return from_result(context, verbs.rollback(context.stack, to_revision=int(text), stored=numbers))


async def mark(context: Context) -> Decision:
    """Declare the object of a resource unhealthy."""
    reason = context.form.get("reason", "").strip()
    if not reason:
        return Decision(refusal="enter why the object is unhealthy: the reason is shown together with the mark")
    return put_mark(context, reason)


async def unmark(context: Context) -> Decision:
    """Remove a mark."""
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
        return Decision(refusal=find_missing_snapshot(context.stack))
    found = await context.session.get(STACK_SNAPSHOT, context.stack.namespace, name)
    return from_result(context, snapshot_requests.restore(context.stack, found))


async def scale(context: Context) -> Decision:
    """Set the number of members of a ResourceGroup."""
    text, group = context.form.get("replicas", ""), context.stack
    if not is_number(text):
        return Decision(refusal=f"{text!r} is not a number of members")
    result = verbs.scale(group, replicas=int(text))
    if not isinstance(result, Write):
        return Decision(refusal=result.said if isinstance(result, Refusal) else f"{group.title} {result.said}")
    (patch,), where = result.patches, (group.namespace, group.name)
    return Decision(
        said=f"{group.title} {result.said}",
        notes=result.notes,
        send=lambda: context.session.patch(RESOURCE_GROUP, *where, body=patch, subresource="scale"),
    )


def create(context: Context, kind: Kind, body: Object, *, said: str, notes: tuple[str, ...]) -> Decision:
    """Create an object about the Stack."""
    namespace = context.stack.namespace
    return Decision(
        said=f"{kind.name} created: {said}",
        notes=notes,
        send=lambda: context.session.create(kind, namespace, body=body),
    )


def judge_rollback(stack: StackState, _: str) -> VerbResult:
    """Return the changes of a rollback to the last completed revision."""
    completed = verbs.find_other_completed(stack)
    return verbs.rollback(stack, to_revision=0, stored={completed} if completed else set())


def judge_breakpoints(stack: StackState, token: str) -> VerbResult:
    """Return the action that clears the first breakpoint."""
    where = str(stack.breakpoints[0]) if stack.breakpoints else ""
    return verbs.continue_(stack, where=where, token=token)


def find_refusals(stack: StackState, *, has_snapshot: bool) -> dict[str, str]:
    """Return, by action, why it does not apply now; "" if it applies, or if only an attempt can show that."""
    judged = {
        each.name: describe_refusal(each.judge(stack, UNUSED)) if each.judge is not None else "" for each in ACTIONS
    }
    return judged | {"restore": "" if has_snapshot else find_missing_snapshot(stack)}


def find_missing_snapshot(stack: StackState) -> str:
    """Return why a Stack without a snapshot cannot be restored."""
    return safe_text.one_line(f"{stack.title} has no snapshot to choose")


def describe_refusal(result: VerbResult) -> str:
    """Return why a verb does nothing."""
    return "" if isinstance(result, Write) else safe_text.one_line(result.said)


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        name="retry",
        title="Retry",
        explanation="Everything that failed is tried again now, from the point of failure.",
        judge=lambda stack, token: verbs.retry(stack, token=token),
    ),
    Action(
        name="check",
        title="Check",
        explanation="All objects are compared with the API server. Nothing is changed.",
        judge=lambda stack, token: verbs.check(stack, token=token),
    ),
    Action(
        name="rollback",
        title="Roll back",
        explanation="An earlier revision becomes the target.",
        attempt=roll_back,
        find_fields=find_revisions,
        is_dangerous=True,
        judge=judge_rollback,
    ),
    Action(
        name="continue",
        title="Continue",
        explanation="The resource continues past its breakpoint.",
        attempt=continue_,
        find_fields=find_breakpoints,
        judge=judge_breakpoints,
    ),
    Action(
        name="pause",
        title="Pause",
        explanation="The operator stops all writes for this Stack, and shows the pending steps.",
        judge=lambda stack, _: verbs.set_paused(stack, paused=True),
    ),
    Action(
        name="unpause",
        title="Unpause",
        explanation="The operator can write again, and performs the pending steps.",
        judge=lambda stack, _: verbs.set_paused(stack, paused=False),
    ),
    Action(
        name="suspend",
        title="Suspend",
        explanation="Workloads are scaled to nothing, dependents first. Data stays.",
        judge=lambda stack, _: verbs.set_suspended(stack, suspended=True),
    ),
    Action(
        name="resume",
        title="Resume",
        explanation="Suspended workloads come back in order, with their previous replica counts.",
        judge=lambda stack, _: verbs.set_suspended(stack, suspended=False),
    ),
    Action(
        name="cleanup",
        title="Clean up",
        explanation="Obsolete objects are deleted now. Otherwise they stay until the new definition is complete.",
        judge=lambda stack, token: verbs.cleanup(stack, token=token),
    ),
    Action(
        name="snapshot",
        title="Take snapshot",
        explanation="A StackSnapshot keeps the present revision and the data of its volumes.",
        attempt=take_snapshot,
    ),
    Action(
        name="restore",
        title="Restore",
        explanation="The Stack goes back to a snapshot. Data that was written since is replaced.",
        attempt=restore,
        find_fields=find_snapshots,
        is_dangerous=True,
    ),
    Action(
        name="mark",
        title="Mark unhealthy",
        explanation="The present object is declared unhealthy, and the operator replaces it.",
        attempt=mark,
        find_fields=find_reason,
        is_for_resource=True,
    ),
    Action(
        name="unmark",
        title="Take back mark",
        explanation="The mark is removed from the current object.",
        attempt=unmark,
        is_for_resource=True,
    ),
    Action(
        name="scale",
        title="Scale",
        explanation="The group gets this number of members.",
        attempt=scale,
        find_fields=find_replicas,
        is_for_group=True,
    ),
)
BY_NAME: Final = {action.name: action for action in ACTIONS}


def list_for(stack: StackState, *, with_resource: bool = False, is_marked: bool = False) -> list[Action]:
    """Return the actions on a Stack or group as a whole, or on one of its resources, that fit its state.

    is_marked: whether the object of the resource is marked unhealthy.
    """
    if stack.is_group:
        return [action for action in ACTIONS if action.is_for_group and not with_resource]
    unfit = {
        "unpause" if not stack.is_paused else "pause",
        "resume" if not stack.is_suspended else "suspend",
        *(() if stack.breakpoints else ("continue",)),
        *(() if is_marked else ("unmark",)),
    }
    return [
        action
        for action in ACTIONS
        if action.is_for_resource is with_resource and not action.is_for_group and action.name not in unfit
    ]
