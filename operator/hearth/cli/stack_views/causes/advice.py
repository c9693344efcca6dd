"""Suggests a command for a problem, by its reason or by well-known phrases of the API server and the kubelet.

Phrases only select a hint. Commands are quoted for a shell.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from hearth.cli.stack_views import git_managers
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import verbs
from hearth.model import members, names, object_fields
from hearth.model.phases import Phase

QUOTA: Final = re.compile(r"exceeded quota: ([a-z0-9.-]{1,253})")
WEBHOOK: Final = re.compile(r'(?:failed calling|admission) webhook "([a-zA-Z0-9.-]{1,253})"')
FORBIDDEN: Final = re.compile(
    r'User "([^"\s]{1,300})" cannot ([a-z]{1,20}) resource "([a-z0-9./-]{1,100})" in API group "([a-z0-9.-]{0,253})"'
    r'(?: in the namespace "([a-z0-9-]{1,63})")?'
)
UNSERVED: Final = re.compile(r"does not serve kind \S+ in ([a-z0-9.-]{1,253})/v[a-z0-9]+")
GRANT: Final = re.compile(
    r"kubectl create (?P<kind>(?:cluster)?role) [a-z0-9.-]+ --verb=[a-z,]+ --resource=[a-z0-9./-]+(?: --namespace=[a-z0-9-]+)? && "
    r"kubectl create (?P=kind)binding [a-z0-9.-]+ --(?P=kind)=[a-z0-9.-]+ --serviceaccount=[a-z0-9-]+:[a-z0-9.-]+"
    r"(?: --namespace=[a-z0-9-]+)?"
)
"""Matches the commands in a message that grant rights. A status may be forged, so only harmless characters match."""
NOT_READY: Final = "ObjectNotReady"
"""The reason for an external object that exists but is not ready."""
LIMIT_RANGE: Final = "per Container is"
POD_SECURITY: Final = "violates PodSecurity"
EDITED: Final = frozenset(
    "Invalid Immutable InvalidName InvalidMetadata ExpressionFailed FieldNotFound DuplicateObject InvalidTemplate "
    "SpecUnreadable Restricted".split()
)
"""Reasons that the user resolves by editing the definition."""
MISSING_FIELD: Final = re.compile(r"waits for ([A-Za-z_][A-Za-z0-9_]{0,62})\.")
"""Matches the object and the missing field in a message."""
SOURCE: Final = re.compile(r"\((configmap|secret)/([a-z0-9.-]{1,253})(?: key [^)]*)?\)")
"""Matches the ConfigMap or Secret that messages name as the source of a value or a template."""
OF_DEFINITION: Final = re.compile(r"\bStackDefinition ([a-z0-9.-]{1,253}) spec\.template\b")
"""Matches the StackDefinition whose template has the mistake in the message of an instance."""
FIELD: Final = re.compile(r"\b[A-Za-z][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_-]{1,63}|\[[^\]\s]{1,253}\]){1,32}")
"""Matches a path that may name a field of a manifest."""
PART: Final = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")
"""Matches a part of a path: an item, or a field."""
PARAMETERS: Final = re.compile(r"\b(params|values|item|key|index)\b")
"""Matches, in an expression of a template, the parameters and the names that usually depend on them."""
MESSAGE_LENGTH: Final = 4096
"""Characters of a message that are searched for paths. A status may be forged."""
FREE: Final = "adoptionPolicy: Adopt"
"""Only messages about objects that may be adopted contain this offer; messages about another Stack's object do not."""


