"""The sessions of the page: one per token, with its own connection and caches, bounded in number and time.

A session belongs to a token, so users with the same rights, and even two tokens of one user, share nothing. The API
server checks the token of every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from hearth import supervision
from hearth.cli.page.handlers import Handlers
from hearth.cli.page.rendering import Renderer
from hearth.cli.page.stack_source import StackSource
from hearth.cli.stack_access.read_budgets import PageMemory, ReadMemory
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views import safe_text
from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import Credentials, NoCredentials
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors, limits, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind

SELF_REVIEW: Final = Kind(
    group="authentication.k8s.io",
    version="v1",
    name="SelfSubjectReview",
    plural="selfsubjectreviews",
    namespaced=False,
)
ANONYMOUS: Final = "system:anonymous"
REVIEW_TIMEOUT: Final = 5.0
CLOSE_TIMEOUT: Final = 30.0
"""Seconds for requests in progress of a session that ends: an action must not end between two writes."""
CLOSE_CHECK: Final = 0.05
USER_LENGTH: Final = 253
"""Characters of a user's name that the page shows and logs."""


class TokenRefused(errors.HearthError):
    """The API server does not accept the token. The message is for the user."""


class ServerBusy(errors.HearthError):
    """A limit is reached. The message is for the user."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """The address of the API server, and the file with the certificates that verify it."""

    url: str
    authority: Path | None = None
    """None for the system's certificates."""

    def read_authority(self) -> bytes | None:
        """Return the certificates. Raises NoCredentials."""
        try:
            return self.authority.read_bytes() if self.authority is not None else None
        except OSError as error:
            raise NoCredentials(f"cannot read the certificate authority {self.authority}: {error.strerror}") from error


@value_class.dataclass(frozen=True, slots=True)
class TokenSource:
    """The credentials of one user: the token that the browser sent, and nothing else."""

    server: ApiServer
    token: str = field(repr=False)

    def load(self) -> Credentials:
        """Return the credentials. Raises NoCredentials."""
        if not self.token:
            raise NoCredentials("there is no token, and the page has no credentials of its own")
        return Credentials(
            server=self.server.url,
            authority=self.server.read_authority(),
            authorization=f"Bearer {self.token}",
            files=credentials.stamp([str(self.server.authority)] if self.server.authority is not None else ()),
        )


class UserConnection(Connection):
    """The connection of one user. Reports when the API server no longer accepts the token."""

    on_unauthorized: Callable[[], None] = staticmethod(lambda: None)

    async def request(self, method: str, path: str, **options: Any) -> Object:
        """Send a request like `Connection`."""
        try:
            return await super().request(method, path, **options)
        except errors.ApiStatusError as refused:
            if refused.code == HTTPStatus.UNAUTHORIZED:
                self.on_unauthorized()
            raise


