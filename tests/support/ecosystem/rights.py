"""Which rules of a role the requests of an account needed, by what the API server logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One allowed request, as an authorizer sees it."""

    verb: str
    group: str
    resource: str
    """With its subresource: `stacks/status`."""
    namespace: str
    name: str
    """Empty for a creation, whose name the authorizer does not know."""


def parse_requests(events: Iterable[Object], user: str) -> Iterator[Request]:
    """The distinct requests of that user; one as a ServiceAccount counts as its impersonation alone."""
    seen = set()
    for event in events:
        if event["user"]["username"] == user and (target := event.get("objectRef")) and is_allowed(event):
            request = (
                parse_impersonation(event) if "impersonatedUser" in event else parse_request(event["verb"], target)
            )
            if request not in seen:
                seen.add(request)
                yield request


def is_allowed(event: Object) -> bool:
    """Whether the authorizer let it pass; what happened then does not matter."""
    return bool(event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow")


def parse_request(verb: str, target: Object) -> Request:
    """The request for the object of an event."""
    return Request(
        verb=verb,
        group=target.get("apiGroup", ""),
        resource="/".join(each for each in (target["resource"], target.get("subresource", "")) if each),
        namespace=target.get("namespace", ""),
        name="" if verb == "create" else target.get("name", ""),
    )


def parse_impersonation(event: Object) -> Request:
    """The right that lets a request be sent as a ServiceAccount."""
    *_, namespace, name = event["impersonatedUser"]["username"].split(":")
    return Request(verb="impersonate", group="", resource="serviceaccounts", namespace=namespace, name=name)


def find_unnecessary(role: Object, requests: Sequence[Request]) -> list[str]:
    """The rules without which all requests would still be allowed by this role, or not be allowed by it either way."""
    rules = role["rules"]
    namespace = role["metadata"].get("namespace", "")
    within = [each for each in requests if not namespace or each.namespace == namespace]
    return [
        describe(rule)
        for rule in rules
        if not any(covers(rule, each) and not covers_any(rules, each, but=rule) for each in within)
    ]


def covers_any(rules: Iterable[Object], request: Request, *, but: Object) -> bool:
    """Whether another rule allows the request."""
    return any(covers(each, request) for each in rules if each is not but)


def covers(rule: Object, request: Request) -> bool:
    """Whether the rule allows the request."""
    names = rule.get("resourceNames")
    return (
        request.verb in rule["verbs"]
        and request.group in rule["apiGroups"]
        and request.resource in rule["resources"]
        and (names is None or request.name in names)
    )


def describe(rule: Object) -> str:
    """The rule in one line."""
    names = f" {','.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
    return f"{','.join(rule['resources'])}{names}: {','.join(rule['verbs'])}"
