"""Admission review of StackDefinitions. Reports all errors at once.

The review of the author's permissions is in `hearth.engine.admission.reviewer`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from hearth.engine.admission import object_reviews
from hearth.engine.admission import review as review_module
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import definition_sources, rejections
from hearth.engine.definition.definition_sources import ReadSpec, SourceReader
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import limits, object_fields
from hearth.model.errors import InvalidDefinition, Mistake, SourceNotFound
from hearth.plan.resource import definition_warnings
from hearth.plan.resource.definition_warnings import INSTANCES
from hearth.plan.rollouts import rollout_policy
from hearth.template.compiler import interpolation_warnings, secret_literals
from hearth.template.instances import instance_schema

CONSEQUENCE = "the definition is not stored"


async def review_definition(builder: RevisionBuilder, review: Review) -> ReviewResult:
    """Return a denial with all errors, or only warnings if the template is in other objects, which may change.

    Errors that only the operator serving the StackDefinition can detect are reported in its status.
    """
    owner_stack = review_module.make_stack({**review.new, "spec": {}}, namespace="")
    if owner_stack.deleting:
        return review_module.ALLOWED
    try:
        read = await definition_sources.read_definition_spec(SourceReader(builder.management_cluster), review.spec)
        if mistakes := await find_mistakes(builder, read, owner_stack):
            raise InvalidDefinition(mistakes)
    except SourceNotFound as error:
        return ReviewResult(warnings=review_module.to_warnings(str(error)))
    except InvalidDefinition as error:
        text = rejections.describe_mistakes(error, consequence=CONSEQUENCE)
    else:
        found = itertools.chain(
            find_lost_guards(review),
            interpolation_warnings.find_warnings(read.spec),
            secret_literals.find_warnings(read.spec["template"]),
        )
        doubts = itertools.islice(found, limits.MISTAKES)
        return ReviewResult(warnings=review_module.to_warnings("\n".join(doubts)))
    if definition_sources.find_definition_sources(review.spec):
        return ReviewResult(warnings=review_module.to_warnings(text))
    return ReviewResult(denial=text)


def find_lost_guards(review: Review) -> Iterator[str]:
    """Find the defaults whose removal lets the deletion of an instance delete more than before."""
    before, after = (
        object_fields.mapping(review_module.read_spec(each), "defaults") for each in (review.old, review.new)
    )
    return definition_warnings.find_lost_guards(before, after, path="spec.defaults", objects=INSTANCES)


async def find_mistakes(builder: RevisionBuilder, read: ReadSpec, owner_stack: StackObject) -> Sequence[Mistake]:
    """Find all errors in the spec of a StackDefinition that occur with any parameters.

    owner_stack: the definition as an owner of revisions; it is not stored.
    """
    _, mistakes = await object_reviews.compile_template(builder, read.spec["template"], owner_stack)
    found = [
        *instance_schema.find_mistakes(read.spec),
        *rollout_policy.find_mistakes(read.spec.get("rollout") or {}),
        *mistakes,
    ]
    return list(read.relocate(found))
