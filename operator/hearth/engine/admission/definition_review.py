"""Review of a StackDefinition: all its mistakes at once, and whether its author may act as the account that it names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hearth.engine.admission import review as review_module
from hearth.engine.admission import stack_review
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import rejections
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import limits
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.plan.rollouts import rollout_policy
from hearth.template.compiler import interpolation_doubts
from hearth.template.instances import instance_schema

CONSEQUENCE = "the definition is not stored"


@dataclass(slots=True)
class DefinitionReviewer:
    """The reviewer of StackDefinitions. What only the operator that serves them knows, it reports in their status."""

    builder: RevisionBuilder

    async def review(self, review: Review) -> ReviewResult:
        """Return the denial with all mistakes."""
        owner_stack = review_module.make_stack({**review.new, "spec": {}}, namespace="")
        if owner_stack.deleting:
            return review_module.ALLOWED
        mistakes = await find_mistakes(self.builder, review.spec, owner_stack)
        if not mistakes:
            doubts = itertools.islice(interpolation_doubts.find_doubts(review.spec), limits.MISTAKES)
            return ReviewResult(warnings=review_module.to_warnings("\n".join(doubts)))
        return ReviewResult(denial=rejections.describe_mistakes(InvalidDefinition(mistakes), consequence=CONSEQUENCE))


async def find_mistakes(builder: RevisionBuilder, spec: Object, owner_stack: StackObject) -> Sequence[Mistake]:
    """Find all that is wrong with the spec of a StackDefinition with any parameters.

    owner_stack: the definition as an owner of revisions; nothing is kept of it.
    """
    _, mistakes = await stack_review.compile_template(builder, spec.get("template"), owner_stack)
    return [
        *instance_schema.find_mistakes(spec),
        *rollout_policy.find_mistakes(spec.get("rollout") or {}),
        *mistakes,
    ]
