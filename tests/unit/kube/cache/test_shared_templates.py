"""Stacks of one template keep it once."""

from __future__ import annotations

import pytest

from hearth.kube.cache import stack_cache
from hearth.kube.cache.stack_cache import StackCache
from hearth.model import names
from hearth.model.child import Object
from support.units.scripted_api.scripted_watch import ScriptedConnection

TEMPLATE: Object = {"resources": {"a": {"manifest": {"kind": "ConfigMap", "data": {"b": "ü", "a": "1"}}}}}


class Listener:
    """Hears nothing of interest."""

    def on_stack(self, uid: str) -> None:
        """A Stack changed."""


def make_stack(name: str, spec: object) -> Object:
    """A Stack of that spec."""
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1}
    return {"apiVersion": "hearth.dev/v1alpha1", "kind": names.STACK, "metadata": metadata, "spec": spec}


def make_cache() -> StackCache:
    """A cache that watches nothing."""
    return StackCache(ScriptedConnection(), Listener().on_stack)


@pytest.mark.parametrize(
    "spec", [{}, {"parameters": {"a": 1}}, {"template": None}, {"template": TEMPLATE, "paused": True}, [1], "text"]
)
def test_a_spec_is_kept_as_it_was(spec: object) -> None:
    """Whether it has a template or not, also one that the API server should not have accepted."""
    kept = make_cache().parse(make_stack("one", spec))
    assert kept.spec == (spec or {})
    assert kept.spec_size > 0


def test_stacks_with_other_parameters_share_their_template() -> None:
    """It is the largest part of most Stacks."""
    cache = make_cache()
    one, two = (cache.parse(make_stack(name, {"template": TEMPLATE, "parameters": {"name": name}})) for name in "ab")
    assert one.packed_template is two.packed_template
    assert (one.spec["parameters"], two.spec["parameters"]) == ({"name": "a"}, {"name": "b"})
    assert list(one.spec["template"]["resources"]["a"]["manifest"]["data"]) == ["b", "a"]


def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant who writes ever other templates, or large ones, makes the operator keep no more of them."""
    monkeypatch.setattr(stack_cache, "SHARED_TEMPLATES", 2)
    cache = make_cache()
    first = cache.parse(make_stack("first", {"template": TEMPLATE}))
    for number in range(3):
        cache.parse(make_stack("other", {"template": {**TEMPLATE, "description": str(number)}}))
    again = cache.parse(make_stack("first", {"template": TEMPLATE}))
    assert again.packed_template is not first.packed_template
    assert again.packed_template == first.packed_template

    large = {"description": "x" * stack_cache.SHARED_BYTES}
    one, two = (cache.parse(make_stack(name, {"template": large})) for name in "ab")
    assert one.packed_template is not two.packed_template


def test_a_new_status_does_not_pack_the_same_spec_again() -> None:
    """The generation is that of the spec; the statuses of a Stack of thousands of members show it again and again."""
    raw = make_stack("one", {"template": TEMPLATE, "parameters": {"name": "a"}, "paused": True})
    first = stack_cache.parse_stack(raw)
    again = stack_cache.parse_stack({**raw, "spec": {"not": "read"}}, known=first)
    assert again.packed_parameters is first.packed_parameters
    assert again.spec == first.spec

    metadata = {**raw["metadata"], "generation": 2}
    changed = stack_cache.parse_stack({**raw, "metadata": metadata, "spec": {"paused": False}}, known=first)
    assert changed.spec == {"paused": False}
