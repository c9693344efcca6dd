"""Detection of lost fields, on `managedFields` as a real API server writes them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hearth.model import child, names
from hearth.model.child import FieldOwnership, Object
from support.units import lost_fields

MANIFEST: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"example.com/tier": "front"}, "finalizers": ["example.com/a"]},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "web:1",
                        "args": ["-v"],
                        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP", "name": "quic"}],
                    },
                    {"name": "log", "image": "log:1"},
                ],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            }
        },
    },
}  # fmt: skip
TCP, UDP = 'k:{"containerPort":80,"protocol":"TCP"}', 'k:{"containerPort":80,"protocol":"UDP"}'
WEB, LOG, TMP = 'k:{"name":"web"}', 'k:{"name":"log"}', 'k:{"name":"tmp"}'
FIELDS: Object = {
    "f:metadata": {"f:labels": {"f:example.com/tier": {}}, "f:finalizers": {'v:"example.com/a"': {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    WEB: {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:ports": {
                            TCP: {".": {}, "f:containerPort": {}, "f:name": {}},
                            UDP: {".": {}, "f:containerPort": {}, "f:protocol": {}, "f:name": {}},
                        },
                    },
                    LOG: {".": {}, "f:name": {}, "f:image": {}},
                },
                "f:volumes": {TMP: {".": {}, "f:name": {}, "f:emptyDir": {}}},
            }
        },
    },
}
POD = ("f:spec", "f:template", "f:spec")
PORTS = (*POD, "f:containers", WEB, "f:ports")


def entry(
    fields: Object, *, manager: str = "hearth:shop/shop", operation: str = "Apply", subresource: str = ""
) -> Object:
    found = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields}
    return {**found, "subresource": subresource} if subresource else found


def owned(*entries: Object, live: Object | None = None) -> FieldOwnership | None:
    """The cached ownership of an object with these entries."""
    body = live if live is not None else MANIFEST
    return child.find_ownership({**body, "metadata": {**body.get("metadata", {}), "managedFields": list(entries)}})


def without(fields: Object, *path: str) -> Object:
    """`fields` without the field at `path`, and without parents that become empty."""
    inner = without(fields[path[0]], *path[1:]) if len(path) > 1 else {}
    return {key: inner if key == path[0] else value for key, value in fields.items() if key != path[0] or inner}


def test_what_we_applied_is_ours() -> None:
    assert lost_fields.find_first_lost(MANIFEST, owned(entry(FIELDS))) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("f:spec", "f:replicas"), "spec.replicas"),
        (("f:spec", "f:selector"), "spec.selector.matchLabels.app"),
        (("f:spec",), "spec.replicas"),
        (("f:metadata", "f:labels", "f:example.com/tier"), "metadata.labels[example.com/tier]"),
        (("f:metadata", "f:labels"), "metadata.labels[example.com/tier]"),
        (("f:metadata", "f:finalizers", 'v:"example.com/a"'), "metadata.finalizers"),
        ((*POD, "f:containers", LOG), 'spec.template.spec.containers[name="log"]'),
        ((*POD, "f:containers", LOG, "f:image"), 'spec.template.spec.containers[name="log"].image'),
        ((*POD, "f:containers", WEB, "f:args"), 'spec.template.spec.containers[name="web"].args'),
        ((*POD, "f:volumes", TMP), "spec.template.spec.volumes"),
        ((*PORTS, UDP), 'spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="UDP"]'),
        ((*PORTS, TCP), 'spec.template.spec.containers[name="web"].ports[containerPort=80]'),
        (
            (*PORTS, TCP, "f:name"),
            'spec.template.spec.containers[name="web"].ports[containerPort=80].name',
        ),
    ],
    ids=str,
)
def test_a_lost_field_is_named(path: tuple[str, ...], expected: str) -> None:
    assert lost_fields.find_first_lost(MANIFEST, owned(entry(without(FIELDS, *path)))) == expected


def test_without_an_entry_all_is_lost() -> None:
    assert lost_fields.find_first_lost(MANIFEST, owned()) == "metadata.labels[example.com/tier]"
    assert (
        lost_fields.find_first_lost({"kind": "ConfigMap", "metadata": {"name": "a"}}, None) == "metadata.managedFields"
    )


@pytest.mark.parametrize("value", [None, {}, [], {"deep": {"list": []}}])
def test_what_cannot_be_owned_is_not_lost(value: Any) -> None:
    manifest = {"metadata": {"name": "a"}, "spec": {"ports": value}}
    assert lost_fields.find_first_lost(manifest, owned(entry({}), live=manifest)) is None


def test_a_stated_status_is_nobodys() -> None:
    assert lost_fields.find_first_lost({"metadata": {}, "status": {"phase": "x"}}, owned(entry({}), live={})) is None


def test_items_are_matched_one_to_one() -> None:
    manifest = {"spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}}
    fields: Object = {
        "f:spec": {"f:ports": {'k:{"port":80,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}}}}
    }
    assert lost_fields.find_first_lost(manifest, owned(entry(fields), live=manifest)) == "spec.ports[port=80]"


def test_a_lost_member_of_a_set_is_named() -> None:
    manifest = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    fields: Object = {"f:metadata": {"f:finalizers": {'v:"example.com/a"': {}}}}
    assert lost_fields.find_first_lost(manifest, owned(entry(fields))) == 'metadata.finalizers[="example.com/b"]'


def test_keys_are_read_as_json() -> None:
    manifest = {"metadata": {"finalizers": ["a&b"]}, "spec": {"rules": [{"host": "<ü>", "weight": 1}]}}
    fields = {
        "f:metadata": {"f:finalizers": {'v:"a\\u0026b"': {}}},
        "f:spec": {"f:rules": {'k:{"host":"\\u003cü\\u003e"}': {".": {}, "f:host": {}, "f:weight": {}}}},
    }
    assert lost_fields.find_first_lost(manifest, owned(entry(fields), live=manifest)) is None


def test_an_atomic_item_is_owned_whole() -> None:
    manifest = {"metadata": {"ownerReferences": [{"uid": "u", "name": "n"}]}}
    fields: Object = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u"}': {}}}}
    assert lost_fields.find_first_lost(manifest, owned(entry(fields), live=manifest)) is None


FREE: Object = {"metadata": {"name": "a"}, "spec": {"settings": {"a": 1, "b": {"c": 2}}}}
COLLAPSED: Object = {"f:spec": {"f:settings": {}}}


def test_a_free_map_whose_keys_others_took_is_lost() -> None:
    theirs = entry({"f:spec": {"f:settings": {"f:a": {}, "f:b": {".": {}, "f:c": {}}}}}, manager="kubectl-edit")
    assert lost_fields.find_first_lost(FREE, owned(entry(COLLAPSED), theirs, live=FREE)) == "spec.settings.a"


def test_the_same_is_seen_in_a_watch_of_metadata() -> None:
    theirs = entry({"f:spec": {"f:settings": {"f:a": {}}}}, manager="kubectl-edit", operation="Update")
    assert lost_fields.find_first_lost(FREE, owned(entry(COLLAPSED), theirs, live={})) == "spec.settings.a"


def test_a_free_map_that_was_emptied_is_lost() -> None:
    live: Object = {"metadata": {"name": "a"}, "spec": {"settings": {}}}
    assert lost_fields.find_first_lost(FREE, owned(entry(COLLAPSED), live=live)) == "spec.settings.a"


def test_a_free_map_in_a_list_item_is_looked_into() -> None:
    manifest: Object = {"spec": {"rules": [{"name": "x", "free": {"a": 1}}, {"name": "y", "free": {"a": 1}}]}}
    live: Object = {"spec": {"rules": [{"name": "y", "free": {}}, {"name": "x", "free": {"a": 1}}]}}
    item: Object = {".": {}, "f:name": {}}
    fields = {
        "f:spec": {
            "f:rules": {
                'k:{"name":"x"}': {**item, "f:free": {".": {}, "f:a": {}}},
                'k:{"name":"y"}': {**item, "f:free": {}},
            }
        }
    }
    assert lost_fields.find_first_lost(manifest, owned(entry(fields), live=live)) == 'spec.rules[name="y"].free.a'


def test_a_map_that_is_whole_stays_whole() -> None:
    fields: Object = {"f:spec": {"f:selector": {}}}
    manifest: Object = {"spec": {"selector": {"app": "web"}}}
    assert (
        lost_fields.find_first_lost(manifest, owned(entry(fields), entry(fields, manager="kubectl"), live=manifest))
        is None
    )


def test_what_others_add_beside_us_is_not_drift() -> None:
    manifest: Object = {"spec": {"settings": {}}}
    theirs = entry({"f:spec": {"f:settings": {"f:z": {}}}}, manager="kubectl-edit")
    assert (
        lost_fields.find_first_lost(manifest, owned(entry(COLLAPSED), theirs, live={"spec": {"settings": {"z": 1}}}))
        is None
    )


@pytest.mark.parametrize(
    "theirs",
    [
        entry(FIELDS, manager="kubectl"),
        entry(FIELDS, operation="Update"),
        entry(FIELDS, subresource="status"),
        {"manager": "hearth:shop/shop"},
        {},
    ],
)
def test_only_an_apply_of_ours_to_the_object_counts(theirs: Object) -> None:
    assert owned(theirs) is None


def test_of_two_stacks_the_owner_of_the_label_counts() -> None:
    label: Object = {"f:metadata": {"f:labels": {f"f:{names.LABEL_STACK_UID}": {}}}}
    old, new = entry({"f:spec": {"f:replicas": {}}}, manager="hearth:shop/old"), entry(label, manager="hearth:shop/new")
    assert owned(old, new) == owned(new)
    assert owned(new, old) == owned(new)


def test_ownership_is_distinguished_by_all_of_it() -> None:
    theirs = entry({"f:spec": {"f:settings": {"f:a": {}}}}, manager="kubectl-edit")
    whole, collapsed = owned(entry(COLLAPSED), live=FREE), owned(entry(COLLAPSED), theirs, live=FREE)
    assert whole == owned(entry(copy.deepcopy(COLLAPSED)), live=FREE)
    assert len({None, whole, collapsed, owned(entry(FIELDS))}) == 4


def test_reading_an_object_leaves_it_alone() -> None:
    theirs = entry({"f:spec": {"f:settings": {"f:a": {}}}}, manager="kubectl-edit")
    mine = entry(COLLAPSED)
    before = copy.deepcopy([mine, theirs])
    lost_fields.find_first_lost(FREE, owned(mine, theirs, live=FREE))
    assert [mine, theirs] == before