def advise_problem(  # noqa: PLR0911 -- one answer for each reason
    stack: StackState,
    problem: Mapping[str, Any],
    outermost_stack: StackState | None,
    *,
    exists: bool = True,
    resources: Mapping[str, Any] | None = None,
) -> str:
    """Return the command that helps with a problem in the status, or "" if its message is sufficient.

    outermost_stack: the Stack whose definition contains the resources; None if it is not known; exists: whether there
    is an object; resources: of the template, which an instance does not contain; None for those in the spec.
    """
    reason, message = object_fields.text(problem, "reason"), object_fields.text(problem, "message")
    resource = object_fields.text(problem, "resource")
    namespace = object_fields.text(problem, "namespace")
    match reason:
        case "NotOwned":
            return advise_adoption(stack, resource, outermost_stack) if FREE in message else ""
        case "Unhealthy":
            return join("kubectl stack unmark", stack.argument, resource, "-n", stack.namespace)
        case "NamespaceNotFound" if namespace:
            return join("kubectl create namespace", namespace)
        case "ObjectNotFound" | "ObjectNotReady":
            return describe_external(problem, is_there=reason == NOT_READY)
        case "KindNotServed":
            found = UNSERVED.search(message)
            return join("kubectl api-resources", f"--api-group={found[1]}") if found else "kubectl api-resources"
        case "Unreachable" | "InternalError" | "NamespaceNotAllowed":
            return ""
    denied = WEBHOOK.search(message)
    # Hearth's own webhook denies a nested Stack because of mistakes in its template.
    is_nested = denied is not None and denied[1].endswith(f".{names.GROUP}")
    command = advise_text(message, namespace or stack.namespace) if not is_nested else ""
    if command:
        return command
    if reason == "FieldNotFound" and (read := advise_external(stack, message, resources)):
        return read
    if is_nested or reason in EDITED:
        definition = find_definition(stack, problem, outermost_stack, resources)
        return advise_edit(outermost_stack, message, definition=definition)
    return describe_object(stack, problem) if exists else ""


def advise_external(stack: StackState, message: str, resources: Mapping[str, Any] | None) -> str:
    """Return the command for a missing field of an external object; "" for other objects and generated names."""
    found = MISSING_FIELD.search(message)
    if resources is None:
        resources = object_fields.mapping(stack.spec, "template", "resources")
    read = object_fields.mapping(resources, found[1], "externalRef") if found is not None else {}
    name = object_fields.text(read, "metadata", "name")
    namespace = object_fields.text(read, "metadata", "namespace") or stack.namespace
    if not name or "${" in f"{name}{namespace}":
        return ""
    return join("kubectl edit", object_fields.text(read, "kind").lower(), name, "-n", namespace)


def find_definition(
    stack: StackState,
    problem: Mapping[str, Any],
    outermost_stack: StackState | None,
    resources: Mapping[str, Any] | None,
) -> str:
    """Return the StackDefinition whose template causes a problem, "" if an edit of the Stack or instance helps.

    resources: as for `advise_problem`.
    """
    source = stack if stack.is_instance else outermost_stack
    # Restrictions are options of the Stack or instance, not part of a template.
    if source is None or not source.is_instance or object_fields.text(problem, "reason") == "Restricted":
        return ""
    root = members.root_of(object_fields.text(problem, "resource"))
    manifest = object_fields.mapping(resources, root, "manifest")
    # The parameters of a nested Stack are part of the template of the StackDefinition.
    if stack.is_instance and reads_parameter(find_rejected_value(manifest, object_fields.text(problem, "message"))):
        return ""
    return f"{source.kind.plural}.{source.kind.group}"


def find_rejected_value(manifest: Mapping[str, Any], message: str) -> Any:
    """Return the template's value of the first field that a message names; None if it names no field of the manifest.

    The value of a computed object or list stands for all of its fields.
    """
    for found in FIELD.finditer(message[:MESSAGE_LENGTH]):
        keys = [key or item for item, key in PART.findall(found[0])]
        if keys[0] in manifest:
            return functools.reduce(find_part, keys, manifest)
    return None


def find_part(value: Any, key: str) -> Any:
    """Return the item or field of a template's value; the value itself if it is an expression."""
    match value:
        case str():
            return value
        case dict():
            return value.get(key)
        case list() if key.isdecimal() and int(key) < len(value):
            return value[int(key)]
    return None


def reads_parameter(value: Any) -> bool:
    """Return whether a value of a template contains an expression that reads a parameter."""
    text = json.dumps(value)
    return "${" in text and PARAMETERS.search(text) is not None


def advise_edit(outermost_stack: StackState | None, message: str, *, definition: str = "") -> str:
    """Return the command that fixes a definition at its source, or shows the object that manages it from Git.

    outermost_stack: as for `advise_problem`; message: the mistake, with its path; definition: the StackDefinition with
    the template, "" if the Stack or the message names the source.
    """
    if outermost_stack is None:
        return ""
    # The labels of an instance say nothing about its StackDefinition.
    if found := OF_DEFINITION.search(message):
        return join("kubectl edit stackdefinition", found[1])
    # Nor do those of a Stack about the objects that it reads.
    if found := SOURCE.search(message):
        return join("kubectl edit", found[1], found[2], "-n", outermost_stack.namespace)
    if shown := "" if definition else show_git_object(outermost_stack):
        return shown
    if definition:
        return join("kubectl edit stackdefinition", definition)
    return join("kubectl edit", outermost_stack.resource_type, outermost_stack.name, "-n", outermost_stack.namespace)


