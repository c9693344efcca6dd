"""The cache of Stacks stores each spec and template once, no matter how many events repeat it, and equals a full
parse.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.kube.cache import stack_cache
from hearth.kube.cache.stack_cache import StackCache
from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForms
from support import virtual_time
from support.ports.silent_ports import DeafListener
from support.units.scripted_api.scripted_watch import ScriptedConnection, Stream, event, list_end

KNOWN = "known"
PADDING = "x" * stack_cache.LARGE
NAMES = st.sampled_from(["spec", "status", "metadata", "a", '"spec":{', ',"status":{"a":1}}', "}", "\\", "ü"])
VALUES = st.recursive(
    NAMES | st.integers(min_value=0, max_value=9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def make(spec: object, *, status: object, **metadata: object) -> Object:
    """A large custom resource with its fields in the order of the API server."""
    plain = {"name": "s", "namespace": "a", "resourceVersion": "7", "uid": "u"}
    found = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {**metadata, **plain}}
    return {**found, "spec": {"padding": PADDING, "values": spec}, "status": status}


def write(raw: Object) -> bytes:
    """The object's JSON as in the response to a request."""
    return orjson.dumps(raw, option=orjson.OPT_APPEND_NEWLINE)


@given(spec=VALUES, status=st.dictionaries(NAMES, VALUES, max_size=3), texts=st.dictionaries(NAMES, NAMES, max_size=3))
def test_the_rest_of_an_object_is_the_same_as_if_all_was_parsed(spec: object, status: Object, texts: Object) -> None:
    raw = make(spec, status=status, annotations=texts)
    found = stack_cache.read(write(raw), lambda metadata: KNOWN if metadata == raw["metadata"] else None)
    if found is not None:
        assert found == {**raw, "spec": KNOWN}
    elif "status" not in repr(status):
        raise AssertionError("an ordinary object must not be parsed as a whole")


@pytest.mark.parametrize("has_status", [True, False])
def test_a_status_within_the_spec_is_none(has_status: bool) -> None:
    raw = make({}, status={"phase": "CreateComplete"})
    raw["spec"]["z"] = {"status": {"phase": "forged"}}
    if not has_status:
        del raw["status"]
    found = stack_cache.read(write(raw), lambda _: KNOWN)
    assert (found["status"] if found is not None else None) == ({"phase": "CreateComplete"} if has_status else None)


def test_what_is_not_certain_is_parsed_as_a_whole() -> None:
    raw = make({}, status={"phase": "CreateComplete"})
    text = write(raw)
    assert stack_cache.read(text, lambda _: KNOWN) is not None
    assert stack_cache.read(text, lambda _: None) is None
    assert stack_cache.read(write({**raw, "spec": {"a": 1}}), lambda _: KNOWN) is None
    assert stack_cache.read(write({**raw, "zone": {}}), lambda _: KNOWN) is None
    assert stack_cache.read(write(dict(sorted(raw.items(), reverse=True))), lambda _: KNOWN) is None
    assert stack_cache.read(text[:-3], lambda _: KNOWN) is None


# A cache of Stacks reuses the spec of an unchanged generation.


ITEMS = [{"name": f"n{number}", "value": "one"} for number in range(2_000)]


def make_large_stack(*, version: int, generation: int = 1, uid: str = "u", phase: str = "CreateComplete") -> Object:
    """A large Stack as the API server writes it."""
    names = {"name": "s", "namespace": "a", "uid": uid}
    metadata = {"generation": generation, "resourceVersion": str(version), **names}
    spec = {"parameters": {"items": ITEMS}, "serviceAccountName": "tenant", "template": {"resources": {}}}
    head = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": metadata}
    return {**head, "spec": spec, "status": {"phase": phase}}


def list_large_stacks() -> StackCache:
    stream = Stream(
        event("ADDED", make_large_stack(version=1)),
        event("ADDED", make_large_stack(version=1, uid="other")),
        list_end(1),
    )
    cache = StackCache(ScriptedConnection(streams=[stream]), DeafListener().on_stack)

    async def story() -> None:
        cache.start()
        await cache.wait_synced()
        await cache.close()

    virtual_time.run(story)
    return cache


