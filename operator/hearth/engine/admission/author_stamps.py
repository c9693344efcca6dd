"""Admission of Stacks whose changes need a separate approver: records who changed the spec.

The users add up until the Stack is settled, so that an edit of another user does not hide an earlier one.
"""

from __future__ import annotations

from hearth.engine.admission import object_reviews
from hearth.engine.admission.review import ALLOWED, Review, ReviewResult
from hearth.model import limits, names, object_fields, spec_authors
from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.status import conditions

KEY = names.ANNOTATION_AUTHORS
NAMELESS = (
    "metadata.name: is missing, and metadata.generateName cannot be used with spec.approval.separateApprover, because the "
    "record of the author contains the name; set metadata.name"
)


def stamp_authors(review: Review, *, hashes: HashFunction) -> ReviewResult:
    """Return the annotation for a write of a Stack. Without it, no user can approve the change."""
    old, written = review.old, object_fields.text(review.new, "metadata", "annotations", KEY)
    stored = object_fields.text(old, "metadata", "annotations", KEY)
    if old is not None and old.get("spec") == review.new.get("spec"):
        return ALLOWED if written == stored else ReviewResult(annotations={KEY: stored or None})
    is_open = old is not None and not is_settled(old)
    earlier = find_authors(old, stored, hashes) if old is not None and is_open else ()
    # The change that no longer requires a separate approver still needs one, and so do changes before its approval.
    if not (needs_stamp(review.new) or (old is not None and needs_stamp(old)) or earlier):
        return ReviewResult(annotations={KEY: None})
    if not review.name:
        return ReviewResult(denial=NAMELESS)
    users = earlier if earlier and keeps_change(review) else tuple(dict.fromkeys((*earlier, review.author.name)))
    is_unknown = old is not None and is_open and needs_stamp(old) and not earlier
    if is_unknown or len(users) > limits.AUTHORS:
        return ReviewResult(annotations={KEY: None})
    return ReviewResult(annotations={KEY: spec_authors.sign_authors(users, review.new, signer=hashes)})


def find_authors(raw: Object, stored: str, hashes: HashFunction) -> tuple[str, ...]:
    """Return the users who changed the spec of a Stack, or () if unknown."""
    return spec_authors.read_authors(stored, raw.get("metadata") or {}, raw.get("spec") or {}, signatures=hashes)


def keeps_change(review: Review) -> bool:
    """Return whether an edit is about something else than a change that needs an approval, for example a pause."""
    before, after = (object_fields.mapping(raw, "spec") for raw in (review.old, review.new))
    is_kept = all(before.get(key) == after.get(key) for key in ("approval", "rollback"))
    return is_kept and object_reviews.is_definition_kept(review)


def needs_stamp(raw: Object) -> bool:
    """Return whether changes of a Stack need a separate approver."""
    return object_fields.find(raw, "spec", "approval", "separateApprover") is True


def is_settled(raw: Object) -> bool:
    """Return whether the Stack runs its spec, so that the next edit begins another change."""
    status = object_fields.mapping(raw, "status")
    is_current = object_fields.find(raw, "metadata", "generation") == status.get("observedGeneration")
    return is_current and conditions.find(status, "Ready").get("status") == "True"
