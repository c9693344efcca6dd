"""Converts a ResourceGroup to the form of a Stack with one resource, `member`, which has one object per index.

The indices come from `hearth.model.members`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hearth.model import members, object_fields, rolling_batches
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.members import GroupSize
from hearth.model.text import times

FOR_EACH = "[0]"
"""Makes the resource a collection of numbers. The compiler takes the indices from the size of the group instead."""
SIZE = "size"
"""The field of the spec, in the form of a Stack, with the size of a group."""
SIZE_FIELDS = ("replicas", "removalPolicies", "removalPoliciesMode")
OWN_FIELDS = (*SIZE_FIELDS, "template", "parameters", "rollingUpdate")
"""The fields of a group's spec that a Stack has in another form, or not at all."""
ROLLING_FIELDS = {"maxBatchSize": "maxBatchSize", "minInService": "minReady", "pauseTime": "pause"}
"""By field of `spec.rollingUpdate`, the field of `updatePolicy.rolling`."""
NAME_PATH = "spec.template.manifest.metadata.name"
OWN_NAMES = re.compile(r"\$\{([^}]*[^}.\w])?(index|key|item)\b")
"""An expression whose value differs from member to member. It does not match a field with that name."""
LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
"""A text within an expression."""
ROLLING_PATH = "spec.template.updatePolicy.rolling"


def make_spec(spec: Any) -> Object:
    """Return the spec of a Stack with the same result. spec: of a group, of any shape."""
    if not isinstance(spec, dict):
        return {}
    template, parameters = spec.get("template"), spec.get("parameters")
    member: Any = dict(template) if isinstance(template, dict) else template
    if isinstance(member, dict):
        member["forEach"] = FOR_EACH
    if isinstance(member, dict) and isinstance(rolling := spec.get("rollingUpdate"), dict):
        policy = member.get("updatePolicy")
        known = dict(policy) if isinstance(policy, dict) else {}
        member["updatePolicy"] = {**known, "rolling": make_rolling(rolling)}
    named = parameters if isinstance(parameters, dict) else {}
    return {
        **{key: value for key, value in spec.items() if key not in OWN_FIELDS},
        "template": {"parameters": {name: {} for name in named}, "resources": {members.GROUP_MEMBER: member}},
        "parameters": named,
        SIZE: {key: spec[key] for key in SIZE_FIELDS if key in spec},
    }


def make_rolling(rolling: Mapping[str, Any]) -> Object:
    """Return `updatePolicy.rolling` of the resource. The size of a batch has a default only in the schema of a group."""
    found = {ROLLING_FIELDS.get(key, key): value for key, value in rolling.items()}
    return {"maxBatchSize": 1, **found}


def find_mistakes(
    template: Mapping[str, Any], size: GroupSize, *, timeout: Any, is_scaled: bool = False
) -> Iterator[Mistake]:
    """Find errors that the compiler cannot see.

    These are one name for all members, a minimum above the size, and pauses that take too long. template: in the form
    of a Stack; timeout: of the group, None for none; is_scaled: whether the scale subresource wrote the size, as an
    autoscaler does, which must not break the group.
    """
    found = object_fields.mapping(template, "resources", members.GROUP_MEMBER)
    name = object_fields.mapping(found, "manifest", "metadata").get("name")
    if isinstance(name, str) and OWN_NAMES.search(LITERAL.sub("", name)) is None:
        message = f"is {name!r} for every member, so that all would be one object; add ${{index}}, or omit the name"
        yield Mistake(path=NAME_PATH, message=message)
    rolling = object_fields.mapping(found, "updatePolicy", "rolling")
    if not is_scaled and is_above(least := rolling.get("minReady"), size.replicas):
        message = f"is {least}, but spec.replicas is {size.replicas}; lower it, or raise spec.replicas"
        yield Mistake(path="spec.rollingUpdate.minInService", message=message)
    try:
        pause, limit = times.parse_duration(rolling["pause"]), times.parse_duration(timeout)
        batch = rolling_batches.find_batch_size(rolling["maxBatchSize"], members=size.replicas)
        in_service = int(rolling.get("minReady", 0))
    except (KeyError, TypeError, ValueError):
        return
    batches = rolling_batches.plan_batches(size.replicas, outdated=size.replicas, batch=batch, in_service=in_service)
    pauses = max(0, sum(1 for _ in batches) - 1)
    if pauses and pauses * pause >= limit:
        message = (
            f"is {rolling['pause']} between {pauses + 1} batches, so an update of all members takes longer than "
            f"spec.timeout, {timeout}; shorten the pause, or extend the timeout"
        )
        yield Mistake(path="spec.rollingUpdate.pauseTime", message=message)


def find_warnings(spec: Object) -> Iterator[str]:
    """Find valid settings that are probably unintended. spec: of a valid group, as the API server validated it."""
    size, in_service = spec.get("replicas", 1), object_fields.mapping(spec, "rollingUpdate").get("minInService")
    if isinstance(size, int) and isinstance(in_service, int) and is_above(in_service, size):
        yield rolling_batches.describe_low_size(in_service, size=size)


def is_above(in_service: Any, size: int) -> bool:
    """Return whether a minimum is above the size. A group without members is switched off, so it has no minimum."""
    return isinstance(in_service, int) and not isinstance(in_service, bool) and 0 < size < in_service


def translate(error: InvalidDefinition, others: Sequence[Mistake] = ()) -> InvalidDefinition:
    """Return the errors with their paths in the spec of the group, and `others`, which are more specific."""
    known = {each.path for each in others}
    found = [Mistake(path=find_path(each.path), message=each.message) for each in error.mistakes]
    return InvalidDefinition([*others, *(each for each in found if each.path not in known)])


def find_path(path: str) -> str:
    """Return the path in a group's spec for a path in a Stack's spec."""
    for field, translated in ROLLING_FIELDS.items():
        if path == f"{ROLLING_PATH}.{translated}":
            return f"spec.rollingUpdate.{field}"
    if path.startswith(ROLLING_PATH):
        return f"spec.rollingUpdate{path.removeprefix(ROLLING_PATH)}"
    return path.replace("spec.template.", "spec.", 1) if path.startswith("spec.template.parameters.") else path
