"""The view of a Stack: one row for each resource, with its state.

The status lists only resources with problems, so the health of the others is assessed here, by the rules of the engine.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.cli.stack_views import safe_text, stated_values
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import snapshot
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import chunked_work, limits, members, names, object_fields, value_class
from hearth.model.text import enumeration, finalizers, redaction
from hearth.plan.health import object_reports
from hearth.plan.state import condition_types


class RowState(enum.StrEnum):
    """State of a resource in one word."""

    READY = "ready"
    PROGRESSING = "progressing"
    WAITING = "waiting"
    STOPPED = "stopped"
    """At a breakpoint."""
    FAILED = "failed"
    EXCLUDED = "excluded"
    """Its `when` is false."""
    OBSOLETE = "obsolete"
    """Obsolete, but not deleted yet."""
    GONE = "gone"
    FINISHED = "finished"
    """It ran once and succeeded. Its object may have been deleted."""
    EXTERNAL = "external"
    """An external object without a problem."""


MET: Final = frozenset({RowState.READY, RowState.EXCLUDED, RowState.FINISHED, RowState.EXTERNAL})
"""States that other resources do not wait for."""
SEVERITY: Final = (
    RowState.GONE,
    RowState.EXCLUDED,
    RowState.EXTERNAL,
    RowState.FINISHED,
    RowState.READY,
    RowState.OBSOLETE,
    RowState.WAITING,
    RowState.PROGRESSING,
    RowState.STOPPED,
    RowState.FAILED,
)
"""A collection has the state of the member that needs most attention: the last in this order."""
NOT_READY: Final = ("progressing", "waiting", "failed")
"""The counts in `status.resources` of wanted objects that are not ready."""
NAMED_AT_MOST: Final = 3
"""Maximum number of names in a note, so that it fits on its line."""
NOT_SEEN: Final = "not seen"
"""The note of a resource whose kind the user is not allowed to read."""
TO_DELETE: Final = "to be deleted"
"""The note of an obsolete object whose deletion has not started."""
PERHAPS_EXCLUDED: Final = "is being applied, unless its when is false"
"""The state of a resource whose `when` depends on unknown values."""
ELSEWHERE: Final = "in another cluster"
"""The note of a resource in a cluster that was not read."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One resource."""

    resource: str
    object: str
    """`deployment/web`; only the kind while the object does not exist."""
    state: RowState
    note: str = ""
    """The first problem, or the object that the resource waits for."""
    created: str = ""
    """Creation time of the object."""
    nested: tuple[ResourceRow, ...] = ()
    """The rows of a nested Stack."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackView:
    """All displayed data of a Stack."""

    name: str
    namespace: str
    is_group: bool = False
    kind: str = names.STACK
    exists: bool = True
    phase: str = ""
    summary: str = ""
    """`3/7`."""
    revision: int | None = None
    is_ready: bool = False
    is_stalled: bool = False
    message: str = ""
    """Message of the condition Ready."""
    rows: tuple[ResourceRow, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    omissions: tuple[str, ...] = ()
    """Parts that the view could not show."""

    @property
    def title(self) -> str:
        """Return `stack/shop`, `rg/queue` or `webapp/shop`."""
        return f"{'rg' if self.is_group else self.kind.lower()}/{self.name}"


def describe(objects: StackObjects) -> StackView:
    """Describe a snapshot."""
    stack = objects.stack
    outputs = object_fields.mapping(stack.status, "outputs")
    return StackView(
        name=safe_text.one_line(stack.name),
        namespace=safe_text.one_line(stack.namespace),
        is_group=stack.is_group,
        kind=stack.kind.name,
        phase=safe_text.one_line(stack.phase) or "New",
        summary=safe_text.one_line(stack.summary),
        revision=stack.revision,
        is_ready=stack.is_ready,
        is_stalled=stack.is_stalled,
        message=safe_text.clean(stated_values.redact(stack.ready.message, objects))
        or "no operator has processed it yet",
        rows=describe_rows(objects),
        outputs=tuple((safe_text.one_line(name), write_value(value)) for name, value in sorted(outputs.items())),
        omissions=tuple(safe_text.one_line(each) for each in objects.omissions),
    )


def write_value(value: Any) -> str:
    """Write the value of an output: a text as it is, anything else as JSON."""
    return safe_text.one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def describe_rows(objects: StackObjects) -> tuple[ResourceRow, ...]:
    """Describe each resource in the order of creation, then each obsolete object."""
    context = RowContext(objects)
    wanted = list_members(objects.stack) if objects.stack.is_group else {}
    rows = [context.describe_resource(name) for name in wanted]
    if not objects.stack.is_group:
        rows = [context.describe_entry(name) for name in snapshot.sort_by_requirements(context.requirements)]
    rows += [
        ResourceRow(
            resource=safe_text.one_line(child.resource),
            object=str(child),
            state=RowState.OBSOLETE,
            note=describe_deletion(child),
            created=child.created,
        )
        for child in objects.children
        if members.root_of(child.resource) not in objects.resources
        or child is not context.chosen[child.resource]
        or (objects.stack.is_group and child.resource not in wanted)
    ]
    return tuple(rows)


class RowContext:
    """Values that the rows of one Stack share. Rows are described in order: later ones wait for earlier ones."""

    def __init__(self, objects: StackObjects) -> None:
        stack = objects.stack
        self.objects = objects
        self.chosen = objects.choose_children()
        self.requirements = objects.find_requirements()
        self.problems = {object_fields.text(problem, "resource"): problem for problem in reversed(stack.problems)}
        self.waits = {wait.resource: wait.hook for wait in stack.breakpoints}
        """The hook of a waiting resource, by resource."""
        self.finished = {
            object_fields.text(each, "resource"): object_fields.text(each, "object")
            for each in object_fields.entries(stack.status, "finished")
        }
        """By name, the objects of resources that ran once and succeeded."""
        self.unready = set[str]()
        self.hidden = stated_values.find_stated_values(objects)
        """The sensitive texts, which an object's status may quote."""
        counts = (object_fields.number(stack.status, "resources", each) for each in NOT_READY)
        self.has_all = stack.is_observed and not any(count != 0 for count in counts)
        """Whether the operator counts every wanted object as ready. Then an object in deletion is not wanted."""
        self.excluded = frozenset[str]() if stack.is_ready else find_excluded(objects.template, stack)

    def describe_entry(self, name: str) -> ResourceRow:
        """Describe an entry of the template: a resource, or a collection with its members below."""
        if "externalRef" in object_fields.mapping(self.objects.resources, name):
            return self.describe_external(name)
        if not object_fields.text(self.objects.resources, name, "forEach"):
            return self.describe_resource(name)
        known = {*self.chosen, *self.problems, *self.waits, *self.finished}
        inner = tuple(
            self.describe_resource(each)
            for each in sorted(known)
            if members.is_member(each) and members.root_of(each) == name
        )
        wanted = [row for row in inner if row.state is not RowState.OBSOLETE]
        ready = sum(1 for row in wanted if row.state in (RowState.READY, RowState.FINISHED))
        state = max((row.state for row in wanted), key=SEVERITY.index, default=RowState.READY)
        if not inner:
            state, note = self.assess_absent(name)
        else:
            note = f"{ready}/{len(wanted)} members are ready"
        if state not in MET:
            self.unready.add(name)
        kind = self.find_kind(name)
        return ResourceRow(resource=safe_text.one_line(name), object=f"{kind}[]", state=state, note=note, nested=inner)

    def describe_external(self, name: str) -> ResourceRow:
        """Describe an external object: a problem in the status, or nothing to report."""
        stack = self.objects.stack
        state, note = RowState.EXTERNAL, ""
        if name in self.problems:
            state, note = assess_problem(self.problems[name])
        elif name in self.excluded:
            state, note = RowState.EXCLUDED, "its when is false"
        elif stack.is_new or not stack.is_observed:
            state, note = RowState.WAITING, "is not read yet"
        if state not in MET:
            self.unready.add(name)
        object_ = self.objects.name_external(name)
        return ResourceRow(
            resource=safe_text.one_line(name),
            object=safe_text.one_line(object_),
            state=state,
            note=redaction.redact(note, self.hidden),
        )

    def describe_resource(self, name: str) -> ResourceRow:
        """Describe one resource of the template, or one member of a collection."""
        child = self.chosen.get(name)
        state, note = self.assess(name, child)
        if state not in MET:
            self.unready.add(name)
        nested = self.objects.nested.get(child.uid) if child is not None else None
        return ResourceRow(
            resource=safe_text.one_line(name),
            object=str(child) if child is not None else self.find_absent_object(name, state),
            state=state,
            note=redaction.redact(note, self.hidden),
            created=child.created if child is not None else "",
            nested=describe_rows(nested) if nested is not None else (),
        )

    def assess(self, name: str, child: FoundChild | None) -> tuple[RowState, str]:
        """Return the state of a resource and a note. The operator's report takes precedence."""
        stack = self.objects.stack
        if stack.is_deleting:
            if child is None:
                return RowState.GONE, ""
            return RowState.OBSOLETE, describe_deletion(child)
        if name in self.waits:
            return RowState.STOPPED, f"at breakpoint {safe_text.one_line(self.waits[name])}"
        if name in self.problems:
            return assess_problem(self.problems[name])
        if child is None or child.is_deleting:
            return self.assess_leaving(name, child)
        if stack.is_ready:
            return RowState.READY, ""
        state, note = self.assess_child(name, child)
        return (RowState.WAITING, waits) if state in MET and (waits := self.describe_wait(name)) else (state, note)

    def describe_wait(self, name: str) -> str:
        """Return the resources that a resource with an object waits for.

        Until then, the status does not count it as ready.
        """
        waits_for = [each for each in self.requirements.get(members.root_of(name), ()) if each in self.unready]
        if not waits_for or self.objects.stack.is_suspended:
            return ""
        named = enumeration.enumerate_names(waits_for, most=NAMED_AT_MOST)
        return f"waits for {named}; its object stays unchanged until then"

    def assess_leaving(self, name: str, child: FoundChild | None) -> tuple[RowState, str]:
        """Return the state and note for a resource whose object is being deleted, or does not exist."""
        if name in self.finished:
            return (
                RowState.FINISHED,
                "it ran once; its object no longer exists" if child is None else "its object is deleted",
            )
        if child is None:
            return self.assess_absent(name)
        has_condition = bool(object_fields.text(self.objects.resources, members.root_of(name), "when"))
        if members.root_of(name) in self.excluded or (has_condition and self.has_all):
            return RowState.EXCLUDED, f"its when is false; its object {describe_deletion(child)}"
        if not has_condition and not members.is_member(name):
            return RowState.PROGRESSING, f"{describe_deletion(child)}, and will be recreated"
        return (RowState.OBSOLETE if self.has_all else RowState.PROGRESSING), describe_deletion(child)

    def assess_child(self, name: str, child: FoundChild) -> tuple[RowState, str]:
        """Return the state and note for a resource, from its object."""
        rules = object_fields.texts(self.objects.resources, members.root_of(name), "readyWhen")
        if not rules or members.is_member(name):
            return assess_object(child)
        return assess_rules(rules, {each: found.raw for each, found in self.chosen.items()})

    def assess_absent(self, name: str) -> tuple[RowState, str]:
        """Return the state and note for a resource without an object."""
        stack = self.objects.stack
        if members.root_of(name) in self.excluded:
            return RowState.EXCLUDED, "its when is false"
        if self.objects.is_remote and "" in self.objects.unreadable:
            return (RowState.READY, "") if stack.is_ready else (RowState.PROGRESSING, ELSEWHERE)
        waits_for = [each for each in self.requirements.get(members.root_of(name), ()) if each in self.unready]
        if waits_for:
            named = enumeration.enumerate_names(waits_for, most=NAMED_AT_MOST)
            return RowState.WAITING, f"waits for {named}"
        has_condition = bool(object_fields.text(self.objects.resources, name, "when"))
        if has_condition and (stack.is_ready or stack.phase.endswith("Complete")):
            return RowState.EXCLUDED, "its when is false"
        if stack.is_paused:
            return RowState.WAITING, "the Stack is paused"
        if self.objects.is_unreadable(name):
            # In a ready Stack, resources without a problem in the status are ready.
            return (RowState.READY if stack.is_ready else RowState.PROGRESSING), NOT_SEEN
        if condition_types.is_unapplied(object_fields.text(stack.status, "state")):
            return RowState.WAITING, "its definition is not applied"
        return RowState.PROGRESSING, PERHAPS_EXCLUDED if has_condition else "is being applied"

    def find_absent_object(self, name: str, state: RowState) -> str:
        """Return the representation of a resource without an object: the finished object, otherwise its kind."""
        return safe_text.one_line(self.finished[name]) if state is RowState.FINISHED else self.find_kind(name)

    def find_kind(self, name: str) -> str:
        """Return the kind of a resource as kubectl writes it."""
        root = members.root_of(name)
        return safe_text.one_line(object_fields.text(self.objects.resources, root, "manifest", "kind").lower())


