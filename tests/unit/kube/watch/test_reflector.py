"""A watch reaches the state of the server after any sequence of events."""

from __future__ import annotations

import pytest
import structlog

from hearth.kube.watch.reflector import METADATA, METADATA_LIST, Reflector, WatchContext
from hearth.model import errors, limits
from hearth.model.child import Object
from support import virtual_time
from support.ports.silent_ports import SilentObserver
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    ScriptedConnection,
    Stream,
    added,
    bookmark,
    deleted,
    list_end,
    modified,
)
from support.virtual_time import in_virtual_time


class Recorder:
    """A handler that records its events."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_list_started(self) -> None:
        """A full list begins."""
        self.heard.append("listing")

    def on_object(self, raw: Object) -> None:
        """Handle an object; an object called `poison` raises an error."""
        if raw["metadata"]["name"] == "poison":
            raise ValueError("cannot take this")
        self.heard.append(f"{raw['metadata']['name']}@{raw['metadata']['resourceVersion']}")

    def on_deleted(self, raw: Object) -> None:
        self.heard.append(f"-{raw['metadata']['name']}")

    def on_synced(self, version: int | None) -> None:
        """The full list is complete."""
        self.heard.append(f"synced@{version}")


class Counter(SilentObserver):
    """Records skipped objects, too."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped: list[tuple[str, str]] = []

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        self.skipped.append((kind, reason))


class Bench:
    """A watch on a scripted connection, in virtual time."""

    def __init__(self, *streams: Stream | Exception, pages: list[Object | Exception] | None = None) -> None:
        self.connection = ScriptedConnection(streams=list(streams), pages=pages or [])
        self.counter = Counter()
        self.server = WatchContext(connection=self.connection, options=scripted_watch.RULES, observer=self.counter)
        self.recorder = Recorder()
        self.watch = Reflector(self.server, "/api/v1/configmaps", self.recorder, name="ConfigMap")

    async def run(self, seconds: float = 5.0) -> list[str]:
        """Run it for that long and return the received events."""
        if not self.watch.is_running:
            self.watch.start()
        await scripted_watch.elapse(seconds)
        return self.recorder.heard

    @property
    def freshness(self) -> list[bool]:
        """For each request, whether it was a full list."""
        return [question.is_fresh for question in self.connection.asked]


@in_virtual_time
async def test_a_full_set_comes_as_events_and_changes_follow_on_the_same_stream() -> None:
    bench = Bench(Stream(added("a", 3), bookmark(3), added("b", 2), list_end(5), modified("a", 6), deleted("b", 7)))
    assert await bench.run() == ["listing", "a@3", "b@2", "synced@5", "a@6", "-b"]
    assert len(bench.connection.asked) == 1
    assert bench.watch.is_synced
    assert bench.watch.version == 7


@in_virtual_time
async def test_an_event_that_the_handler_knows_only_moves_the_watch_on() -> None:
    lines = [
        b'{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"%s","uid":"%s","resourceVersion":"%d"}}}\n'
        % (uid, uid, version)
        for uid, version in ((b"known", 6), (b"news", 7), (b"known", 8), (b"known", 6))
    ]
    bench = Bench(Stream(added("known", 3), list_end(5), *lines), Stream())
    bench.watch.is_known = lambda event: event[1] == "known"
    heard = await bench.run()
    assert heard[:4] == ["listing", "known@3", "synced@5", "news@7"]
    assert bench.watch.restarts == {"backwards": 1}


@in_virtual_time
async def test_a_server_without_watch_list_is_listed_in_pages_from_then_on() -> None:
    refusal = errors.ApiStatusError(code=422, status=None)
    first = scripted_watch.page(9, scripted_watch.make_object("a", 3), token="more")
    pages: list[Object | Exception] = [first, scripted_watch.page(9, scripted_watch.make_object("b", 4))]
    bench = Bench(refusal, Stream(modified("a", 10)), pages=pages)
    assert await bench.run() == ["listing", "listing", "a@3", "b@4", "synced@9", "a@10"]
    assert not bench.server.has_watch_list
    assert bench.connection.asked[-1].query["resourceVersion"] == "9"