def test_an_answer_to_a_status_write_shares_the_spec_of_the_record() -> None:
    cache = list_large_stacks()
    before = cache.find_stack("u")
    raw = make_large_stack(version=2, phase="UpdateComplete")
    answer = cache.read_answer(orjson.dumps(raw))
    assert answer is not None
    after = cache.put(answer)
    assert before is not None
    assert after.packed_parameters is before.packed_parameters
    assert after == cache.parse(raw)
    assert after.spec == raw["spec"]
    assert (after.phase, cache.find_stack("u")) == ("UpdateComplete", after)


def test_another_spec_is_parsed() -> None:
    """A changed generation shows it, unless the API server may have lost changes since the last list."""
    cache = list_large_stacks()
    assert cache.read_answer(orjson.dumps(make_large_stack(version=2, generation=2))) is None
    assert cache.read_answer(orjson.dumps(make_large_stack(version=2, uid="third"))) is None
    assert cache.read_answer(orjson.dumps(make_large_stack(version=2))) is not None
    unlisted = StackCache(ScriptedConnection(), DeafListener().on_stack)
    unlisted.put(make_large_stack(version=1))
    assert unlisted.read_answer(orjson.dumps(make_large_stack(version=2))) is None


def test_an_unreadable_status_does_not_cost_the_spec() -> None:
    cache = list_large_stacks()
    raw = make_large_stack(version=2)
    text = orjson.dumps(raw).replace(b'"status":{', b'"status":{"deep":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b",")
    answer = cache.read_answer(text)
    assert answer is not None
    after = cache.put(answer)
    assert after.spec == raw["spec"]
    assert after.defect == ""


def test_a_changed_spec_is_parsed_once() -> None:
    cache = list_large_stacks()
    raw = make_large_stack(version=2, generation=2)
    stack = cache.put(raw)
    assert stack.with_parsed_spec().spec["parameters"] is raw["spec"]["parameters"]
    again = stack.with_parsed_spec().spec
    assert again == raw["spec"]
    assert again["parameters"] is not raw["spec"]["parameters"]

    one = cache.put(make_large_stack(version=3, generation=3))
    cache.put(make_large_stack(version=3, generation=2, uid="other"))
    assert one.arrived_spec is not None
    assert one.arrived_spec.spec is None
    assert one.with_parsed_spec().spec == raw["spec"]


def test_an_overtaken_answer_keeps_its_own_spec() -> None:
    cache = list_large_stacks()
    answer = cache.read_answer(orjson.dumps(make_large_stack(version=2)))
    newer = make_large_stack(version=3, generation=2)
    newer["spec"]["parameters"] = {"items": ITEMS[:1_500]}
    cache.put(newer)
    assert answer is not None
    assert cache.put(answer).with_parsed_spec().spec == make_large_stack(version=2)["spec"]
    assert cache.parse({**answer}).arrived_spec is None


# Stacks with the same template share one copy.


TEMPLATE: Object = {"resources": {"a": {"manifest": {"kind": "ConfigMap", "data": {"b": "ü", "a": "1"}}}}}


def make_stack(name: str, spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1}
    return {"apiVersion": "hearth.dev/v1alpha1", "kind": names.STACK, "metadata": metadata, "spec": spec}


def make_cache() -> StackCache:
    """A cache that watches nothing."""
    return StackCache(ScriptedConnection(), DeafListener().on_stack)


@pytest.mark.parametrize(
    "spec", [{}, {"parameters": {"a": 1}}, {"template": None}, {"template": TEMPLATE, "paused": True}, [1], "text"]
)
def test_a_spec_is_kept_as_it_was(spec: object) -> None:
    kept = make_cache().parse(make_stack("one", spec))
    assert kept.spec == (spec or {})
    assert kept.spec_size > 0


def test_stacks_with_other_parameters_share_their_template() -> None:
    cache = make_cache()
    one, two = (cache.parse(make_stack(name, {"template": TEMPLATE, "parameters": {"name": name}})) for name in "ab")
    assert one.packed_template is two.packed_template
    assert (one.spec["parameters"], two.spec["parameters"]) == ({"name": "a"}, {"name": "b"})
    assert list(one.spec["template"]["resources"]["a"]["manifest"]["data"]) == ["b", "a"]


def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
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
    raw = make_stack("one", {"template": TEMPLATE, "parameters": {"name": "a"}, "paused": True})
    first = stack_cache.parse_stack(raw)
    again = stack_cache.parse_stack({**raw, "spec": {"not": "read"}}, known=first)
    assert again.packed_parameters is first.packed_parameters
    assert again.spec == first.spec

    metadata = {**raw["metadata"], "generation": 2}
    changed = stack_cache.parse_stack({**raw, "metadata": metadata, "spec": {"paused": False}}, known=first)
    assert changed.spec == {"paused": False}


# Instances of a StackDefinition are kept in the form of Stacks.


SITE = Kind(group="platform.example", version="v1", name="Site", plural="sites", namespaced=True)
INSTANCE_TEMPLATE = {
    "parameters": {"size": {"type": "integer", "default": 1}, "key": {"type": "string", "sensitive": True}}
}
REVISIONS = st.fixed_dictionaries(
    {"template": st.just(INSTANCE_TEMPLATE)},
    optional={
        "account": st.fixed_dictionaries({"namespace": st.sampled_from("ab"), "name": st.sampled_from("cd")}),
        "boundary": st.sampled_from(["Namespace", "Cluster"]),
        "defaults": st.fixed_dictionaries({}, optional={"serviceAccountName": st.just("x"), "timeout": st.just("5m")}),
        "options": st.just(["serviceAccountName"]),
        "scale": st.just({"parameter": "size"}),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 9),
        "key": st.just({"secretKeyRef": {"name": "a", "key": "b"}}),
        "stack": st.fixed_dictionaries(
            {},
            optional={
                "paused": st.booleans(),
                "serviceAccountName": st.just("y"),
                "definitionRevision": st.integers(1, 3),
            },
        ),
    },
)


