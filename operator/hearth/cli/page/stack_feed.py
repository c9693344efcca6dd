"""The list of Stacks of one user, kept up to date by watches while a browser shows it.

The feed belongs to one session: it reads with the user's own token, and no other user sees its rows. Objects are drawn page
by page, and only the drawn rows are kept, because an object takes many times the memory of its row.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hearth import supervision
from hearth.cli.page import shown_stack
from hearth.cli.stack_access import read_budgets, stack_locations
from hearth.cli.stack_access.read_budgets import ListTooLarge, MemoryInUse, PageMemory
from hearth.cli.stack_access.session import BOOKMARK, NotInstalled, Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors, limits, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK

RELIST_PAUSE: Final = 1.0
"""Minimum seconds between two lists of a kind: after an error, and for users who must not watch."""
PAUSE_FACTOR: Final = 3
"""The pause lasts this many times as long as the list took."""
CHUNK: Final = 50
"""Rows that are drawn before others are answered."""
LASTING: Final = 5.0
"""Seconds after which the end of a watch is an ordinary one. It then continues where it ended, without another list."""
CHECK_SECONDS: Final = 10.0
"""Seconds between two checks of the user's permissions: the API server checks those of a watch only at its start."""
CHECK_TIMEOUT: Final = 10.0
"""Seconds for such a check. Without an answer, the rows are read again before they are shown."""
LIST_TIMEOUT: Final = 60.0
"""Seconds that a page waits for its list, while the lists of others take their turns."""
IDLE_SECONDS: Final = 30.0
"""Seconds without a browser after which the watches end."""
BATCH: Final = 200
"""Rows of one message to a browser, so that a browser that does not read costs little memory."""
REMOVALS: Final = 1_000
"""Removed rows that a feed remembers. Browsers that missed more get the names of all rows."""
ROW_OVERHEAD: Final = 400
"""Bytes that Python takes for a row in addition to its HTML."""
DrawRow: TypeAlias = Callable[[StackState], bytes]


@value_class.dataclass(frozen=True, slots=True)
class RowChange:
    """The rows that a browser lacks."""

    version: int
    """The version of the list with these changes."""
    rows: dict[str, str]
    removed: Sequence[str]
    all: Sequence[str] | None
    """The paths of all rows, if the browser may have others."""