@in_virtual_time
async def test_a_page_that_expired_begins_the_list_again() -> None:
    first = scripted_watch.page(9, scripted_watch.make_object("a", 3), token="more")
    expired = errors.ApiStatusError(code=410, status=None)
    bench = Bench(pages=[first, expired, scripted_watch.page(12, scripted_watch.make_object("b", 11))])
    bench.server.has_watch_list = False
    assert await bench.run() == ["listing", "a@3", "listing", "b@11", "synced@12"]


@in_virtual_time
async def test_metadata_alone_is_asked_for_with_plain_json_to_fall_back_on() -> None:
    bench = Bench(pages=[scripted_watch.page(9)])
    bench.server.has_watch_list = False
    bench.watch.metadata_only = True
    await bench.run()
    assert [question.accept for question in bench.connection.asked] == [METADATA_LIST, METADATA]


@in_virtual_time
async def test_a_stream_that_ends_continues_where_it_was() -> None:
    bench = Bench(Stream(list_end(5), bookmark(8)).end(), Stream(added("a", 9)))
    assert await bench.run() == ["listing", "synced@5", "a@9"]
    assert bench.connection.asked[1].query["resourceVersion"] == "8"
    assert dict(bench.watch.restarts) == {"ended": 1}


INTERRUPTED = [
    pytest.param(errors.Unreachable("reset"), False, "unreachable", id="connection reset: nothing is lost, go on"),
    pytest.param(scripted_watch.error(500), False, "error", id="etcd leader changed: go on"),
    pytest.param(b"<html>bad gateway</html>\n", False, "broken", id="a proxy's page: go on"),
    pytest.param(b'{"type":3,"object":{}}\n', False, "broken", id="a type that is no text"),
    pytest.param(
        b'{"type":"NEWS","object":{"metadata":{"resourceVersion":"9"}}}\n', False, "broken", id="unknown type"
    ),
    pytest.param(scripted_watch.error(410), True, "expired", id="version compacted: list"),
    pytest.param(added("a", 3), True, "backwards", id="version went backwards: list"),
]


@pytest.mark.parametrize(("piece", "is_fresh", "reason"), INTERRUPTED)
@in_virtual_time
async def test_an_interruption_within_a_stream_is_survived(
    piece: scripted_watch.Piece, is_fresh: bool, reason: str
) -> None:
    bench = Bench(Stream(list_end(5), piece), Stream(list_end(12), added("z", 13)))
    assert (await bench.run())[-1] == "z@13"
    assert bench.freshness == [True, is_fresh]
    assert dict(bench.watch.restarts) == {reason: 1}


STORES = [
    pytest.param(scripted_watch.page(4), True, id="a store with a lower version: list"),
    pytest.param(scripted_watch.page(5), False, id="the same one: go on"),
    pytest.param({"metadata": {}}, False, id="one without versions"),
    pytest.param({"metadata": 3}, False, id="an answer that is no list"),
    pytest.param(errors.ApiStatusError(code=403, status=None), False, id="a denied list"),
]


@pytest.mark.parametrize(("store", "is_fresh"), STORES)
@pytest.mark.parametrize("away", [errors.Unreachable("refused"), errors.ApiStatusError(code=503, status=None)])
@in_virtual_time
async def test_after_an_outage_the_store_may_be_another_one(
    away: Exception, store: Object | Exception, is_fresh: bool
) -> None:
    bench = Bench(Stream(list_end(5), away), Stream(list_end(8), added("z", 9)))
    bench.connection.store = store
    assert (await bench.run())[-1] == "z@9"
    assert bench.freshness == [True, is_fresh]
    assert bench.connection.checks == 1


@in_virtual_time
async def test_a_store_that_cannot_answer_yet_is_asked_again() -> None:
    bench = Bench(Stream(list_end(5), errors.Unreachable("refused")), Stream(list_end(3)))
    bench.connection.store = errors.ApiStatusError(code=429, status=None)
    await bench.run()
    assert (bench.freshness, bench.connection.checks > 1) == ([True], True)
    bench.connection.store = scripted_watch.page(3)
    assert (await bench.run(60))[-1] == "synced@None"


def deep(line: bytes, *, levels: int = 1_100) -> bytes:
    """The same event, its object with a `spec` of that many levels."""
    return line.replace(b'"object":{', b'"object":{"spec":{"a":' + b"[" * levels + b"]" * levels + b"},", 1)


