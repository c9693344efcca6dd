"""OpenTelemetry traces: a span for each reconcile, with a child span for each request that it causes.

Traces are off unless the environment specifies a collector; OpenTelemetry is imported only if they are on. A separate
thread sends the spans. A span has the labels of the metrics and the Stack of the reconcile, but never the name of a
child, which may contain a sensitive value.
"""

from __future__ import annotations

import contextvars
import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

import hearth
from hearth.serve.metrics import Metrics

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span

    from hearth.engine.cluster_objects import StackObject

log = structlog.get_logger(__name__)

VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Environment variables of OpenTelemetry. The exporter and the sampler read these and further ones themselves."""
DISABLED: Final = "OTEL_SDK_DISABLED"
SERVICE: Final = "hearth"
FLUSH_MILLISECONDS: Final = 1000
"""Maximum time to export the last spans when the process stops, even if the collector does not answer."""
SUCCESS: Final = 300
NANOSECONDS: Final = 1_000_000_000


@dataclass(slots=True, eq=False)
class Trace:
    """A reconcile, as the parent of requests. They end later than it, because it awaits nothing."""

    parent: Context | None = None
    """The span of the reconcile; None until the reconcile has ended."""


CURRENT: Final = contextvars.ContextVar[Trace | None]("CURRENT", default=None)
"""The reconcile that the requests of the task belong to. A task inherits it from the task that started it."""


class TracedMetrics(Metrics):
    """The metrics, with a span for each reconcile and each request."""

    def __init__(self, provider: TracerProvider, *, now: Callable[[], int] = time.time_ns) -> None:
        """now: nanoseconds since the epoch."""
        super().__init__()
        self._provider = provider
        self._tracer = provider.get_tracer(SERVICE, hearth.__version__)
        self._now = now

    def begin_reconcile(self) -> Trace:
        """See `hearth.engine.ports.Observer`."""
        trace = Trace()
        CURRENT.set(trace)
        return trace

    def resume_reconcile(self, trace: object) -> None:
        """See `hearth.engine.ports.Observer`."""
        CURRENT.set(trace if isinstance(trace, Trace) else None)

    def on_reconcile(self, *, result: str, seconds: float, stack: StackObject | None = None) -> None:
        """See `hearth.engine.ports.Observer`."""
        super().on_reconcile(result=result, seconds=seconds, stack=stack)
        attributes = {"hearth.result": result}
        if stack is not None:
            attributes |= {"k8s.namespace.name": stack.namespace, "hearth.kind": stack.kind, "hearth.stack": stack.name}
        trace = CURRENT.get()
        CURRENT.set(None)
        span = self._record("reconcile", seconds, attributes, is_error=result != "success")
        if trace is not None:
            trace.parent = make_context(span)

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """See `hearth.engine.ports.Observer`."""
        super().on_request(verb=verb, kind=kind, code=code, seconds=seconds)
        attributes: dict[str, str | int] = {"hearth.verb": verb, "hearth.kind": kind, "http.response.status_code": code}
        trace = CURRENT.get()
        parent = trace.parent if trace is not None else None
        self._record(f"{verb} {kind}", seconds, attributes, is_error=not 0 < code < SUCCESS, parent=parent)

    def _record(
        self,
        name: str,
        seconds: float,
        attributes: Mapping[str, str | int],
        *,
        is_error: bool,
        parent: Context | None = None,
    ) -> Span:
        from opentelemetry.trace import Status, StatusCode

        end = self._now()
        start = end - int(seconds * NANOSECONDS)
        span = self._tracer.start_span(name, context=parent, start_time=start, attributes=attributes)
        if is_error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)
        return span

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.force_flush(FLUSH_MILLISECONDS)


def make_context(span: Span) -> Context:
    """Return the context of a span, which makes it the parent of other spans, without the span's content."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    return set_span_in_context(NonRecordingSpan(span.get_span_context()), Context())


def make_observer(environ: Mapping[str, str]) -> Metrics:
    """Return the metrics, with traces if the environment names a collector."""
    is_disabled = environ.get(DISABLED, "").lower() == "true"
    if is_disabled or not any(environ.get(variable) for variable in VARIABLES):
        return Metrics()
    if importlib.util.find_spec("opentelemetry") is None:
        log.warning("traces are off: OpenTelemetry is not installed", install="pip install 'hearth[traces]'")
        return Metrics()
    return TracedMetrics(make_provider())


def make_provider(processor: SpanProcessor | None = None) -> TracerProvider:
    """Return the source of tracers. processor: receives the spans; None to send them in batches."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": SERVICE, "service.version": hearth.__version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
    return provider