# The state of one resource and a note: from the status of the Stack, otherwise from its object by the engine's rules.

PATIENT: Final = frozenset(
    {"KindNotServed", "FieldNotFound", "Replacing", "Terminating", "Evaluating", "ObjectNotFound", "ObjectNotReady"}
)
"""Reasons of problems that are not failures, because something does not exist yet."""


def assess_problem(problem: Mapping[str, Any]) -> tuple[RowState, str]:
    """Return the state and note for a resource with a problem in the status."""
    reason, message = object_fields.text(problem, "reason"), object_fields.text(problem, "message")
    state = RowState.WAITING if reason in PATIENT else RowState.FAILED
    return state, safe_text.one_line(f"{reason}: {message}" if message else reason)


def assess_object(child: FoundChild) -> tuple[RowState, str]:
    """Return the state and note from the default rule of the object's kind."""
    # This takes some time to import, and `--help` does not need it.
    from hearth.plan.health import health_rules

    verdict = health_rules.assess(child.raw, kind=child.kind, schema=child.schema)
    note = safe_text.one_line(verdict.message)
    match verdict.state:
        case health_rules.HealthState.READY:
            return RowState.READY, ""
        case health_rules.HealthState.FAILED:
            return RowState.FAILED, note
        case _:
            return RowState.PROGRESSING, note


