"""The metrics: names and labels are an interface to dashboards and alerts."""

from __future__ import annotations

import pytest

from hearth.engine.ports import Observer
from hearth.serve.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def read(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample as the registry has it now."""
    value: float | None = metrics.registry.get_sample_value(name, labels)
    return value


def test_metrics_are_what_the_layers_below_tell(metrics: Metrics) -> None:
    """They know the protocol only."""
    observer: Observer = metrics

    observer.on_pass(result="idle", seconds=0.003)

    assert read(metrics, "hearth_passes_total", result="idle") == 1
    assert read(metrics, "hearth_pass_duration_seconds_bucket", le="0.0025") == 0
    assert read(metrics, "hearth_pass_duration_seconds_bucket", le="0.005") == 1


def test_requests_are_counted_by_verb_kind_and_code(metrics: Metrics) -> None:
    """Never by name: labels must not grow with the number of objects."""
    for code in (200, 200, 409):
        metrics.on_request(verb="apply", kind="Deployment.apps", code=code)

    assert read(metrics, "hearth_requests_total", verb="apply", kind="Deployment.apps", code="200") == 2
    assert read(metrics, "hearth_requests_total", verb="apply", kind="Deployment.apps", code="409") == 1


def test_restarts_are_counted(metrics: Metrics) -> None:
    """Of watches by kind and reason, of the frame as such."""
    metrics.on_watch_restart(kind="Pod", reason="expired")
    metrics.on_frame_restart()

    assert read(metrics, "hearth_watch_restarts_total", kind="Pod", reason="expired") == 1
    assert read(metrics, "hearth_frame_restarts_total") == 1


def test_lag_is_a_histogram_in_seconds(metrics: Metrics) -> None:
    """The base unit of Prometheus."""
    metrics.on_lag(0.2)

    assert read(metrics, "hearth_event_loop_lag_seconds_sum") == 0.2
    assert read(metrics, "hearth_event_loop_lag_seconds_bucket", le="0.5") == 1


def test_sizes_are_read_when_somebody_asks(metrics: Metrics) -> None:
    """They cost nothing meanwhile, and a kind that went is no longer shown."""
    cached = {"Pod": 3.0, "Service": 1.0}
    metrics.sample(cached_objects=lambda: cached, stacks=lambda: {"CreateComplete": 2.0})
    assert read(metrics, "hearth_cached_objects", kind="Pod") == 3

    cached.pop("Pod")

    assert read(metrics, "hearth_cached_objects", kind="Pod") is None
    assert read(metrics, "hearth_cached_objects", kind="Service") == 1
    assert read(metrics, "hearth_stacks", phase="CreateComplete") == 2


def test_the_process_itself_is_shown(metrics: Metrics) -> None:
    """Memory and files, under the names that every dashboard knows."""
    text = metrics.render().decode()

    assert "\nprocess_resident_memory_bytes " in text
    assert "\nprocess_open_fds " in text
    assert '\nhearth_build_info{version="' in text


def test_two_sets_of_metrics_share_nothing() -> None:
    """No global registry, so that several operators fit into one process."""
    first, second = Metrics(), Metrics()

    first.on_frame_restart()

    assert read(second, "hearth_frame_restarts_total") == 0
