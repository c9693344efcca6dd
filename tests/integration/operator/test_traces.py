"""Traces of the operator on a real API server: the requests of a Stack are parts of its reconciles."""

from __future__ import annotations

import asyncio

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hearth.kube.auth.credentials import CredentialSource
from hearth.model import names
from hearth.runtime import KubeRuntime
from hearth.serve import tracing
from hearth.serve.tracing import TracedMetrics
from support.real import real_world
from support.real.real_user import RealUser
from support.stories import stack_manifests

API = f"{names.GROUP}/{names.VERSION}"
FIRST = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
SECOND = {"manifest": {"apiVersion": "v1", "kind": "Secret"}, "dependsOn": ["first"]}
TIMEOUT = 60.0
"""Seconds, on a machine that is busy with other tests."""
OF_THE_STACK = {
    "create ControllerRevision.apps",
    "apply ConfigMap",
    "apply Secret",
    "patch Stack.hearth.dev",
    "create Event",
}
"""Requests that each have a reconcile of the Stack as parent span."""


async def test_the_requests_of_a_stack_are_parts_of_its_reconciles(
    user: RealUser, source: CredentialSource, namespace: str
) -> None:
    """Each request belongs to the reconcile that planned it.

    The second object is planned later, so it is in another trace.

    The operator's own requests, for example for the Secret with its key, have no parent span.
    """
    exporter = InMemorySpanExporter()
    observer = TracedMetrics(tracing.make_provider(SimpleSpanProcessor(exporter)))
    operator = real_world.InProcess(KubeRuntime(real_world.make_settings(namespace), source, observer))
    await operator.start()
    shop = stack_manifests.address_in(namespace)
    spec = {"template": {"resources": {"first": FIRST, "second": SECOND}}}
    await user.create(stack_manifests.make_stack(spec, namespace=namespace))
    async with asyncio.timeout(TIMEOUT):
        while (await user.find(shop) or {}).get("status", {}).get("phase") != "CreateComplete":  # noqa: ASYNC110 -- a server has no event
            await asyncio.sleep(0.1)
    await operator.kill()

    spans = exporter.get_finished_spans()
    reconciles = {context.span_id for span in spans if (context := span.get_span_context()) and is_of_stack(span)}
    parents = {name: [span.parent for span in spans if span.name == name] for name in OF_THE_STACK}
    for name, found in parents.items():
        assert found != [], name
        assert {parent and parent.span_id for parent in found} <= reconciles, name
    (first,), (second,) = parents["apply ConfigMap"], parents["apply Secret"]
    assert first is not None
    assert second is not None
    assert first.trace_id != second.trace_id
    assert [span.name for span in spans if span.name == "get Secret" and span.parent is not None] == []


def is_of_stack(span: ReadableSpan) -> bool:
    """Whether it is a reconcile of the Stack."""
    return span.name == "reconcile" and (span.attributes or {}).get("hearth.stack") == "shop"
