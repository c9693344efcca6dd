"""Counts all requests of engines to the fake cluster, and injects faults for tests.

It lives longer than the engines. The effects of requests are in `fake_server`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.model import errors
from hearth.model.kinds import Kind
from support.server import api_errors

DEFINITION_WRITES = frozenset(
    {"definition-finalizer", "definition-revision", "definition-status", "apply-kind", "delete-kind"}
)
WRITES = frozenset(
    {
        "apply",
        "change",
        "delete",
        "release",
        "mark",
        "status",
        "mark-status",
        "mark-resolution",
        "finalizer",
        "revision",
        "delete-revision",
        "delete-stack",
        "create",
        "delete-object",
        "snapshot-status",
        "snapshot-finalizer",
        *DEFINITION_WRITES,
    }
)
"""The verbs that change something an engine depends on; Events are distinguished and never matter."""
CHILD_WRITES = frozenset({"apply", "change", "delete", "release", "mark"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    verb: str
    """`apply`, `delete`, `release`, `status`, `finalizer`, `revision`, `event`, `get`, `list`, `dry-run`, `access-review` …"""
    kind: Kind
    namespace: str
    name: str
    user: str = ""
    """The user that sends the request; "" for the operator."""
    resource: str = ""
    """The resource in the object's label, if known."""
    stack: str = ""
    """The UID of the Stack that the object belongs to, if known."""

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.name.lower()}/{self.name}"


class Lost(Exception):
    """The request takes effect, but no response arrives."""


Refusal: TypeAlias = Callable[[Request], Exception]

REFUSALS: Mapping[str, Refusal] = {
    "unreachable": lambda request: errors.Unreachable("connection refused"),
    "lost": lambda request: Lost(),
    "internal": lambda request: api_errors.internal('failed calling webhook "guard.example.com": deadline exceeded'),
    "server-error": lambda request: api_errors.refuse(500, "", "etcdserver: request timed out"),
    "unavailable": lambda request: api_errors.unavailable(),
    "busy": lambda request: api_errors.busy(2.0),
    "not-now": lambda request: api_errors.not_now(2.0),
    "conflict": lambda request: api_errors.stale(request.kind, request.name),
    "quota": lambda request: api_errors.forbidden(
        request.kind, request.name, "exceeded quota: small, limited: count=1"
    ),
    "denied": lambda request: api_errors.denied(request.kind, request.name, verb="patch", namespace=request.namespace),
    "policy": lambda request: api_errors.policy(request.kind, request.name, "every object needs an owner"),
    "webhook": lambda request: api_errors.webhook("not on a Friday"),
    "invalid": lambda request: api_errors.invalid(
        request.kind, request.name, [api_errors.cause("spec.value", "Invalid value: must be even")]
    ),
}
"""The errors that a request can get, by the word that stories use."""


@dataclass(slots=True, kw_only=True)
class Trouble:
    """A plan to let certain requests fail."""

    refusal: Refusal
    verbs: frozenset[str] = CHILD_WRITES
    resource: str | None = None
    kind: str | None = None
    times: int | None = None
    """Number of failures; None for all until the fault is removed."""

    def meets(self, request: Request) -> bool:
        """Whether this request must fail."""
        if request.verb not in self.verbs or self.times == 0:
            return False
        return self.resource in (None, request.resource) and self.kind in (None, request.kind.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A fault at one write."""

    write: int
    """The number of the write in the story, starting at 1."""
    how: str
    """`kill-before`, `kill-after`, or a word of `REFUSALS`."""


@dataclass(slots=True)
class Traffic:
    """All requests so far, and planned faults."""

    requests: list[Request] = field(default_factory=list)
    namespaces: frozenset[str] | None = None
    """The namespaces to observe; None for all. Requests for objects in others are recorded in `requests_apart`, and no
    listener is notified of them."""
    requests_apart: list[Request] = field(default_factory=list)
    writes: int = 0
    refused: set[int] = field(default_factory=set)
    """Numbers of the writes that had no effect; the first write has number 1."""
    settled: int = 0
    """Number of accepted writes of children, finalizers and revisions."""
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    """All posted Events: the Stack's name, type, reason and message."""
    acting: Request | None = None
    """The request that is taking effect now."""
    is_answer_lost: bool = False
    """Whether the response to that request is lost."""
    troubles: list[Trouble] = field(default_factory=list)
    interruption: Interruption | None = None
    kill: Callable[[], None] = lambda: None
    """Ends the running engine."""
    denied: set[tuple[str, str]] = field(default_factory=set)
    """Verbs and kinds (`patch`, `ConfigMap`) that the engine's account is not allowed."""
    unanswered: set[str] = field(default_factory=set)
    """Kinds whose future lists never arrive."""
    failing: set[str] = field(default_factory=set)
    """Unanswered kinds whose lists fail visibly."""
    listeners: list[Callable[[Request], None]] = field(default_factory=list)
    """Called with every request as it arrives, no matter whether it succeeds."""

    def record(self, request: Request) -> str | None:
        """Count a request; return the planned fault, in a word of `Interruption.how`, or None."""
        if self.namespaces is not None and request.namespace not in self.namespaces:
            self.requests_apart.append(request)
        else:
            self.requests.append(request)
            for listener in self.listeners:
                listener(request)
        if request.verb not in WRITES:
            return None
        self.writes += 1
        planned = self.interruption
        return planned.how if planned is not None and planned.write == self.writes else None

    def settle(self, request: Request) -> None:
        """A request was accepted."""
        if request.verb in WRITES and request.verb not in {"status", "mark-status", "mark-resolution"}:
            self.settled += 1

    def find_refusal(self, request: Request, how: str | None) -> Exception | None:
        """The error for this request, or None if it may pass."""
        verb = {
            "apply": "patch",
            "change": "patch",
            "release": "patch",
            "mark": "patch",
            "revision": "create",
            "event": "create",
        }.get(request.verb, request.verb)
        if (verb, request.kind.name) in self.denied:
            return api_errors.denied(request.kind, request.name, verb=verb, namespace=request.namespace)
        for trouble in self.troubles:
            if trouble.meets(request):
                if trouble.times is not None:
                    trouble.times -= 1
                return trouble.refusal(request)
        return REFUSALS[how](request) if how is not None and how in REFUSALS else None

    def count(self, since: int = 0) -> Counter[str]:
        """Number of requests by verb, without the first `since` requests."""
        return Counter(request.verb for request in self.requests[since:])