@dataclass(slots=True, eq=False, kw_only=True)
class UserSession:
    """One session. `requests` counts those in progress, streams included."""

    user: str
    digest: bytes
    connection: Connection
    source: StackSource
    handlers: Handlers
    action_token: str
    memory: ReadMemory
    opened_at: float
    used_at: float
    requests: int = 0

    @contextlib.contextmanager
    def use(self, now: Callable[[], float]) -> Iterator[None]:
        """Count a request. Raises ServerBusy."""
        if self.requests >= limits.PAGE_SESSION_REQUESTS:
            raise ServerBusy("you have too many requests in progress; close some tabs")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self.used_at = now()

    async def close(self) -> None:
        """End its streams, then its connection once no request uses it."""
        self.handlers.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                while self.requests:  # noqa: ASYNC110 -- requests end in many places
                    await asyncio.sleep(CLOSE_CHECK)
        await self.source.close()
        await self.connection.close()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What all sessions of a server share."""

    server: ApiServer
    make_action_token: Callable[[str], str]
    is_read_only: bool = False
    sign_out_path: str = ""
    """Where the authenticating proxy signs a user out; "" if there is none."""


Connect = Callable[[TokenSource], Connection]


def connect(source: TokenSource) -> Connection:
    """Return the connection of a user, not open yet."""
    return UserConnection(source, in_flight=limits.PAGE_SESSION_IN_FLIGHT, body_bytes=limits.PAGE_BODY_BYTES)


class UserSessions:
    """All sessions of a server."""

    def __init__(self, options: SessionOptions, *, connect: Connect = connect) -> None:
        """connect: makes a connection, which is not open yet."""
        self._options = options
        self._connect = connect
        self._key = secrets.token_bytes(32)
        """A key for the digests of tokens: how long a lookup takes reveals nothing about a token."""
        self._sessions: OrderedDict[bytes, UserSession] = OrderedDict()
        """By digest of the token, the longest unused first."""
        self._locks: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()
        self._reviews = asyncio.Semaphore(limits.PAGE_REVIEWS)
        self._previews = asyncio.Semaphore(limits.PAGE_PREVIEWS)
        self._memory = ReadMemory(limits.PAGE_READS_BYTES)
        self._memories: weakref.WeakValueDictionary[str, ReadMemory] = weakref.WeakValueDictionary()
        """By user, the memory of the reads of all their sessions."""
        self._row_memory = ReadMemory(limits.PAGE_ALL_ROW_BYTES)
        self._row_memories: weakref.WeakValueDictionary[str, ReadMemory] = weakref.WeakValueDictionary()
        """By user, the memory of the rows of all their sessions."""
        self.list_turns = asyncio.Semaphore(limits.PAGE_LISTS)
        self._closing: dict[asyncio.Task[None], UserSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def requests(self) -> int:
        """Return the requests in progress, streams and those of closing sessions included."""
        return sum(session.requests for session in (*self._sessions.values(), *self._closing.values()))

    def count_requests(self, user: str) -> int:
        """Return the requests in progress of all sessions of a user."""
        sessions = (*self._sessions.values(), *self._closing.values())
        return sum(session.requests for session in sessions if session.user == user)

    def find(self, token: str, *, can_sign_out: bool) -> UserSession | None:
        """Return the open session of a token. can_sign_out: whether the token is in our cookie."""
        digest = self._digest(token, can_sign_out=can_sign_out)
        session = self._sessions.get(digest)
        if session is None or not hmac.compare_digest(session.digest, digest):
            return None
        self._sessions.move_to_end(digest)
        return session

    async def open(
        self, token: str, *, can_sign_out: bool, check_turn: Callable[[], None] = lambda: None
    ) -> UserSession:
        """Return the session of a token; checks the token if it has none yet.

        can_sign_out: as for `find`; check_turn: called before the API server is asked, and may raise an error. Raises
        TokenRefused, ServerBusy, ApiStatusError and Unreachable.
        """
        digest = self._digest(token, can_sign_out=can_sign_out)
        async with self._locks.setdefault(digest, asyncio.Lock()):
            if (known := self.find(token, can_sign_out=can_sign_out)) is not None:
                return known
            connection = self._connect(TokenSource(self._options.server, token))
            try:
                async with self._reviews:
                    check_turn()
                    await connection.open()
                    user = await review_token(connection)
                self._make_room(user)
            except BaseException:
                await connection.close()
                raise
            session = self._make(user, token, connection, can_sign_out=can_sign_out)
            self._sessions[digest] = session
            if isinstance(connection, UserConnection):
                connection.on_unauthorized = lambda: self.drop(session)
            return session

    def _make(self, user: str, token: str, connection: Connection, *, can_sign_out: bool) -> UserSession:
        reads = self._memories.setdefault(user, ReadMemory(limits.PAGE_USER_READ_BYTES, whole_memory=self._memory))
        rows = ReadMemory(limits.PAGE_USER_ROW_BYTES, whole_memory=self._row_memory)
        memory = PageMemory(
            row_memory=self._row_memories.setdefault(user, rows),
            read_memory=reads,
            list_turns=self.list_turns,
        )
        source = StackSource(Session(connection), namespace="", kept=0, memory=memory)
        action_token = self._options.make_action_token(token)
        renderer = Renderer(
            root="/",
            action_token=action_token,
            user=user,
            can_sign_out=can_sign_out,
            sign_out_path=self._options.sign_out_path,
            is_read_only=self._options.is_read_only,
        )
        now = asyncio.get_running_loop().time()
        return UserSession(
            user=user,
            digest=self._digest(token, can_sign_out=can_sign_out),
            connection=connection,
            source=source,
            handlers=Handlers(source, renderer, previews=self._previews, silences_engine=False),
            action_token=action_token,
            memory=reads,
            opened_at=now,
            used_at=now,
        )

    def _make_room(self, user: str) -> None:
        """Close sessions beyond the limits. Raises ServerBusy if all others are in use."""
        own = [session for session in self._sessions.values() if session.user == user]
        for session in own[: max(0, len(own) - limits.PAGE_USER_SESSIONS + 1)]:
            self.drop(session)
        # A user with many tokens replaces sessions faster than their requests end.
        if sum(session.requests > 0 for session in self._closing.values()) >= limits.PAGE_SESSIONS:
            raise ServerBusy("too many people use this page right now; try again later")
        if len(self._sessions) >= limits.PAGE_SESSIONS:
            unused = next((session for session in self._sessions.values() if not session.requests), None)
            if unused is None:
                raise ServerBusy("too many people use this page right now; try again later")
            self.drop(unused)

    def drop(self, session: UserSession) -> None:
        """Close a session at once. The next request with its token opens a new one."""
        if self._sessions.get(session.digest) is session:
            del self._sessions[session.digest]
            session.handlers.close()
            task = supervision.start(session.close(), name="close a session of the page")
            self._closing[task] = session
            task.add_done_callback(self._closing.pop)

    def drop_old(self) -> None:
        """Close sessions that are idle or old, and drop old caches of the others."""
        now = asyncio.get_running_loop().time()
        for session in list(self._sessions.values()):
            is_idle = not session.requests and now - session.used_at > limits.PAGE_SESSION_IDLE
            if is_idle or now - session.opened_at > limits.PAGE_SESSION_AGE:
                self.drop(session)
            else:
                session.source.drop_old()

    def end_streams(self) -> None:
        """End all streams, and open no more."""
        for session in self._sessions.values():
            session.handlers.close()

    async def close(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions.values()):
            self.drop(session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _digest(self, token: str, *, can_sign_out: bool) -> bytes:
        return hmac.digest(self._key, f"{can_sign_out}:{token}".encode(), "sha256")


async def review_token(connection: Connection) -> str:
    """Return the name of the user that a connection's token belongs to. Raises TokenRefused, ApiStatusError, Unreachable."""
    body = {"apiVersion": SELF_REVIEW.api_version, "kind": SELF_REVIEW.name}
    try:
        answer = await connection.request(
            "POST", api_requests.collection_path(SELF_REVIEW), body=body, timeout=REVIEW_TIMEOUT
        )
    except errors.ApiStatusError as refused:
        if refused.code == HTTPStatus.UNAUTHORIZED:
            raise TokenRefused("The cluster does not accept your token: it has expired or is not valid.") from refused
        raise
    user = object_fields.text(answer, "status", "userInfo", "username")
    if not user or user == ANONYMOUS:
        raise TokenRefused("The cluster does not accept your token: it belongs to no user.")
    return safe_text.one_line(user)[:USER_LENGTH]
