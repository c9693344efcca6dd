"""What is known of the kinds that a Stack ever applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hearth.engine.definition import revision_builder
from hearth.model.kinds import Kind
from support.units.blueprints import CONFIG_MAP, ServedKinds

NEW = Kind(group="example.org", version="v1", name="Gadget", plural="gadgets", namespaced=True)


def test_a_kind_is_found_under_any_served_version() -> None:
    """Objects outlive the version that they were applied in; a kind that is gone has none."""
    cluster: Any = SimpleNamespace(kinds=ServedKinds(CONFIG_MAP, NEW))
    kinds = ["v1/ConfigMap", "example.org/v1beta1/Gadget", "example.org/v1/Gadget", "other.org/v1/Gadget"]
    assert revision_builder.find_served_kinds(cluster, kinds) == [NEW, CONFIG_MAP]
