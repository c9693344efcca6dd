"""Error bodies of a real API server, as exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hearth.model import errors
from hearth.model.kinds import Kind

Cause: TypeAlias = dict[str, str]


def refuse(
    code: int, reason: str, message: str, *, details: Mapping[str, Any] | None = None, retry_after: float | None = None
) -> errors.ApiStatusError:
    """A refusal whose body is a `Status`; without a reason if `reason` is empty."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status["message"] = message
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = dict(details)
    return errors.ApiStatusError(code=code, status={**status, "code": code}, retry_after=retry_after)


def resource_name(kind: Kind) -> str:
    """`deployments.apps`, as messages name a resource."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def details(kind: Kind, name: str, *, causes: Sequence[Cause] = (), by_kind: bool = False) -> dict[str, Any]:
    """The details of a refusal. Most contain the plural resource, but validation errors contain the kind."""
    found: dict[str, Any] = {"name": name}
    if kind.group:
        found["group"] = kind.group
    found["kind"] = kind.name if by_kind else kind.plural
    if causes:
        found["causes"] = list(causes)
    return found


def cause(field: str, message: str, *, reason: str = "FieldValueInvalid") -> Cause:
    return {"reason": reason, "message": message, "field": field}


RULES_NOT_RUN = cause(
    "<nil>",
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
"""Added to type errors if the kind also has CEL rules."""


def unknown_kind() -> errors.ApiStatusError:
    """The server does not serve that path: plain text, no `Status`."""
    return errors.ApiStatusError(code=404, status=None)


def not_found(kind: Kind, name: str) -> errors.ApiStatusError:
    """The object does not exist."""
    return refuse(404, "NotFound", f'{resource_name(kind)} "{name}" not found', details=details(kind, name))


def namespace_missing(namespace: str) -> errors.ApiStatusError:
    """The namespace for the new object does not exist."""
    found = {"name": namespace, "kind": "namespaces"}
    return refuse(404, "NotFound", f'namespaces "{namespace}" not found', details=found)


def namespace_terminating(kind: Kind, name: str, namespace: str) -> errors.ApiStatusError:
    """No objects can be created in a namespace that is being deleted."""
    why = cause("metadata.namespace", f"namespace {namespace} is being terminated", reason="NamespaceTerminating")
    message = (
        f'{resource_name(kind)} "{name}" is forbidden: '
        f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    return refuse(403, "Forbidden", message, details=details(kind, name, causes=[why]))


def forbidden(kind: Kind, name: str, why: str) -> errors.ApiStatusError:
    """Rejected by admission or authorization; only the text says which."""
    message = f'{resource_name(kind)} "{name}" is forbidden: {why}'
    return refuse(403, "Forbidden", message, details=details(kind, name))


def denied(kind: Kind, name: str, *, verb: str, namespace: str) -> errors.ApiStatusError:
    """The account lacks the permission."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    user = "system:serviceaccount:hearth:hearth"
    what = f'cannot {verb} resource "{kind.plural}" in API group "{kind.group}" {where}'
    return forbidden(kind, name, f'User "{user}" {what}')


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> errors.ApiStatusError:
    """Validation found these causes."""
    found = [f"{each['field']}: {each['message']}" for each in causes]
    listed = found[0] if len(found) == 1 else "[" + ", ".join(found) + "]"
    title = f"{kind.name}.{kind.group}" if kind.group else kind.name
    body = details(kind, name, causes=causes, by_kind=True)
    return refuse(422, "Invalid", f'{title} "{name}" is invalid: {listed}', details=body)


def bad_request(message: str) -> errors.ApiStatusError:
    """The body cannot be read as that kind."""
    return refuse(400, "BadRequest", message)


def unreadable_patch(kind: Kind, namespace: str, name: str, mistake: str) -> errors.ApiStatusError:
    """The error of an apply where a create would get a proper 400 or 422: a 500 without a reason."""
    where = f"{namespace}/{name}; {kind.api_version}, Kind={kind.name}"
    return refuse(500, "", f"failed to create typed patch object ({where}): {mistake}")


def exists(kind: Kind, name: str, *, deleting: bool) -> errors.ApiStatusError:
    """A create met an object of that name."""
    prefix = "object is being deleted: " if deleting else ""
    message = f'{prefix}{resource_name(kind)} "{name}" already exists'
    return refuse(409, "AlreadyExists", message, details=details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> errors.ApiStatusError:
    """The uid or resourceVersion in the request differs from the object's."""
    message = f'Operation cannot be fulfilled on {resource_name(kind)} "{name}": {why}'
    return refuse(409, "Conflict", message, details=details(kind, name))


def stale(kind: Kind, name: str) -> errors.ApiStatusError:
    """The resourceVersion in the request differs from the object's."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def owned_by_others(owned: Mapping[str, Sequence[str]]) -> errors.ApiStatusError:
    """An apply without force conflicts with fields of others.

    The argument has the fields by manager, in the server's wording.
    """
    causes = [
        cause(field, f"conflict with {manager}", reason="FieldManagerConflict")
        for manager, fields in sorted(owned.items())
        for field in fields
    ]
    count = len(causes)
    if count == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [f"conflicts with {manager}:\n" + "\n".join(f"- {f}" for f in fs) for manager, fs in owned.items()]
        message = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return refuse(409, "Conflict", message, details={"causes": causes})


def busy(seconds: float) -> errors.ApiStatusError:
    """The server's own flow control rejects a request: plain text, no `Status`."""
    return errors.ApiStatusError(code=429, status=None, retry_after=seconds)


def not_now(seconds: float) -> errors.ApiStatusError:
    """A component behind the server temporarily rejects this request: a webhook, a disruption budget."""
    body = {"retryAfterSeconds": int(seconds)}
    return refuse(429, "TooManyRequests", "not just now", details=body, retry_after=seconds)


def internal(message: str) -> errors.ApiStatusError:
    """Something behind the server failed, for example a webhook."""
    return refuse(
        500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]}
    )


def unavailable() -> errors.ApiStatusError:
    """No server is available for that group; not a `Status`."""
    return errors.ApiStatusError(code=503, status=None)


def policy(kind: Kind, name: str, why: str) -> errors.ApiStatusError:
    """A ValidatingAdmissionPolicy denies the request: like an invalid field, but its cause has no field."""
    body = details(kind, name, causes=[{"message": why}])
    return refuse(422, "Invalid", f'{resource_name(kind)} "{name}" is forbidden: {why}', details=body)


def webhook(why: str) -> errors.ApiStatusError:
    """A webhook denies the request with its own message."""
    return refuse(400, "", f'admission webhook "guard.example.com" denied the request: {why}')
