"""Traces: off and free by default; otherwise one span per reconcile and request, sent to the collector."""

from __future__ import annotations

import asyncio
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hearth.serve import tracing
from hearth.serve.metrics import Metrics
from hearth.serve.tracing import TracedMetrics
from support.units import stack_objects

NOW = 1_700_000_000_000_000_000


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traced(exporter: InMemorySpanExporter) -> TracedMetrics:
    return TracedMetrics(tracing.make_provider(SimpleSpanProcessor(exporter)), now=lambda: NOW)


def read_span(exporter: InMemorySpanExporter) -> ReadableSpan:
    """The only span."""
    (span,) = exporter.get_finished_spans()
    return span


def test_a_reconcile_is_a_span_of_its_stack(traced: TracedMetrics, exporter: InMemorySpanExporter) -> None:
    stack = stack_objects.make_stack()
    traced.on_reconcile(result="success", seconds=0.25, stack=stack)

    span = read_span(exporter)
    assert (span.name, span.start_time, span.end_time) == ("reconcile", NOW - 250_000_000, NOW)
    assert dict(span.attributes or {}) == {
        "hearth.result": "success",
        "hearth.kind": "Stack",
        "hearth.stack": stack.name,
        "k8s.namespace.name": stack.namespace,
    }
    assert traced.registry.get_sample_value("hearth_reconcile_total", {"result": "success"}) == 1


@pytest.mark.parametrize(("code", "is_error"), [(200, False), (409, True), (0, True)])
def test_a_request_is_a_span_without_a_name(
    traced: TracedMetrics, exporter: InMemorySpanExporter, code: int, is_error: bool
) -> None:
    traced.on_request(verb="apply", kind="Deployment.apps", code=code, seconds=0.01)

    span = read_span(exporter)
    assert span.name == "apply Deployment.apps"
    assert dict(span.attributes or {}) == {
        "hearth.verb": "apply",
        "hearth.kind": "Deployment.apps",
        "http.response.status_code": code,
    }
    assert (not span.status.is_ok and not span.status.is_unset) == is_error


@pytest.mark.parametrize(
    "environ",
    [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "True"}],
)
def test_traces_are_off_by_default(environ: dict[str, str]) -> None:
    assert type(tracing.make_observer(environ)) is Metrics


def test_nothing_is_imported_while_traces_are_off() -> None:
    program = "import sys; from hearth import app; from hearth.serve import tracing; tracing.make_observer({}); "
    program += "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_operator_works_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    assert type(tracing.make_observer({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"})) is Metrics


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a collector, and the data it received."""
    received: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


def test_spans_arrive_at_the_collector(collector: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    url, received = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    observer = tracing.make_observer({"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    observer.on_request(verb="apply", kind="Pod", code=200, seconds=0.01)
    observer.close()

    (body,) = received
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "hearth"
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["apply Pod"]


def find_by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """The spans by their names."""
    return {span.name: span for span in exporter.get_finished_spans()}


def find_parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


async def test_a_request_is_a_child_of_the_reconcile_that_causes_it(
    traced: TracedMetrics, exporter: InMemorySpanExporter
) -> None:
    async def send(kind: str) -> None:
        traced.on_request(verb="apply", kind=kind, code=200, seconds=0.01)

    async def resume() -> None:
        traced.resume_reconcile(trace)
        await send("Resumed")
        traced.resume_reconcile(None)
        await send("Other")

    trace = traced.begin_reconcile()
    started = asyncio.create_task(send("Started"))
    traced.on_reconcile(result="success", seconds=0.25)
    await asyncio.gather(started, asyncio.create_task(resume()), asyncio.create_task(send("Later")))

    spans = find_by_name(exporter)
    reconcile, resumed = (spans[name].get_span_context() for name in ("reconcile", "apply Resumed"))
    assert reconcile is not None
    assert resumed is not None
    parents = {name: find_parent(span) for name, span in spans.items()}
    assert parents == {
        "reconcile": None,
        "apply Started": reconcile.span_id,
        "apply Resumed": reconcile.span_id,
        "apply Other": None,
        "apply Later": None,
    }
    assert resumed.trace_id == reconcile.trace_id


def test_a_reconcile_that_fails_ends_its_trace(traced: TracedMetrics, exporter: InMemorySpanExporter) -> None:
    traced.begin_reconcile()
    traced.on_reconcile(result="error", seconds=0.0)
    traced.on_request(verb="list", kind="Lease", code=200, seconds=0.01)

    assert [find_parent(span) for span in find_by_name(exporter).values()] == [None, None]
