"""The command that helps with a problem: by its reason, else by well-known phrases of the API server and the kubelet.

Phrases decide only which hint is shown, never what anything does. Commands are quoted for a shell.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views.stack_state import StackState
from hearth.model.groups import members

QUOTA: Final = re.compile(r"exceeded quota: ([a-z0-9.-]{1,253})")
WEBHOOK: Final = re.compile(r'(?:failed calling|admission) webhook "([a-zA-Z0-9.-]{1,253})"')
FORBIDDEN: Final = re.compile(
    r'User "([^"\s]{1,300})" cannot ([a-z]{1,20}) resource "([a-z0-9./-]{1,100})" in API group "([a-z0-9.-]{0,253})"'
    r'(?: in the namespace "([a-z0-9-]{1,63})")?'
)
LIMIT_RANGE: Final = "per Container is"
POD_SECURITY: Final = "violates PodSecurity"
EDITED: Final = frozenset(
    "Invalid Immutable InvalidName InvalidMetadata ExpressionFailed FieldNotFound DuplicateObject InvalidTemplate "
    "SpecUnreadable Restricted".split()
)
"""Reasons that an edit of the Stack resolves."""


def advise_problem(stack: StackState, problem: Mapping[str, Any]) -> str:
    """Return the command for a problem in the status; "" if its message says everything."""
    reason, message = object_fields.text(problem, "reason"), object_fields.text(problem, "message")
    resource = object_fields.text(problem, "resource")
    namespace = object_fields.text(problem, "namespace")
    if reason == "NotOwned":
        return advise_adoption(stack, resource) or describe_object(stack, problem)
    if reason == "Unhealthy":
        return join("kubectl stack unmark", stack.argument, resource, "-n", stack.namespace)
    if reason == "NamespaceNotFound" and namespace:
        return join("kubectl create namespace", namespace)
    if reason == "KindNotServed":
        return "kubectl api-resources"
    if command := advise_text(message, namespace or stack.namespace):
        return command
    if reason in EDITED:
        return join("kubectl edit", stack.resource_type, stack.name, "-n", stack.namespace)
    if reason in {"Unreachable", "InternalError"}:
        return ""
    return describe_object(stack, problem)


def advise_adoption(stack: StackState, resource: str) -> str:
    """Return the command that lets a resource adopt the object that exists; "" if the template is elsewhere."""
    root = members.root_of(resource)
    if root not in object_fields.mapping(stack.spec, "template", "resources"):
        return ""
    patch = {"spec": {"template": {"resources": {root: {"adoptionPolicy": "Adopt"}}}}}
    text = json.dumps(patch, separators=(",", ":"))
    return join("kubectl patch stack", stack.name, "-n", stack.namespace, "--type=merge -p", text)


def advise_text(message: str, namespace: str) -> str:
    """Return the command for a message with a well-known phrase, "" for any other."""
    if found := QUOTA.search(message):
        return join("kubectl describe resourcequota", found[1], "-n", namespace)
    if found := WEBHOOK.search(message):
        return "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
    if found := FORBIDDEN.search(message):
        user, verb, plural, group, where = found.groups()
        scope = ["-n", where] if where else []
        return join("kubectl auth can-i", verb, f"{plural}.{group}" if group else plural, *scope, "--as", user)
    if LIMIT_RANGE in message:
        return join("kubectl describe limitrange", "-n", namespace)
    if POD_SECURITY in message:
        return join("kubectl get namespace", namespace, "--show-labels")
    return ""


def describe_object(stack: StackState, problem: Mapping[str, Any]) -> str:
    """Return the command that shows the object of a problem; "" while it has no name."""
    kind, name = object_fields.text(problem, "kind"), object_fields.text(problem, "name")
    namespace = object_fields.text(problem, "namespace") or stack.namespace
    return join("kubectl describe", kind.lower(), name, "-n", namespace) if kind and name else ""


def join(start: str, *words: str) -> str:
    """Return a command; each word is quoted for a shell, options that are written with their value are not."""
    return " ".join([start, *(word if word.startswith("-") and "=" in word else shlex.quote(word) for word in words)])