def says_nothing(child: FoundChild) -> bool:
    """Return whether the status shows nothing about readiness, so that only the schema of the kind decides."""
    from hearth.plan.health import health_rules
    from hearth.plan.health.general import general_rule

    verdict = health_rules.assess(child.raw, kind=child.kind)
    return verdict.reason == general_rule.EXISTS and health_rules.is_general(child.kind)


def assess_rules(expressions_: Sequence[str], values: Mapping[str, Any]) -> tuple[RowState, str]:
    """Return the state and note from the `readyWhen` of a resource. values: objects by resource."""
    # It takes some time to import, and most trees need none of it.
    from hearth.template.cel import cel_environment, expressions

    for text in expressions_:
        try:
            parsed = expressions.parse(text)
        except cel_environment.CelCompileError:
            return RowState.PROGRESSING, "its readyWhen rule is not a valid expression"
        if not expressions.is_bounded(parsed):
            return RowState.PROGRESSING, "its readyWhen rule is too expensive to be evaluated here"
        missing = [str(each) for each in parsed.required if object_fields.find(values, each.root, *each.path) is None]
        if missing:
            return RowState.PROGRESSING, f"waits for {enumeration.enumerate_names(missing, most=NAMED_AT_MOST)}"
        if expressions.run(parsed, values) is not True:
            return RowState.PROGRESSING, f"its readyWhen rule is not met yet: {safe_text.one_line(text)}"
    return RowState.READY, ""