def make_instance(spec: dict[str, Any], *, version: int, status: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": "prod", "uid": "1", "generation": 1, "resourceVersion": str(version)}
    return {"apiVersion": SITE.api_version, "kind": SITE.name, "metadata": metadata, "spec": spec, "status": status}


@given(
    contents=st.lists(REVISIONS, min_size=1, max_size=3), spec=SPECS, last=st.integers(0, 3), phase=st.text(max_size=3)
)
def test_an_event_without_a_change_of_the_spec_keeps_all_that_the_spec_makes(
    contents: list[dict[str, Any]], spec: dict[str, Any], last: int, phase: str
) -> None:
    forms = InstanceForms("sites.platform.example")
    for number, content in enumerate(contents, 1):
        forms.by_number[number] = instance_form.make_form(forms.definition, number, instance_form.make_content(content))
    forms.current = len(contents)
    status = {"definitionRevision": last} if last else {}
    known = stack_cache.parse_instance(make_instance(spec, version=1, status=status), kind=SITE, forms=forms)
    after = make_instance(
        spec, version=2, status={**status, "definitionRevision": known.definition_revision, "phase": phase}
    )

    kept = stack_cache.parse_instance(after, kind=SITE, forms=forms, known=known)

    assert kept == stack_cache.parse_instance(after, kind=SITE, forms=forms)


def test_of_metadata_only_what_is_read_is_kept() -> None:
    read = {names.REQUEST_RETRY: "1", "configmanagement.gke.io/token": "abc"}
    others = [f"a.b/{number}" for number in range(limits.STACK_FINALIZERS_KEPT + 5)]
    raw = make({}, status={}, annotations={**dict.fromkeys(others, ""), **read}, finalizers=[*others, names.FINALIZER])

    found = stack_cache.parse_stack(raw)

    assert found.annotations == read
    assert found.finalizers == (*others[: limits.STACK_FINALIZERS_KEPT], names.FINALIZER)