@dataclass(slots=True, eq=False)
class KindFeed:
    """The list of one kind."""

    kind: Kind
    watches: bool
    """False to list at intervals instead."""
    error: errors.HearthError | None = None
    is_listed: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether there is a list or an error."""
    task: asyncio.Task[None] | None = None

    @property
    def is_left_out(self) -> bool:
        """Return whether the user must not list the kind, or the server does not serve it."""
        if not isinstance(self.error, errors.ApiStatusError):
            return False
        is_missing = self.error.is_not_found and not (self.kind == STACK and isinstance(self.error, NotInstalled))
        return self.error.is_forbidden or is_missing

    def set_error(self, error: errors.HearthError | None) -> None:
        """Set the result of the list."""
        self.error = error
        self.is_listed.set()


class StackFeed:
    """The rows of all kinds of Stacks in a namespace, "" for all."""

    def __init__(self, session: Session, namespace: str, *, draw: DrawRow, memory: PageMemory) -> None:
        """Start nothing yet. draw: returns the HTML of a row."""
        self._session = session
        self._namespace = namespace
        self._draw = draw
        self._memory = memory
        self._id = secrets.token_hex(4)
        self._kinds: dict[Kind, KindFeed] = {}
        self._error: errors.HearthError | None = None
        self._is_started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._users = 0
        self._used_at = 0.0
        self._rows: dict[str, tuple[bytes, int]] = {}
        """By path, the HTML and its version."""
        self._version = 0
        """Increased by each change of a row."""
        self._removals: OrderedDict[str, int] = OrderedDict()
        """By path, the version of its removal."""
        self._complete_since = 0
        """The version since which `_removals` is complete."""

    @property
    def is_in_use(self) -> bool:
        """Return whether a browser follows the list, or a page of it is being made."""
        return self._users > 0

    @property
    def is_running(self) -> bool:
        """Return whether the watches run."""
        return self._task is not None and not self._task.done()

    @property
    def cursor(self) -> str:
        """Return the present version, for `find_version`."""
        return f"{self._id}.{self._version}"

    def find_version(self, cursor: str) -> int | None:
        """Return the version of a browser's list; None if this feed cannot tell what the browser has."""
        id_, _, text = cursor.partition(".")
        version = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
        return version if id_ == self._id and self._complete_since <= version <= self._version else None

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Keep the watches within the block."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = asyncio.get_running_loop().time()

    async def wait_listed(self) -> None:
        """Start the watches, and return when all kinds are listed. Raises ApiStatusError and Unreachable."""
        if not self.is_running:
            self._is_started.clear()
            self._task = supervision.spawn_until_done("page list", self._run)
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                await self._is_started.wait()
                for kind_feed in list(self._kinds.values()):
                    await kind_feed.is_listed.wait()
        except TimeoutError:
            raise errors.Unreachable(f"no complete list of Stacks within {LIST_TIMEOUT:g} s") from None
        self._check_errors()

    def list_rows(self) -> list[bytes]:
        """Return the rows by namespace and name; in each namespace, Stacks, instances by their kind, and groups."""
        return [self._rows[path][0] for path in sorted(self._rows, key=find_place)]

    def find_row_change(self, version: int | None) -> RowChange | None:
        """Return what a browser with this version lacks, a part of it if that is much. None for the version: everything."""
        if version == self._version:
            return None
        is_known = version is not None and version >= self._complete_since
        since = version if version is not None else -1
        changed = sorted((at, path) for path, (_, at) in self._rows.items() if at > since)
        reached = changed[BATCH - 1][0] if len(changed) > BATCH else self._version
        return RowChange(
            version=reached,
            rows={path: self._rows[path][0].decode() for _, path in changed[:BATCH]},
            removed=[path for path, at in self._removals.items() if since < at <= reached] if is_known else (),
            all=None if is_known else list(self._rows),
        )

    def _check_errors(self) -> None:
        """Raise the error of a kind. Kinds that the user must not list are left out, unless that is all of them."""
        if self._error is not None or not self._kinds:
            raise self._error or errors.Unreachable("the list of Stacks is read again")
        found = [kind_feed for kind_feed in self._kinds.values() if kind_feed.error is not None]
        failed = [kind_feed for kind_feed in found if not kind_feed.is_left_out]
        for kind_feed in failed or (found if len(found) == len(self._kinds) else ()):
            if kind_feed.error is not None:
                raise kind_feed.error

    async def _run(self) -> None:
        """Follow all kinds until no browser shows them."""
        loop = asyncio.get_running_loop()
        self._error, self._used_at = None, loop.time()
        try:
            # The page that starts the feed ends before it does, so the feed has a budget of its own.
            with read_budgets.metering(self._memory.make_meter()):
                while self.is_in_use or loop.time() - self._used_at < IDLE_SECONDS:
                    await self._check_kinds()
                    self._is_started.set()
                    await asyncio.sleep(CHECK_SECONDS)
        except errors.HearthError as error:
            self._error = error
        finally:
            for kind in list(self._kinds):
                await self._end(kind)
            self._clear()
            self._is_started.set()

    async def _check_kinds(self) -> None:
        """Follow each kind that the server serves, and check that the user may still list it.

        Raises ApiStatusError and Unreachable if the kinds are not known yet.
        """
        kinds, _ = await asyncio.gather(self._list_kinds(), self._check_permissions())
        for kind in self._kinds.keys() - set(kinds):
            await self._end(kind)
        for number, kind in enumerate(kinds):
            if kind not in self._kinds:
                self._kinds[kind] = KindFeed(kind, watches=number < limits.PAGE_WATCHES)
                self._start(self._kinds[kind])

    async def _list_kinds(self) -> Collection[Kind]:
        """Return the kinds that the server serves, or those of the last time. Raises ApiStatusError and Unreachable."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                return await stack_locations.list_kinds(self._session)
        except TimeoutError:
            if not self._kinds:
                raise errors.Unreachable("the API server does not answer") from None
        except errors.HearthError:
            if not self._kinds:
                raise
        return list(self._kinds)

    def _start(self, kind_feed: KindFeed) -> None:
        kind_feed.task = supervision.spawn_forever("page list", functools.partial(self._follow, kind_feed))

    async def _end(self, kind: Kind) -> None:
        kind_feed = self._kinds.pop(kind)
        await cancel(kind_feed.task)
        self._remove_unlisted(kind, frozenset())
        kind_feed.is_listed.set()

    async def _check_permissions(self) -> None:
        await asyncio.gather(*(self._check_permission(kind_feed) for kind_feed in list(self._kinds.values())))

    async def _check_permission(self, kind_feed: KindFeed) -> None:
        """Read the list again, before anything of it is shown, unless the user may list it."""
        if not kind_feed.is_listed.is_set() or kind_feed.error is not None:
            return
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                await self._session.check_listing(kind_feed.kind, self._namespace)
        except TimeoutError:
            kind_feed.error = errors.Unreachable("the API server does not answer")
        except errors.HearthError as error:
            kind_feed.error = error
        else:
            return
        await cancel(kind_feed.task)
        if kind_feed.is_left_out:
            self._remove_unlisted(kind_feed.kind, frozenset())
        self._start(kind_feed)

    async def _follow(self, kind_feed: KindFeed) -> None:
        """List and watch a kind until cancelled."""
        loop = asyncio.get_running_loop()
        with read_budgets.metering(self._memory.make_meter()):
            while True:
                began = loop.time()
                try:
                    version = await self._list(kind_feed.kind)
                    kind_feed.set_error(None)
                    took = loop.time() - began
                    await (self._watch(kind_feed.kind, version) if kind_feed.watches else asyncio.sleep(CHECK_SECONDS))
                except errors.HearthError as error:
                    took = loop.time() - began
                    read_budgets.begin_again()
                    kind_feed.set_error(error)
                    if kind_feed.is_left_out or isinstance(error, ListTooLarge | MemoryInUse):
                        self._remove_unlisted(kind_feed.kind, frozenset())
                await asyncio.sleep(max(RELIST_PAUSE, PAUSE_FACTOR * took))

    async def _list(self, kind: Kind) -> str:
        """Draw all objects of a kind; return the resourceVersion to watch from. Raises ApiStatusError and Unreachable."""
        version, listed, size = "", set[str](), 0
        pages = self._session.list_pages(kind, self._namespace)
        async with contextlib.aclosing(pages):
            while True:
                # Users who open their lists at the same time must not fill the memory with objects.
                async with self._memory.list_turns:
                    page = await anext(pages, None)
                    if page is None:
                        break
                    version = page.version
                    size += page.size
                    if size > limits.PAGE_LIST_BYTES:
                        raise ListTooLarge(kind, f"{limits.PAGE_LIST_BYTES // 2**20} MiB")
                    for number, raw in enumerate(page.items, 1):
                        listed.add(self._put(kind, raw))
                        if len(listed) > limits.PAGE_ROWS:
                            raise ListTooLarge(kind, f"{limits.PAGE_ROWS:,} objects")
                        if number % CHUNK == 0:
                            await asyncio.sleep(0)
                    del page
                    read_budgets.begin_again()
        self._remove_unlisted(kind, listed)
        return version

    async def _watch(self, kind: Kind, version: str) -> None:
        """Draw changes until the watch ends early. version: "" if the server does not report one."""
        loop = asyncio.get_running_loop()
        is_lasting = True
        while version and is_lasting:
            began = loop.time()
            query = {"allowWatchBookmarks": "true"}
            watch = self._session.watch(kind, self._namespace, query=query, version=version)
            async with contextlib.aclosing(watch) as events:
                async for type_, changed in events:
                    version = object_fields.text(changed, "metadata", "resourceVersion") or version
                    if type_ == "DELETED":
                        self._remove(make_path(kind, changed))
                    elif type_ != BOOKMARK:
                        self._put(kind, changed)
                        if len(self._rows) > limits.PAGE_ROWS * len(self._kinds):
                            raise ListTooLarge(kind, f"{limits.PAGE_ROWS:,} objects")
            is_lasting = loop.time() - began > LASTING

    def _put(self, kind: Kind, raw: Object) -> str:
        """Draw a row; return its path. Raises MemoryInUse."""
        stack = stack_locations.parse({"apiVersion": kind.api_version, "kind": kind.name, **raw}, kind)
        path, known = make_path(kind, raw), self._rows.get(make_path(kind, raw))
        # A Stack that cannot be drawn must not cost users the list of all others.
        row = supervision.attempt("page list", lambda: self._draw(stack), lambda: b"")
        if known is not None and known[0] == row:
            return path
        if not row:
            self._remove(path)
            return path
        self._memory.row_memory.take(len(row) + ROW_OVERHEAD)
        if known is not None:
            self._memory.row_memory.give_back(len(known[0]) + ROW_OVERHEAD)
        self._removals.pop(path, None)
        self._version += 1
        self._rows[path] = (row, self._version)
        return path

    def _remove(self, path: str) -> None:
        known = self._rows.pop(path, None)
        if known is None:
            return
        self._memory.row_memory.give_back(len(known[0]) + ROW_OVERHEAD)
        self._version += 1
        self._removals[path] = self._version
        if len(self._removals) > REMOVALS:
            _, self._complete_since = self._removals.popitem(last=False)

    def _remove_unlisted(self, kind: Kind, listed: frozenset[str] | set[str]) -> None:
        prefix = f"{shown_stack.make_word(kind)}/"
        for path in [path for path in self._rows if path.startswith(prefix) and path not in listed]:
            self._remove(path)

    def _clear(self) -> None:
        """Forget all rows: a browser that comes back gets everything again."""
        for path in list(self._rows):
            self._remove(path)
        self._removals.clear()
        self._complete_since = self._version

    async def close(self) -> None:
        """End the watches."""
        await cancel(self._task)


async def cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, and return when it has ended."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def make_path(kind: Kind, raw: Object) -> str:
    """Return the address of the page of an object."""
    namespace, name = (object_fields.text(raw, "metadata", key) for key in ("namespace", "name"))
    return shown_stack.make_path(kind, namespace, name)


WORD_OF_STACKS: Final = shown_stack.make_word(STACK)
WORD_OF_GROUPS: Final = shown_stack.make_word(RESOURCE_GROUP)


def find_place(path: str) -> tuple[str, bool, str, str]:
    """Return the key by which rows are sorted, like `stack_list.sort`."""
    word, namespace, name = path.split("/", 2)
    return namespace, word == WORD_OF_GROUPS, "" if word == WORD_OF_STACKS else word, name
