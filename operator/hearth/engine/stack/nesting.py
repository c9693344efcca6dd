"""Limits the depth and number of nested Stacks, including instances of StackDefinitions, by denying further ones.

Reads only the labels of live Stacks, so a Stack cannot understate its depth through its content. Writes nothing, and
leaves existing Stacks unchanged. It also reports Stacks that are nested in themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import definition_sources
from hearth.engine.services import Services
from hearth.model import limits, names, tenancy
from hearth.model.child import Object
from hearth.model.stack_tree import Node
from hearth.plan.resource import blocked_status
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.state.steps import Apply, Step, Suspend, WriteHealthMark

RESERVED_FOR = 60.0
"""Seconds that a new Stack counts before a watch reports it, which normally takes milliseconds."""
LOOK_AGAIN = 10.0
"""Seconds until a Stack that is nested in itself checks again: another Stack may have been released, which causes no
event for this one."""

Key: TypeAlias = tuple[str, str, str]
"""A nested Stack: the UID of its parent, its namespace and its name."""
Place: TypeAlias = tuple[str, str, str]
"""The kind, the namespace and the name of a Stack."""


@dataclass(slots=True)
class Nesting:
    """The decision whether one more Stack may be nested in another."""

    services: Services
    on_limit: Callable[[str], None]
    _reserved: dict[str, dict[Key, float]] = field(default_factory=dict)
    """By UID of the outermost Stack: the nested Stacks that are being created, and the time until which they count."""
    _parents: dict[Place, dict[str, float]] = field(default_factory=dict)
    """By Stack: the UIDs of the Stacks that apply it, and the time until which they count."""
    _present: dict[str, frozenset[Key]] = field(default_factory=dict)
    """By UID of the outermost Stack: its nested Stacks as of `_generation`."""
    _generation: int = -1
    """The generation of the tree that `_present` describes."""

    def refuse(self, stack: StackObject, step: Step) -> StepFailure | None:
        """Explain why the step is not allowed to write a nested Stack or instance. Returns None if it is allowed."""
        if (refused := self._refuse_without_account(stack, step)) is not None:
            return refused
        if not isinstance(step, Apply) or step.uid is not None:
            return None
        is_instance = self.services.management_cluster.find_forms(step.kind.key) is not None
        if not is_instance and not names.is_stack(step.kind.group, step.kind.name):
            return None
        if self.services.find_link(stack.uid).is_remote:
            # In another cluster, instances are ordinary objects.
            if is_instance:
                return None
            message = (
                f"cannot apply {step.ref}: a Stack in another cluster would not be part of this one; put it into a Stack "
                f"of this cluster, with spec.kubeConfig of its own"
            )
            return StepFailure(reason="NestedStackNotAllowed", message=message, is_final=True)
        way = tuple(self.services.management_cluster.tree.climb(stack.uid, most=limits.NESTED_DEPTH + 1))
        if len(way) > limits.NESTED_DEPTH:
            self.on_limit("nested-depth")
            message = (
                f"cannot apply {step.ref}: it would be nested more than {limits.NESTED_DEPTH} deep "
                f"({describe(way)} > {step.ref.namespace}/{step.ref.name}); end the recursion earlier, or flatten the template"
            )
            return StepFailure(reason="NestedTooDeep", message=message, is_final=True)
        circle = self._refuse_circle(stack, step)
        return circle or self._refuse_repetition(step, way) or self._refuse_number(step, way)

    def _refuse_without_account(self, stack: StackObject, step: Step) -> StepFailure | None:
        """Deny writes of instances that act as an account of the platform, unless the Stack has an account itself.

        With the operator's own permissions, anyone who can write Stacks could write them. The policy in
        manifests/definitions denies the operator the same.
        """
        if not isinstance(step, Apply | Suspend | WriteHealthMark):
            return None
        kind, ref = (step.kind, step.ref) if isinstance(step, Apply) else (step.child.kind, step.child.ref)
        forms = self.services.management_cluster.find_forms(kind.key)
        account = forms.newest.definer if forms is not None else None
        if account is None or self.services.find_link(stack.uid).is_remote:
            return None
        if self.services.find_boundary(stack).account:
            return None
        message = (
            f"cannot apply {ref}: {kind.name} objects act as ServiceAccount {account}, which StackDefinition "
            f"{account.definition} specifies, so a Stack needs its own account to write them: set spec.serviceAccountName to "
            f"a ServiceAccount with rights on {kind.plural}.{kind.group}, or create the object without a Stack"
        )
        return StepFailure(reason=tenancy.ACCOUNT_REQUIRED, message=message, is_final=True)

    def _refuse_circle(self, stack: StackObject, step: Apply) -> StepFailure | None:
        """Deny a Stack that is this one or contains it: the two would wait for each other forever."""
        is_own = names.is_stack(step.kind.group, step.kind.name)
        place = step.kind.name if is_own else step.kind.key, step.ref.namespace, step.ref.name
        now = self.services.clock.monotonic()
        if any((node.kind, node.namespace, node.name) == place for node in self._find_ancestors(stack.uid, now)):
            message = (
                f"cannot apply {step.ref}: Stack {stack.namespace}/{stack.name} is that Stack or nested in it, "
                f"and a Stack cannot contain itself; give the resource another name"
            )
            return StepFailure(reason=blocked_status.NESTED_IN_ITSELF, message=message, is_final=True)
        while self._parents and max(next(iter(self._parents.values())).values()) <= now:
            del self._parents[next(iter(self._parents))]
        self._parents[place] = {**self._parents.pop(place, {}), stack.uid: now + RESERVED_FOR}
        return None

    def _find_ancestors(self, uid: str, now: float) -> Iterator[Node]:
        """Return the Stack, and every Stack that it is nested in, or may be before a watch shows its label."""
        waiting, seen = [uid], {uid}
        while waiting:
            node = self.services.management_cluster.tree.find(waiting.pop())
            if node is None:
                continue
            yield node
            soon = self._parents.get((node.kind, node.namespace, node.name), {})
            parents = {node.parent, *(parent for parent, until in soon.items() if until > now)} - seen
            seen |= parents
            waiting += parents

    def _refuse_repetition(self, step: Apply, way: Sequence[Node]) -> StepFailure | None:
        """Deny a template that is already on the path to the root; its nesting would never end."""
        wanted = find_definition(step.ref.namespace, step.manifest.get("spec"))
        if wanted is None:
            return None
        for node in way:
            stack = self.services.management_cluster.find_stack(node.uid)
            if stack is None or stack.omitted_size or b'"templateRef' not in stack.packed_spec:
                continue
            if find_definition(node.namespace, stack.spec) == wanted:
                sources = definition_sources.find_template_sources(step.ref.namespace, step.manifest["spec"])
                source = ", ".join(str(each.ref) for each in sources)
                message = (
                    f"cannot apply {step.ref}: its template, {source}, with the same parameters is also used by Stack "
                    f"{node}, which contains it ({describe(way)}), so nesting would never end; "
                    f"pass a different parameter to the nested Stack, and test it in `when`"
                )
                return StepFailure(reason=blocked_status.NESTED_IN_ITSELF, message=message, is_final=True)
        return None

    def _refuse_number(self, step: Apply, way: Sequence[Node]) -> StepFailure | None:
        """Deny a Stack that exceeds the maximum number; reserve a slot for an allowed one."""
        if not way:
            return None
        root, now = way[-1], self.services.clock.monotonic()
        present, key = self._find_present(root), (way[0].uid, step.ref.namespace, step.ref.name)
        kept = self._reserved.get(root.uid, {})
        reserved = {each: until for each, until in kept.items() if until > now and each not in present and each != key}
        self._reserved[root.uid] = reserved
        if len(present) + len(reserved) >= limits.NESTED_STACKS:
            self.on_limit("nested-stacks")
            message = (
                f"cannot apply {step.ref}: {limits.NESTED_STACKS} Stacks are already nested in Stack {root}, "
                f"directly or in one another, which is the limit; remove some, or split it into several Stacks"
            )
            return StepFailure(reason="TooManyNested", message=message)
        reserved[key] = now + RESERVED_FOR
        return None

    def _find_present(self, root: Node) -> frozenset[Key]:
        """Return all Stacks nested in one, directly or indirectly."""
        tree = self.services.management_cluster.tree
        if tree.generation != self._generation:
            self._generation = tree.generation
            self._present.clear()
            self._reserved = {uid: each for uid, each in self._reserved.items() if each and tree.find(uid) is not None}
        found = self._present.get(root.uid)
        if found is None:
            found = self._present[root.uid] = frozenset(self._descend(root))
        return found

    def _descend(self, root: Node) -> Iterator[Key]:
        tree = self.services.management_cluster.tree
        waiting, seen = [root], {root.uid}
        while waiting:
            parent = waiting.pop()
            nested = [node for uid in tree.find_nested(parent.uid) if (node := tree.find(uid)) is not None]
            # A label can be forged in any namespace. A user who can write Stacks in this namespace needs no forgery.
            has_far = any(node.namespace != parent.namespace for node in nested)
            proven = self._find_proven(parent) if has_far else frozenset()
            for node in nested:
                if node.uid not in seen and (node.namespace == parent.namespace or node.uid in proven):
                    seen.add(node.uid)
                    waiting.append(node)
                    yield parent.uid, node.namespace, node.name

    def _find_proven(self, parent: Node) -> frozenset[str]:
        """Return the UIDs of a Stack's children with proven ownership."""
        by_resource = self.services.find_children_cluster(parent.uid).children(parent.uid).values()
        return frozenset(child.uid for children in by_resource for child in children if child.is_identified)


def find_definition(namespace: str, spec: Any) -> Object | None:
    """Return the references and parameters of a spec if its template is in other objects; otherwise None."""
    sources = definition_sources.find_template_sources(namespace, spec) if isinstance(spec, dict) else ()
    if not sources:
        return None
    return {
        "template": [(str(each.ref), each.ref.namespace, each.key) for each in sources],
        "parameters": spec.get("parameters") or {},
        "parametersFrom": spec.get("parametersFrom") or [],
    }


def describe(way: Sequence[Node]) -> str:
    """Describe a path into nested Stacks, the outermost first."""
    return " > ".join(map(str, reversed(way)))
