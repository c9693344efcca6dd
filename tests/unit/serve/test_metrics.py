"""The metrics of one process and of two: names and labels are an interface to dashboards and alerts."""

from __future__ import annotations

import re

import pytest
from prometheus_client import Metric

from hearth.engine.ports import Observer
from hearth.serve import metrics as metrics_module
from hearth.serve.metrics import CLUSTER_MEASURES, Metrics
from support import repository


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def read(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample as the registry has it now."""
    value: float | None = metrics.registry.get_sample_value(name, labels)
    return value


def test_metrics_are_what_the_layers_below_tell(metrics: Metrics) -> None:
    observer: Observer = metrics

    observer.on_reconcile(result="success", seconds=0.003)

    assert read(metrics, "hearth_reconcile_total", result="success") == 1
    assert read(metrics, "hearth_reconcile_duration_seconds_bucket", le="0.0025") == 0
    assert read(metrics, "hearth_reconcile_duration_seconds_bucket", le="0.005") == 1


def test_requests_are_counted_by_verb_kind_and_code(metrics: Metrics) -> None:
    for code in (200, 200, 409):
        metrics.on_request(verb="apply", kind="Deployment.apps", code=code, seconds=0.02)

    assert read(metrics, "hearth_api_requests_total", verb="apply", kind="Deployment.apps", code="200") == 2
    assert read(metrics, "hearth_api_requests_total", verb="apply", kind="Deployment.apps", code="409") == 1


def test_requests_are_timed_by_verb_alone(metrics: Metrics) -> None:
    metrics.on_request(verb="apply", kind="Deployment.apps", code=200, seconds=0.02)
    metrics.on_request(verb="apply", kind="Service", code=0, seconds=0.2)

    assert read(metrics, "hearth_api_request_duration_seconds_bucket", verb="apply", le="0.025") == 1
    assert read(metrics, "hearth_api_request_duration_seconds_sum", verb="apply") == pytest.approx(0.22)


def test_a_reaction_is_a_histogram_in_seconds(metrics: Metrics) -> None:
    metrics.on_event_to_write(0.03)

    assert read(metrics, "hearth_event_to_write_seconds_bucket", le="0.025") == 0
    assert read(metrics, "hearth_event_to_write_seconds_bucket", le="0.05") == 1


def test_internal_errors_and_skipped_objects_are_counted() -> None:
    metrics = Metrics()
    metrics.on_internal_error("step")
    metrics.on_skipped_object(kind="ConfigMap", reason="too_deep")
    assert read(metrics, "hearth_internal_errors_total", where="step") == 1
    assert read(metrics, "hearth_skipped_objects_total", kind="ConfigMap", reason="too_deep") == 1


def test_restarts_are_counted(metrics: Metrics) -> None:
    metrics.on_watch_restart(kind="Pod", reason="expired")
    metrics.on_kopf_restart()

    assert read(metrics, "hearth_watch_restarts_total", kind="Pod", reason="expired") == 1
    assert read(metrics, "hearth_kopf_restarts_total") == 1


def test_limits_are_counted_by_name(metrics: Metrics) -> None:
    metrics.on_limit("source-watches")

    assert read(metrics, "hearth_limit_reached_total", limit="source-watches") == 1


def test_lag_is_a_histogram_in_seconds(metrics: Metrics) -> None:
    metrics.on_lag(0.2)

    assert read(metrics, "hearth_event_loop_lag_seconds_sum") == 0.2
    assert read(metrics, "hearth_event_loop_lag_seconds_bucket", le="0.5") == 1


def test_sizes_are_read_when_they_are_requested(metrics: Metrics) -> None:
    cached = {"Pod": 3.0, "Service": 1.0}
    metrics.sample(
        cached_objects=lambda: cached,
        cached_bytes=lambda: {"Pod": 2048.0},
        stacks=lambda: {"CreateComplete": 2.0},
        writes=lambda: {"queued": 7.0},
    )
    assert read(metrics, "hearth_cached_objects", kind="Pod") == 3
    assert read(metrics, "hearth_cached_bytes", kind="Pod") == 2048

    cached.pop("Pod")

    assert read(metrics, "hearth_cached_objects", kind="Pod") is None
    assert read(metrics, "hearth_cached_objects", kind="Service") == 1
    assert read(metrics, "hearth_stacks", phase="CreateComplete") == 2
    assert read(metrics, "hearth_writes", state="queued") == 7


def test_the_process_itself_is_shown(metrics: Metrics) -> None:
    text = metrics.render().decode()

    assert "\nprocess_resident_memory_bytes " in text
    assert "\nprocess_open_fds " in text
    assert '\nhearth_build_info{version="' in text


def test_the_table_for_users_tells_of_every_metric() -> None:
    metrics = Metrics()
    metrics.sample(
        cached_objects=lambda: {"Pod": 1.0},
        cached_bytes=lambda: {"Pod": 1024.0},
        stacks=lambda: {"Ready": 1.0},
        conditions=lambda: {"Drifted": 1.0},
        actions=lambda: {"UpdateInProgress": 90.0},
        definitions=lambda: {"Complete": 1.0},
        writes=lambda: {"queued": 1.0},
        clusters=lambda: {measure: {"east:6443": 1.0} for measure in CLUSTER_MEASURES},
    )
    metrics.on_reconcile(result="success", seconds=0.0)
    metrics.on_request(verb="apply", kind="Pod", code=200, seconds=0.0)
    metrics.on_watch_restart(kind="Pod", reason="ended")
    metrics.on_skipped_object(kind="Pod", reason="internal_error")
    metrics.on_internal_error("step")
    metrics.on_limit("source-watches")
    metrics.on_notification("sent")

    assert read_table() == {
        (TYPES.get(family.type, family.type), name, labels)
        for family in metrics.registry.collect()
        for name, labels in find_shown(family)
    }


TYPES = {"info": "gauge"}
"""The types of the text format."""
DOCUMENT = repository.DOCS / "metrics.md"


def find_shown(family: Metric) -> set[tuple[str, frozenset[str]]]:
    """The names of our exposed metrics, each with its labels."""
    samples = [each for each in family.samples if not each.name.endswith("_created")]
    shown = {(each.name, frozenset(each.labels) - {"le"}) for each in samples if each.name.startswith("hearth_")}
    if family.type != "histogram":
        return shown
    return {(family.name, labels) for _, labels in shown}


def read_table() -> set[tuple[str, str, frozenset[str]]]:
    """Type, name and labels of each row."""
    rows = [line.split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `hearth_")]
    return {
        (kind.strip(), name.strip(" `"), frozenset(re.findall(r"`(\w+)`", labels)))
        for _, name, kind, labels, *_ in rows
    }


def test_two_sets_of_metrics_share_nothing() -> None:
    first, second = Metrics(), Metrics()

    first.on_kopf_restart()

    assert read(second, "hearth_kopf_restarts_total") == 0


def test_who_works_is_shown(metrics: Metrics) -> None:
    assert read(metrics, "hearth_leader") == 0

    metrics.on_leading()

    assert read(metrics, "hearth_leader") == 1


LABELS = {"code", "condition", "kind", "le", "limit", "phase", "reason", "result", "state", "verb", "where"}
"""The labels of our metrics: none is a name that a tenant chooses."""


def test_no_metric_has_a_label_for_what_tenants_name() -> None:
    metrics = Metrics()
    metrics.sample(cached_objects=dict, cached_bytes=dict, stacks=dict, writes=dict)
    text = metrics.render().decode()
    declared = {label for _, names in find_label_names(metrics) for label in names}

    assert {label for label in declared if label not in LABELS} == set()
    assert "hearth_build_info" in text


def find_label_names(metrics: Metrics) -> list[tuple[str, tuple[str, ...]]]:
    """The labels of each of our metrics, by its name."""
    collectors = {id(each): each for each in vars(metrics).values() if hasattr(each, "_labelnames")}
    assert len(collectors) > 5
    return [(each._name, tuple(each._labelnames)) for each in collectors.values()]


# A scrape of one process includes both.


def test_samples_of_both_are_added_up() -> None:
    own, other = Metrics(), Metrics()
    own.on_limit("clusters")
    other.on_limit("clusters")
    other.on_limit("marks")
    other.sample(
        cached_objects=dict,
        cached_bytes=dict,
        stacks=lambda: {"CreateComplete": 2.0},
        writes=dict,
        clusters=lambda: {"reachable": {"east:443": 1.0}},
    )
    own.sample(cached_objects=dict, cached_bytes=dict, stacks=lambda: {"CreateComplete": 3.0}, writes=dict)

    lines = metrics_module.merge(own.render(), other.render()).decode().splitlines()

    assert 'hearth_limit_reached_total{limit="clusters"} 2.0' in lines
    assert 'hearth_limit_reached_total{limit="marks"} 1.0' in lines
    assert 'hearth_stacks{phase="CreateComplete"} 5.0' in lines
    assert 'hearth_cluster_reachable{cluster="east:443"} 1.0' in lines
    helps = [line for line in lines if line.startswith("# HELP")]
    assert len(helps) == len(set(helps))


def test_what_describes_one_process_is_that_of_the_parent() -> None:
    own, other = Metrics(), Metrics()
    own.on_leading()
    other.on_leading()

    lines = metrics_module.merge(own.render(), other.render()).decode().splitlines()

    assert "hearth_leader 1.0" in lines
    assert len([line for line in lines if line.startswith("process_resident_memory_bytes ")]) == 1


def test_nonsense_of_the_other_process_is_dropped() -> None:
    own = Metrics().render()

    text = metrics_module.merge(own, b"# HELP hearth_limit_reached_total x\nhearth_limit_reached_total abc\n\xff\n")

    assert b"abc" not in text
    assert metrics_module.merge(own, b"") == own
