"""Review of a HealthMark: the resource that it names must exist, since a mark never applies to a later object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.engine.admission import live_objects
from hearth.engine.admission import review as review_module
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from hearth.model.groups import members
from hearth.model.text.enumeration import enumerate_names
from hearth.plan import health_mark_decision
from hearth.template.text import error_hints

NO_REASON = (
    "spec.reason: is missing, so the object is marked with the name of this HealthMark alone; "
    "say what is wrong, for those who look at the object"
)


@value_class.dataclass(frozen=True, slots=True)
class MarkReviewer:
    """The reviewer of HealthMarks."""

    builder: RevisionBuilder

    async def review(self, review: Review) -> ReviewResult:
        """Return the denial of a mark on a Stack or resource that does not exist, or warnings."""
        spec = review.spec
        is_unexplained = bool(spec.get("markUnhealthy")) and not str(spec.get("reason") or "").strip()
        warnings = (review_module.shorten(NO_REASON),) if is_unexplained else ()
        # The target is immutable, and an existing mark may outlive its resource.
        owner = health_mark_decision.read_owner(spec)
        if review.old is not None or not owner:
            return ReviewResult(warnings=warnings)
        denial = await self._find_denial(review.namespace, spec, owner=owner)
        return ReviewResult(denial=denial, warnings=warnings)

    async def _find_denial(self, namespace: str, spec: Object, *, owner: str) -> str:
        """Return why the mark cannot apply to anything; "" if it can, or if that is unknown."""
        kind, name = names.split_owner(owner)
        stack = await live_objects.find(self.builder, kind, namespace=namespace, name=name)
        if stack is None:
            (field,) = health_mark_decision.write_owner(owner)
            return f"spec.{field}: namespace {namespace} has no {kind} {name}; name an existing one"
        if kind != names.STACK:
            # Only the operator knows which indices were removed.
            return ""
        resources = await self._find_resources(namespace, stack)
        first = str(spec.get("resource") or "").partition("/")[0]
        if resources is None:
            return ""
        root = members.root_of(first)
        if root not in resources:
            hint = error_hints.did_you_mean(root, resources)
            there = f"it has: {enumerate_names(sorted(resources))}" if resources else "it has none"
            return f"spec.resource: Stack {spec['stackName']} has no resource {root}{hint}; {there}"
        is_collection = isinstance(resources[root], dict) and resources[root].get("forEach") is not None
        if is_collection and first == root:
            return f"spec.resource: {root} is a collection; name the member by its key: {root}[<key>]"
        if first != root and not is_collection:
            return f"spec.resource: {root} has no members, because it has no forEach; write {root}"
        return ""

    async def _find_resources(self, namespace: str, stack: Object) -> Mapping[str, Any] | None:
        """Return the resources of a Stack by name; None if they may not be those of its spec."""
        if is_in_transition(stack):
            return None
        try:
            definition = await self.builder.read_spec(
                namespace,
                review_module.read_spec(stack),
                reader=self.builder.find_reader(review_module.make_stack(stack, namespace=namespace)),
            )
        except (errors.InvalidDefinition, errors.SourceNotFound):
            return None
        resources = definition.template.get("resources")
        return resources if isinstance(resources, dict) else None


def is_in_transition(stack: Object) -> bool:
    """Return whether another revision than that of the spec may be active, or some of its objects still exist."""
    status = stack.get("status") or {}
    is_current = status.get("observedGeneration") == stack.get("metadata", {}).get("generation")
    rollback = review_module.read_spec(stack).get("rollback") or {}
    is_requested = rollback.get("toRevision") is not None or bool(rollback.get("toSnapshot"))
    is_settled = status.get("phase") in ("CreateComplete", "UpdateComplete")
    return is_requested or not (is_current and is_settled)