def show_git_object(stack: StackState) -> str:
    """Return the command that shows the object which applies a Stack or instance from Git, "" if there is none.

    An edit in the cluster would be reverted. The object names the repository.
    """
    found = git_managers.find_git_manager(stack.raw)
    if found is None:
        return ""
    if found.group == git_managers.ARGO_GROUP and not found.namespace:
        # The namespace of Argo CD is not known.
        selector = ("--field-selector", f"metadata.name={found.name}")
        return join("kubectl get applications.argoproj.io -A -o yaml", *selector)
    kind = f"{found.kind.lower()}.{found.group}"
    return join("kubectl describe", kind, found.name, "-n", found.namespace or stack.namespace)


def advise_adoption(stack: StackState, resource: str, outermost_stack: StackState | None) -> str:
    """Return the command that lets a resource adopt the existing object; "" if this Stack does not contain the
    template.
    """
    root = members.root_of(resource)
    is_not_here = root not in object_fields.mapping(stack.spec, "template", "resources")
    if stack is not outermost_stack or is_not_here:
        return ""
    if shown := show_git_object(stack):
        return shown
    patch = {"spec": {"template": {"resources": {root: {"adoptionPolicy": "Adopt"}}}}}
    text = json.dumps(patch, separators=(",", ":"))
    return join("kubectl patch stack", stack.name, "-n", stack.namespace, "--type=merge -p", text)


def advise_rollback(stack: StackState, outermost_stack: StackState | None) -> str:
    """Return the command that rolls back to the last completed revision, or "" if there is none or that one fails."""
    is_own = stack is outermost_stack and not stack.is_group and not stack.is_deleting
    if (
        not is_own
        or stack.is_rolled_back
        or not (stack.phase.endswith("Failed") or stack.phase == Phase.UPDATE_IN_PROGRESS)
        or not verbs.find_other_completed(stack)
    ):
        return ""
    return join("kubectl stack rollback", stack.argument, "-n", stack.namespace)


def advise_text(message: str, namespace: str) -> str:
    """Return the command for a message with a well-known phrase, "" for any other."""
    if found := GRANT.search(message):
        return found[0]
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


def describe_external(problem: Mapping[str, Any], *, is_there: bool) -> str:
    """Return the command that shows why an external object is missing or not ready; "" for a list."""
    kind, name, namespace = (object_fields.text(problem, word) for word in ("kind", "name", "namespace"))
    if not name:
        return ""
    scope = ("-n", namespace) if namespace else ()
    if not is_there:
        return join("kubectl get", kind.lower(), *scope)
    if kind in names.STACK_KINDS:
        return join("kubectl stack why", name if kind == names.STACK else f"rg/{name}", *scope)
    return join("kubectl describe", kind.lower(), name, *scope)


def describe_object(stack: StackState, problem: Mapping[str, Any]) -> str:
    """Return the command that shows the object of a problem; "" while it has no name."""
    kind, name = object_fields.text(problem, "kind"), object_fields.text(problem, "name")
    namespace = object_fields.text(problem, "namespace") or stack.namespace
    return join("kubectl describe", kind.lower(), name, "-n", namespace) if kind and name else ""


def with_kubeconfig(stack: StackState, command: str) -> str:
    """Return a command about an object of a Stack, changed to run against the cluster of the object."""
    secret = object_fields.mapping(stack.spec, "kubeConfig", "secretRef")
    name, key = object_fields.text(secret, "name"), object_fields.text(secret, "key") or "value"
    if not name or not command.startswith("kubectl "):
        return command
    path = "{.data." + key.replace(".", r"\.") + "}"
    read = join("kubectl get secret", name, "-n", stack.namespace, "-o", f"jsonpath={path}")
    return f"kubectl --kubeconfig <({read} | base64 -d) {command.removeprefix('kubectl ')}"


def join(start: str, *words: str) -> str:
    """Join a command. Words are quoted for a shell, except options that are written with their value."""
    return " ".join([start, *(word if word.startswith("-") and "=" in word else shlex.quote(word) for word in words)])