def describe_deletion(child: FoundChild) -> str:
    """Describe the progress of an object's deletion."""
    if not child.is_deleting:
        return TO_DELETE
    hold = finalizers.describe_hold(child.finalizers)
    report = object_reports.explain_deletion(child.kind.key, child.raw)
    held = f", {hold}" if hold else f", held up: {report}" if report else ""
    return safe_text.one_line(f"is being deleted{held}")


# The resources of a template whose `when` is false by the spec of the Stack.


def find_excluded(template: Mapping[str, Any], stack: StackState) -> frozenset[str]:
    """Return the names of resources whose `when` is false. Unknown values count as true.

    template: of the target revision. In a rollback the parameters in the spec are others.
    """
    stated = {
        name: resource["when"]
        for name, resource in object_fields.mapping(template, "resources").items()
        if isinstance(resource, Mapping) and "when" in resource
    }
    found = {name for name, when in stated.items() if when is False}
    if any(isinstance(when, str) for when in stated.values()) and not stack.is_rolled_back:
        constants = evaluate_constants(template, stack)
        found |= {name for name, when in stated.items() if evaluate(when, constants) is False}
    return frozenset(found)


def evaluate_constants(template: Mapping[str, Any], stack: StackState) -> dict[str, dict[str, Any]]:
    """Return known parameters, conditions and values as expressions read them."""
    # They take some time to import, and most trees need none of them.
    from hearth.graph import order
    from hearth.template.cel.expression_validator import ExpressionValidator
    from hearth.template.cel.type_checker import TypeScope
    from hearth.template.compiler.template_constants import CONDITIONS, Constants, measure_value
    from hearth.template.parser import template_kinds
    from hearth.template.parser.template_parser import VALUES
    from hearth.template.text import bounds

    given = dict(object_fields.mapping(stack.spec, "parameters"))
    # A value from a source replaces a default.
    rules = {} if stack.spec.get("parametersFrom") else dict(object_fields.mapping(template, "parameters"))
    stated = {word: object_fields.mapping(template, word) for word in (CONDITIONS, VALUES)}
    constants = Constants("", stated)
    chunked_work.finish(constants.read(ExpressionValidator(scope=TypeScope({}))))
    known: dict[str, dict[str, Any]] = {"params": template_kinds.guess_parameters(rules, given), CONDITIONS: {}}
    known |= {VALUES: {}} if stated[VALUES] else {}
    size = 0
    for key in order.sort(constants.edges):
        root, _, name = key.partition(".")
        value = evaluate(constants.texts.get(key, constants.literals.get(key)), known) if name else None
        try:
            size += measure_value(value)
            bounds.refuse_large(size)
        except bounds.TooLarge:
            continue
        if value is not None and (root == VALUES or isinstance(value, bool)):
            known[root][name] = value
    return known


