"""Posts Events about Stacks for `kubectl describe`. A repeated message only increases a count.

Never raises, because a lost Event does not affect reconciles.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from hearth import answers
from hearth.engine.cluster_objects import StackObject
from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.text import hidden_texts
from hearth.model.well_known_kinds import EVENT
from hearth.plan.retry import api_errors

log = structlog.get_logger(__name__)

MESSAGE_LENGTH = 1024
"""Maximum bytes of a message in the newer of the API's two kinds of Event."""
NAME_LENGTH = 200
UNSCOPED = "default"
"""Namespace of Events about cluster-scoped objects."""
REMEMBERED = 4096
"""Maximum number of Events whose count is known without a request."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class EventContent:
    """The content of an Event about a Stack."""

    type_: str
    reason: str
    message: str


class EventRecorder:
    """Client that posts Events."""

    def __init__(self, client: ApiClient, *, now: Callable[[], float]) -> None:
        """Create the recorder. now: seconds since the epoch."""
        self._sender = client
        self._now = now
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        """Counts by namespace and name of the Event, the latest last."""

    async def emit(self, stack: StackObject, event: EventContent) -> None:
        """Post an Event or increase its count, without sensitive values; log a failure, never raise it."""
        event = dataclasses.replace(event, message=hidden_texts.redact(event.message, stack.uid))
        name = event_name(stack, event)
        error = await answers.find_error(self._count(about_stack(stack), name, event))
        if isinstance(error, errors.ApiStatusError) and is_terminating(error):
            error = await answers.find_error(self._count(about_namespace(stack.namespace), name, event))
        if error is not None:
            log.warning(
                "failed to post Event", stack=f"{stack.namespace}/{stack.name}", reason=event.reason, error=str(error)
            )

    async def emit_about_source(self, ref: ObjectRef, *, uid: str, event: EventContent) -> None:
        """Post or count an Event about a ConfigMap or Secret."""
        name = name_event(ref.name, uid, event)
        place = {"name": ref.name, "namespace": ref.namespace, "uid": uid}
        if error := await answers.find_error(self._count({"apiVersion": "v1", "kind": ref.kind, **place}, name, event)):
            log.warning("failed to post Event", object=str(ref), reason=event.reason, error=str(error))

    async def _count(self, involved: Object, name: str, event: EventContent) -> None:
        key = (find_namespace(involved), name)
        path = api_requests.object_path(EVENT, *key)
        count = self._counts.get(key)
        if count is None:
            if await self._create(involved, name, event):
                return self._remember(key, 1)
            # An earlier process created the Event.
            count = int((await self._sender.send("get", EVENT, path)).get("count") or 1)
        patch: Object = {"count": count + 1, "lastTimestamp": self._timestamp()}
        try:
            await self._sender.send("patch", EVENT, path, body=patch)
        except errors.ApiStatusError as refused:
            # The server deletes Events after an hour.
            if not refused.is_not_found or not await self._create(involved, name, event):
                raise
            count = 0
        return self._remember(key, count + 1)

    async def _create(self, involved: Object, name: str, event: EventContent) -> bool:
        """Post a new Event; return False if one of this name exists."""
        body = make_event(involved, name, event, self._timestamp())
        return await self._sender.create_new(EVENT, body) is not None

    def _remember(self, key: tuple[str, str], count: int) -> None:
        self._counts[key] = count
        self._counts.move_to_end(key)
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def _timestamp(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def event_name(stack: StackObject, event: EventContent) -> str:
    """Return one name for the same message about the same Stack, so that repetitions share one Event."""
    return name_event(stack.name, stack.uid, event)


def name_event(name: str, uid: str, event: EventContent) -> str:
    """Return one name for the same message about the object of this name and UID."""
    said = names.digest(uid, event.type_, event.reason, event.message)
    return f"{names.shorten(name, length=NAME_LENGTH)}.{said}"


def about_stack(stack: StackObject) -> Object:
    """Return a reference to the Stack; a StackDefinition has no namespace."""
    return {
        "apiVersion": stack.api_version,
        "kind": stack.kind_name,
        "name": stack.name,
        **({"namespace": stack.namespace} if stack.kind != names.DEFINITION_KIND else {}),
        "uid": stack.uid,
        "resourceVersion": str(stack.resource_version),
    }


def about_namespace(name: str) -> Object:
    """Return a reference to the namespace itself, because nothing can be created in it while it terminates."""
    return {"apiVersion": "v1", "kind": "Namespace", "name": name}


def find_namespace(involved: Object) -> str:
    """Return the namespace of an Event where `kubectl describe` finds it: the object's, or the one for objects without
    a namespace.
    """
    return str(involved.get("namespace", UNSCOPED))


def is_terminating(error: errors.ApiStatusError) -> bool:
    """Return whether the API server rejected an Event because its namespace is terminating."""
    reaction = api_errors.classify(error.code, error.status, kind=EVENT, body_size=0)
    return isinstance(reaction, api_errors.NamespaceTerminating)


def make_event(involved: Object, name: str, event: EventContent, timestamp: str) -> Object:
    """Create the Event to post."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": find_namespace(involved)},
        "involvedObject": involved,
        "type": event.type_,
        "reason": event.reason,
        "message": cut(event.message),
        "count": 1,
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "source": {"component": "hearth"},
        "reportingComponent": "hearth",
        "reportingInstance": "hearth",
    }


def cut(message: str) -> str:
    """Truncate a message that is too long, but never within a character."""
    raw = message.encode()
    if len(raw) <= MESSAGE_LENGTH:
        return message
    ellipsis = "…"
    return raw[: MESSAGE_LENGTH - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
