"""A scrape of one process shows what both do."""

from __future__ import annotations

from hearth.serve import metrics
from hearth.serve.metrics import Metrics


def test_samples_of_both_are_added_up() -> None:
    """Counters and gauges alike; what only one has stays as it is."""
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

    lines = metrics.merge(own.render(), other.render()).decode().splitlines()

    assert 'hearth_limit_reached_total{limit="clusters"} 2.0' in lines
    assert 'hearth_limit_reached_total{limit="marks"} 1.0' in lines
    assert 'hearth_stacks{phase="CreateComplete"} 5.0' in lines
    assert 'hearth_cluster_reachable{cluster="east:443"} 1.0' in lines
    helps = [line for line in lines if line.startswith("# HELP")]
    assert len(helps) == len(set(helps))


def test_what_describes_one_process_is_that_of_the_parent() -> None:
    """Its memory, its version, whether it leads."""
    own, other = Metrics(), Metrics()
    own.on_leading()
    other.on_leading()

    lines = metrics.merge(own.render(), other.render()).decode().splitlines()

    assert "hearth_leader 1.0" in lines
    assert len([line for line in lines if line.startswith("process_resident_memory_bytes ")]) == 1


def test_nonsense_of_the_other_process_is_dropped() -> None:
    """It is where tenants' servers are read."""
    own = Metrics().render()

    text = metrics.merge(own, b"# HELP hearth_limit_reached_total x\nhearth_limit_reached_total abc\n\xff\n")

    assert b"abc" not in text
    assert metrics.merge(own, b"") == own