PIECE = 64 * 1024
"""Bytes that a connection delivers at once."""
UNREADABLE = [
    pytest.param(deep(added("bad", 6)), ["bad@6"], "depth", id="deeper than JSON is read"),
    pytest.param(
        added("bad", 6).replace(b'"object":{', b'"object":{"data":{"a":1e999},', 1), ["bad@6"], "malformed", id="digits"
    ),
    pytest.param(
        added("bad", 6).replace(b'"object":{', b'"object":{"spec":"%b",' % (b"x" * (limits.LINE_BYTES + 1)), 1),
        [],
        "nameless",
        id="longer than a line may be, its name behind what is cut off",
    ),
    pytest.param(
        added("bad", 6).replace(b"}}\n", b',"spec":{"a":"%b"}}}\n' % (b"x" * (limits.LINE_BYTES + 1)), 1),
        ["bad@6"],
        "size",
        id="longer than a line may be",
    ),
    pytest.param(b'{"type":"ADDED","object":{}}\n', [], "nameless", id="without metadata"),
    pytest.param(b'{"type":"ADDED","object":[]}\n', [], "nameless", id="no object"),
    pytest.param(b'{"type":"ADDED","object":{"metadata":3}}\n', [], "nameless", id="metadata that are a number"),
    pytest.param(added("poison", 6), [], "internal_error", id="that the handler cannot take"),
]


@pytest.mark.parametrize(("line", "heard", "reason"), UNREADABLE)
@in_virtual_time
async def test_an_object_that_cannot_be_read_is_one_object(line: bytes, heard: list[str], reason: str) -> None:
    pieces = [line[at : at + PIECE] for at in range(0, len(line), PIECE)]
    bench = Bench(Stream(added("a", 2), list_end(5), *pieces, *pieces, added("z", 9)))
    with structlog.testing.capture_logs() as said:
        await bench.run()
    assert bench.recorder.heard == ["listing", "a@2", "synced@5", *heard, *heard, "z@9"]
    assert (bench.freshness, dict(bench.watch.restarts), bench.watch.version) == ([True], {}, 9)
    assert bench.counter.skipped == [("ConfigMap", reason)]
    named = [each for each in said if each["event"] == "object cannot be read"]
    assert [each["name"] for each in named] == ["bad" if heard else "poison" if b"poison" in line else None]


@in_virtual_time
async def test_an_unreadable_object_of_the_first_set_holds_nothing_up() -> None:
    bench = Bench(Stream(added("a", 2), deep(added("bad", 3)), added("b", 4), list_end(5)))
    assert await bench.run() == ["listing", "a@2", "bad@3", "b@4", "synced@5"]
    assert bench.freshness == [True]


@in_virtual_time
async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    large = errors.AnswerTooLarge("the answer has more bytes than may be read")
    last = scripted_watch.page(9, scripted_watch.make_object("b", 4))
    bench = Bench(pages=[large, large, scripted_watch.page(9, scripted_watch.make_object("a", 3), token="more"), last])
    bench.server.has_watch_list = False
    assert await bench.run() == ["listing", "a@3", "b@4", "synced@9"]
    assert [question.query.get("limit") for question in bench.connection.asked[:4]] == ["500", "62", "7", "7"]


@in_virtual_time
async def test_half_a_line_at_the_end_is_no_event() -> None:
    line = added("a", 6)
    bench = Bench(Stream(list_end(5), line[:20]).end(), Stream(line))
    assert await bench.run() == ["listing", "synced@5", "a@6"]
    assert dict(bench.watch.restarts) == {"broken": 1}


@in_virtual_time
async def test_a_line_may_come_in_any_pieces() -> None:
    line = added("a", 6) + added("b", 7)
    bench = Bench(Stream(list_end(5), *(line[index : index + 1] for index in range(len(line)))))
    assert await bench.run() == ["listing", "synced@5", "a@6", "b@7"]


REFUSED = [
    pytest.param(401, False, id="401: the connection reads its credentials again"),
    pytest.param(403, False, id="403"),
    pytest.param(429, False, id="429"),
    pytest.param(500, False, id="500"),
    pytest.param(503, False, id="503"),
    pytest.param(404, True, id="404: all that comes back is something new"),
    pytest.param(410, True, id="410"),
]


