"""The causes of refusals are watched while an attempt waits, at minimal cost, and without causing bursts of retries."""

from __future__ import annotations

import structlog

from hearth.kube.watch import retry_trigger_watches
from hearth.kube.watch.reflector import METADATA, WatchContext
from hearth.kube.watch.retry_trigger_watches import TriggerWatches
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import retry_triggers
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    ScriptedConnection,
    ServedKinds,
    Stream,
    added,
    elapse,
    list_end,
    modified,
)
from support.virtual_time import in_virtual_time

KINDS = {
    Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True),
    Kind(group="", version="v1", name="Namespace", plural="namespaces", namespaced=False),
}
NAMESPACE = RetryTrigger(type=TriggerType.NAMESPACE, name="shop")
FORBIDDEN = errors.ApiStatusError(code=403, status={"kind": "Status", "message": "no"})


def taken(name: str) -> RetryTrigger:
    """The trigger of an apply that failed because of that ConfigMap."""
    ref = ObjectRef(group="", kind="ConfigMap", namespace="shop", name=name)
    return retry_triggers.object_trigger(scripted_watch.CONFIG_MAP, ref)


class Bench:
    """Watches on a scripted connection, in virtual time."""

    def __init__(self, *streams: Stream | Exception) -> None:
        self.heard: list[RetryTrigger] = []
        self.connection = ScriptedConnection(streams=list(streams))
        self.server = WatchContext(connection=self.connection, options=scripted_watch.RULES)
        self.kinds = ServedKinds()
        self.kinds.serve(*KINDS)
        self.watches = TriggerWatches(self.server, self.kinds, self.on_retry_trigger)

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        self.heard.append(trigger)

    async def hear(self, seconds: float = 5.0) -> list[RetryTrigger]:
        """The reports within that many seconds."""
        await elapse(seconds)
        heard, self.heard = self.heard, []
        return heard


@in_virtual_time
async def test_a_watch_asks_for_metadata_of_that_one_object() -> None:
    bench = Bench(Stream(added("a", 3), list_end(5)))
    bench.watches.watch(taken("a"))
    bench.watches.watch(taken("a"))
    assert await bench.hear() == [taken("a")]
    (asked,) = bench.connection.asked
    assert (asked.path, asked.accept) == ("/api/v1/namespaces/shop/configmaps", METADATA)
    assert asked.query["fieldSelector"] == "metadata.name=a"
    assert "labelSelector" not in asked.query


@in_virtual_time
async def test_a_hundred_changes_in_a_second_are_reported_twice() -> None:
    stream = Stream(list_end(5))
    bench = Bench(stream)
    bench.watches.watch(taken("a"))
    await bench.hear()
    stream.say(*(modified("a", version) for version in range(6, 106)))
    assert await bench.hear(0.5) == [taken("a")]
    assert await bench.hear() == [taken("a")]


@in_virtual_time
async def test_what_is_not_awaited_is_not_watched() -> None:
    stream = Stream(list_end(5))
    bench = Bench(stream)
    limits = RetryTrigger(type=TriggerType.LIMITS, namespace="shop")
    bench.watches.watch(NAMESPACE)
    bench.watches.watch(limits)
    await bench.hear()
    assert len(bench.connection.asked) == 1
    bench.watches.retain({limits})
    stream.say(modified("shop", 6))
    assert await bench.hear() == [limits]
    bench.watches.retain(())
    await bench.hear()
    assert not stream.is_open


@in_virtual_time
async def test_without_the_right_to_watch_it_says_so_once_and_asks_no_more() -> None:
    bench = Bench(FORBIDDEN, FORBIDDEN, FORBIDDEN)
    with structlog.testing.capture_logs() as said:
        for name in ("a", "b", "a"):
            bench.watches.watch(taken(name))
            await bench.hear()
            bench.watches.retain(())
    assert [each["kind"] for each in said if each["event"].startswith("cannot watch retry triggers")] == ["ConfigMap"]
    assert len(bench.connection.asked) == 2
    await elapse(retry_trigger_watches.ASK_AGAIN)
    bench.watches.watch(taken("a"))
    await bench.hear()
    assert len(bench.connection.asked) == 3


@in_virtual_time
async def test_a_right_that_came_is_noticed_while_an_attempt_waits_on() -> None:
    bench = Bench(FORBIDDEN, Stream(list_end(5)))
    bench.watches.watch(taken("a"))
    assert await bench.hear() == []
    await elapse(retry_trigger_watches.ASK_AGAIN)
    bench.watches.watch(taken("a"))
    assert await bench.hear() == [taken("a")]


@in_virtual_time
async def test_there_are_never_more_watches_than_a_connection_can_bear() -> None:
    bench = Bench()
    for number in range(limits.CAUSE_WATCHES + 50):
        bench.watches.watch(taken(f"n{number}"))
    await bench.hear()
    assert len(bench.connection.asked) == limits.CAUSE_WATCHES // 2
    await bench.watches.close()


@in_virtual_time
async def test_the_return_of_the_server_is_reported_to_those_who_wait_for_it() -> None:
    bench = Bench()
    bench.server.on_return()
    assert await bench.hear() == []
    bench.watches.watch(retry_triggers.SERVER)
    bench.server.on_return()
    assert await bench.hear() == [retry_triggers.SERVER]


def configuration(service: str, policy: str = "Fail") -> Object:
    """A webhook that this Service serves, and one at an external URL."""
    inside = {"clientConfig": {"service": {"name": service, "namespace": "guards"}}, "failurePolicy": policy}
    return {"webhooks": [inside, {"clientConfig": {"url": "https://elsewhere"}, "failurePolicy": "Fail"}]}


@in_virtual_time
async def test_webhooks_that_did_not_answer_are_reported_through_the_endpoints_of_their_services() -> None:
    slices = Kind(
        group="discovery.k8s.io", version="v1", name="EndpointSlice", plural="endpointslices", namespaced=True
    )
    group = "admissionregistration.k8s.io"
    name = "ValidatingWebhookConfiguration"
    validating = Kind(group=group, version="v1", name=name, plural="validatingwebhookconfigurations", namespaced=False)
    stream = Stream(list_end(5))
    bench = Bench(Stream(list_end(5)), stream)
    bench.kinds.serve(slices, validating)
    bench.connection.pages.append({"items": [configuration("b"), configuration("a"), configuration("c", "Ignore")]})
    bench.watches.watch(retry_triggers.WEBHOOKS)
    await bench.hear()
    (asked,) = [each for each in bench.connection.asked if each.path.endswith("endpointslices")]
    assert asked.query["labelSelector"] == "kubernetes.io/service-name in (a,b)"
    stream.say(modified("a-1", 6))
    assert await bench.hear() == [retry_triggers.WEBHOOKS]
    bench.watches.retain(())
    await bench.hear()
    assert not stream.is_open
