"""Health of nested Stacks: by their conditions, with the resources within them that wait at a breakpoint for a user."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from hearth.plan.environment.environment_rules import Action
from hearth.plan.health import condition_rules
from hearth.plan.health.health_result import Fields, HealthResult, HealthState, NestedStop, entry, read_items, read_text

HOOKS = frozenset(f"{when}{action}" for when in ("Pre", "Post") for action in Action)


def assess_stack(fields: Fields) -> HealthResult:
    """Assess like any reporting kind. A stopped Stack's result includes the resources that wait for a user."""
    verdict = condition_rules.assess_reporting(fields)
    if verdict.state is HealthState.PROGRESSING and verdict.reason == "Stopped":
        return dataclasses.replace(verdict, stops=tuple(read_stops(fields)))
    return verdict


def read_stops(fields: Fields) -> Iterator[NestedStop]:
    """Yield the waiting resources from the Stack's own list, which includes those of deeper Stacks."""
    for item in read_items(fields, "status.breakpoints"):
        resource, hook = read_text(item, "resource"), read_text(item, "hook")
        if resource and hook in HOOKS:
            yield NestedStop(
                resource=resource,
                hook=hook,
                kind=read_text(item, "kind"),
                name=read_text(item, "name"),
                stack=read_text(item, "stack") or read_text(fields, "metadata.name"),
            )


STACK = entry(assess_stack, "status.observedGeneration", "status.conditions", "status.breakpoints")