@pytest.mark.parametrize(("code", "is_fresh"), REFUSED)
@in_virtual_time
async def test_a_refusal_is_survived(code: int, is_fresh: bool) -> None:
    refusal = errors.ApiStatusError(code=code, status=None)
    streams: list[Stream | Exception] = [Stream(list_end(5)).end(), refusal, Stream(list_end(8), added("z", 9))]
    bench = Bench(*streams)
    assert (await bench.run())[-1] == "z@9"
    assert bench.freshness == [True, False, is_fresh]


@in_virtual_time
async def test_after_a_silence_it_continues_where_it_was() -> None:
    bench = Bench(Stream(list_end(5)), Stream(added("a", 6)), Stream(added("b", 7)))
    with structlog.testing.capture_logs() as said:
        assert await bench.run(200.0) == ["listing", "synced@5", "a@6", "b@7"]
    assert [each["log_level"] for each in said if each["reason"] == "stalled"] == ["debug", "debug"]
    assert bench.watch.restarts["stalled"] == 2
    assert bench.freshness == [True, False, False]


@in_virtual_time
async def test_a_server_that_stays_silent_is_asked_for_a_fresh_list() -> None:
    bench = Bench(Stream(list_end(5)), Stream(), Stream(list_end(4)))
    assert (await bench.run(160.0))[:4] == ["listing", "synced@5", "listing", "synced@None"]
    assert bench.freshness == [True, False, True]


@in_virtual_time
async def test_bookmarks_keep_a_quiet_stream() -> None:
    stream = Stream(list_end(5))
    bench = Bench(stream)
    loop = virtual_time.get_loop()
    for minute in range(1, 6):
        loop.call_later(60.0 * minute, stream.say, bookmark(5 + minute))
    await bench.run(330.0)
    assert bench.watch.restarts["ended"] == 0
    assert loop.time() >= 300.0
    assert len(bench.connection.asked) == 1


@in_virtual_time
async def test_a_silent_first_list_is_tried_in_pages() -> None:
    bench = Bench(Stream(added("a", 3)).end(), pages=[scripted_watch.page(9, scripted_watch.make_object("a", 3))])
    assert await bench.run() == ["listing", "a@3", "listing", "a@3", "synced@9"]
    assert bench.server.has_watch_list


@in_virtual_time
async def test_a_version_that_cannot_be_answered_is_given_up() -> None:
    broken = [Stream(scripted_watch.error(500)) for _ in range(3)]
    bench = Bench(Stream(list_end(5)).end(), *broken, Stream(list_end(7)))
    assert (await bench.run())[-1] == "synced@7"
    assert bench.freshness[-1]


@in_virtual_time
async def test_a_restored_store_voids_all_versions() -> None:
    bench = Bench(Stream(list_end(50), added("a", 501), added("b", 90)), Stream(added("b", 90), list_end(100)))
    assert (await bench.run())[-2:] == ["b@90", "synced@None"]
    assert bench.watch.version == 100


@in_virtual_time
async def test_a_kind_that_is_not_served_twice_in_a_row_has_no_objects() -> None:
    gone = errors.ApiStatusError(code=404, status=None)
    bench = Bench(Stream(added("a", 3), list_end(5)).end(), gone, Stream(added("a", 3), list_end(6)).end(), gone, gone)
    heard = await bench.run()
    assert heard.count("synced@None") == 1
    assert heard.index("synced@None") > heard.index("synced@6")


@in_virtual_time
async def test_pauses_grow_to_a_limit_and_no_further() -> None:
    unavailable = [errors.ApiStatusError(code=503, status=None) for _ in range(20)]
    bench = Bench(*unavailable)
    loop = virtual_time.get_loop()
    bench.watch.start()
    while bench.connection.streams:
        await scripted_watch.elapse(1.0)
    assert 10.0 * 30 <= loop.time() <= 12.0 * 30


@in_virtual_time
async def test_after_a_stream_that_lasted_pauses_are_short_again() -> None:
    lasting = Stream(list_end(5))
    bench = Bench(*[errors.ApiStatusError(code=503, status=None) for _ in range(8)], lasting, Stream(added("a", 6)))
    while bench.connection.streams[1:]:
        await bench.run(1.0)
    await bench.run(15.0)
    lasting.end()
    assert (await bench.run(0.2))[-1] == "a@6"


