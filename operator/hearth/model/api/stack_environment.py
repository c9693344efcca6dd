"""The API's words for breakpoints and restricted actions. Source of the CRD, as `hearth.model.api.stack` is."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import pydantic

from hearth.model import limits
from hearth.model.api.base import ApiModel

RULES_LIMIT = limits.ENVIRONMENT_RULES
GLOB_PATTERN = r"^[a-zA-Z0-9*?\[\]-]+(/[a-zA-Z0-9*?\[\]-]+)*$"

ResourceGlob: TypeAlias = Annotated[str, pydantic.Field(max_length=limits.GLOB_LENGTH, pattern=GLOB_PATTERN)]
Hook: TypeAlias = Literal[
    "PreCreate", "PostCreate", "PreUpdate", "PostUpdate", "PreReplace", "PostReplace", "PreDelete", "PostDelete"
]


class Breakpoint(ApiModel):
    """Where resources stop until a user continues them."""

    resource: ResourceGlob
    """The resource, by name or with the wildcards `*` and `?`; `workers[a]` is a member of a collection, `workers[*]` every
    member. `cache/db` is one of the nested stack `cache`: the entry is
    written into its `spec.environment`, with the rest of the path.
    """
    at: list[Hook] = pydantic.Field(min_length=1, max_length=8, json_schema_extra={"x-kubernetes-list-type": "set"})
    """Before (`Pre…`) or after (`Post…`) the action on the resource, independent of the Stack's own action. After:
    its object is ready, and resources that require it still wait."""


class RestrictedAction(ApiModel):
    """Actions that are denied on resources."""

    resource: ResourceGlob
    """The resource, by name or with the wildcards `*` and `?`; `workers[a]` is a member of a collection, `workers[*]` every
    member. `cache/db` is one of the nested stack `cache`: the entry is
    written into its `spec.environment`, with the rest of the path.
    """
    deny: list[Literal["Update", "Replace", "Delete"]] = pydantic.Field(
        min_length=1, max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """What is denied. The object stays as it is, and the Stack reports Failed until the rule or the target changes."""


class Environment(ApiModel):
    """How the Stack is rolled out, as opposed to what it contains. It is not part of a revision; the current value
    always applies.
    """

    breakpoints: list[Breakpoint] | None = pydantic.Field(
        default=None, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Where resources stop and wait. The annotation `hearth.dev/continue: web/PreUpdate` on the Stack continues one of
    them, once per revision; so does the removal of the entry.
    """
    restricted_actions: list[RestrictedAction] | None = pydantic.Field(
        default=None, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Actions that are denied on resources."""