def evaluate(text: Any, constants: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the value of an expression on these constants, or None if it is unknown."""
    from hearth.template.blueprint import Known
    from hearth.template.cel import cel_environment, expressions
    from hearth.template.cel.value_sizes import Large

    if not isinstance(text, str):
        return text if isinstance(text, bool) else None
    try:
        parsed = expressions.parse(text.strip().removeprefix("${").removesuffix("}") if text.startswith("${") else text)
    except cel_environment.CelCompileError:
        return None
    if not expressions.is_bounded(parsed) or set(parsed.roots) - constants.keys():
        return None
    outcome = expressions.bind(
        parsed, path="", constants={name: Large(constants[name]) for name in parsed.roots}
    ).evaluate({})
    return outcome.value if isinstance(outcome, Known) else None


# The members of a ResourceGroup, from its spec and the records in its status.


def list_members(group: StackState) -> dict[str, None]:
    """Return the names of the wanted members in ascending order, including members added for an update."""
    state = object_fields.mapping(group.status, "controllerState")
    listed = object_fields.find(state, "removedMembers")
    known = [each for each in listed if isinstance(each, int)] if isinstance(listed, list) else []
    size = members.make_size(
        {**group.spec, "replicas": limit(object_fields.number(group.spec, "replicas"), default=1)},
        known=known[: limits.REMOVED_MEMBERS],
    )
    surge = limit(object_fields.number(state, "surge"), default=0)
    return dict.fromkeys(map(str, size.find_indices(surge=surge)))


def limit(number: int | None, *, default: int) -> int:
    """Return the number of members, within the limit of the API server."""
    return default if number is None else max(0, min(number, limits.GROUP_MEMBERS))