@in_virtual_time
async def test_a_server_that_names_a_pause_gets_it() -> None:
    bench = Bench(errors.ApiStatusError(code=429, status=None, retry_after=7.0), Stream(list_end(5)))
    assert await bench.run(5.0) == ["listing"]
    assert (await bench.run(3.0))[-1] == "synced@5"


@in_virtual_time
async def test_a_nudge_ends_a_pause_at_once() -> None:
    bench = Bench(*[errors.ApiStatusError(code=403, status=None) for _ in range(12)], Stream(list_end(5)))
    bench.watch.start()
    loop = virtual_time.get_loop()
    while len(bench.connection.streams) > 1:
        await scripted_watch.elapse(1.0)
    before = loop.time()
    bench.watch.retry_now()
    await bench.watch.wait_synced()
    assert loop.time() == before


@in_virtual_time
async def test_an_object_that_cannot_be_taken_does_not_keep_the_others_out() -> None:
    bench = Bench(Stream(added("poison", 3), added("b", 4), list_end(5), modified("b", 6)))
    assert await bench.run() == ["listing", "b@4", "synced@5", "b@6"]


@in_virtual_time
async def test_even_an_unknown_error_is_survived() -> None:
    bench = Bench(RuntimeError("an unexpected error"), Stream(list_end(5)))
    assert (await bench.run())[-1] == "synced@5"
    assert dict(bench.watch.restarts) == {"unexpected": 1}


@in_virtual_time
async def test_a_restart_asks_for_everything_elsewhere_and_leaves_the_old_stream() -> None:
    old = Stream(list_end(5))
    bench = Bench(old, Stream(list_end(6)))
    await bench.run()
    bench.watch.restart(path="/api/v2/configmaps", metadata_only=True)
    old.say(added("late", 9))
    assert (await bench.run())[-1] == "synced@6"
    assert not old.is_open
    assert bench.connection.asked[-1].path == "/api/v2/configmaps"


@in_virtual_time
async def test_after_closing_nothing_more_is_heard() -> None:
    stream = Stream(list_end(5))
    bench = Bench(stream)
    await bench.run()
    await bench.watch.close()
    stream.say(added("late", 9))
    await scripted_watch.elapse(1.0)
    assert bench.recorder.heard[-1] == "synced@5"
    assert not stream.is_open


@in_virtual_time
async def test_collection_that_may_not_be_watched_is_answered_and_reported_once() -> None:
    status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "leases is forbidden"}
    refused = errors.ApiStatusError(code=403, status=status)
    bench = Bench(refused, refused, Stream(list_end(5)))
    reported: list[str] = []
    bench.watch.on_denied = lambda: reported.append(bench.watch.denial)
    bench.watch.start()
    await scripted_watch.elapse(0.01)
    assert (bench.watch.denial, bench.watch.is_answered, bench.watch.is_synced) == ("leases is forbidden", True, False)
    await bench.run()
    assert (bench.watch.denial, bench.watch.is_answered, bench.watch.is_synced) == ("", True, True)
    assert reported == ["leases is forbidden"]


@in_virtual_time
async def test_server_that_is_away_has_answered_nothing() -> None:
    bench = Bench(errors.Unreachable("refused"), errors.ApiStatusError(code=429, status=None))
    await bench.run(0.5)
    assert (bench.watch.denial, bench.watch.is_answered) == ("", False)


@pytest.mark.parametrize(
    ("answer", "is_failing"),
    [
        pytest.param(errors.Unreachable("refused"), True, id="unreachable"),
        pytest.param(errors.ApiStatusError(code=500, status=None), True, id="500"),
        pytest.param(errors.ApiStatusError(code=429, status=None, retry_after=5.0), False, id="asks-for-patience"),
        pytest.param(errors.ApiStatusError(code=403, status=None), False, id="denial"),
        pytest.param(errors.ApiStatusError(code=422, status=None), False, id="no-watch-list"),
    ],
)
@in_virtual_time
async def test_a_watch_is_failing_until_the_full_set_comes(answer: Exception, is_failing: bool) -> None:
    bench = Bench(answer, Stream(list_end(5)), pages=[scripted_watch.page(5)])
    await bench.run(0.01)
    assert bench.watch.is_failing is is_failing
    await bench.run(60)
    assert bench.watch.is_synced
    assert not bench.watch.is_failing
