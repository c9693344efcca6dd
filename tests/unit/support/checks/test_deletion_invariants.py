"""The checks on a fake cluster detect every forbidden deletion, so that no test misses one."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.checks import members
from support.checks.deletion_invariants import Oversight
from support.server import fake_kinds
from support.server.request_faults import Request, Traffic

CONFIG_MAP = fake_kinds.CONFIG_MAP.kind


def child(resource: str, *, uses: str = "", requires: str = "", kind: str = "ConfigMap") -> Object:
    """A child of the Stack `s`."""
    labels = {names.LABEL_STACK_UID: "s", names.LABEL_RESOURCE: resource}
    metadata = {
        "name": f"shop-{resource}",
        "uid": resource,
        "generation": 1,
        "labels": labels,
        "annotations": {names.ANNOTATION_REQUIRES: requires},
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"v": uses}}


def stack(resources: dict[str, str], *, phase: str = "UpdateInProgress", **more: Any) -> Object:
    """The Stack `s` with these resources, by name."""
    made = {
        name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": v}}} for name, v in resources.items()
    }
    spec = {"template": {"resources": made}, **more}
    return {
        "metadata": {"uid": "s", "generation": 1},
        "spec": spec,
        "status": {"phase": phase, "observedGeneration": 1},
    }


class World:
    """The world that the checks observe."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.time = 0.0
        self.oversight = Oversight(self.traffic, lambda: self.time)

    def show(self, *raws: Object) -> None:
        """Add these objects."""
        for raw in raws:
            kind = fake_kinds.STACK.kind if "spec" in raw else CONFIG_MAP
            self.oversight.on_change(kind, None, raw)
        self.time += 10

    def delete(self, raw: Object, *, verb: str | None = "delete") -> list[str]:
        """The violations of this deletion. verb: the operator's request, None: another client deleted it."""
        if verb is not None:
            self.traffic.acting = Request(verb=verb, kind=CONFIG_MAP, namespace="default", name=raw["metadata"]["name"])
        self.oversight.on_change(CONFIG_MAP, raw, None)
        return self.oversight.wrong


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        pytest.param("delete", ["db was deleted before web, which requires it"], id="by an operator"),
        pytest.param(None, [], id="by another client"),
    ],
)
def test_deletion_before_what_requires_it(verb: str | None, wrong: list[str]) -> None:
    world = World()
    db = child("db")
    world.show(stack({}), db, child("web", requires="db/1"))
    assert world.delete(db, verb=verb) == wrong


@pytest.mark.parametrize(
    ("was_ready", "resources", "wrong"),
    [
        pytest.param(False, {"db": "", "web": "x"}, [], id="never ready"),
        pytest.param(False, {"web": "x"}, ["db was deleted before web, which requires it"], id="not wanted any more"),
        pytest.param(True, {"db": "", "web": "x"}, ["db was deleted before web, which requires it"], id="ready once"),
    ],
)
def test_deletion_of_what_never_was_ready(was_ready: bool, resources: dict[str, str], wrong: list[str]) -> None:
    world = World()
    db = child("db", kind="Probe")
    world.show(stack(resources), db, child("web", requires="db/1"))
    if was_ready:
        ready = {**db, "status": {"ready": True, "observedGeneration": 1}}
        world.oversight.on_change(CONFIG_MAP, db, ready)
        world.oversight.on_change(CONFIG_MAP, ready, db)
    assert world.delete(db) == wrong


def test_deletion_before_what_uses_it() -> None:
    world = World()
    db = child("db")
    world.show(stack({}), db, child("web", uses="at shop-db", requires="db/2"))
    assert world.delete(db) == ["shop-db was deleted although shop-web uses it"]


def test_deletion_of_what_uses_each_other() -> None:
    world = World()
    db, web = child("db", requires="web/1"), child("web", uses="shop-db", requires="db/1")
    world.show(stack({"db": "", "web": "${db.metadata.name}"}), db, web)
    assert world.delete(db) == []


def test_deletion_of_what_uses_each_other_by_a_collection() -> None:
    world = World()
    db, web = child("db", requires="web[*]/1"), child("web[a]", uses="shop-db", requires="db/1")
    world.show(stack({"db": "", "web": "${db.metadata.name}"}), db, web)
    assert world.delete(db) == []


def test_record_that_is_older_than_the_object() -> None:
    world = World()
    db = child("db")
    world.show(stack({"web": "plain"}), db, child("web", uses="plain", requires="db/1"))
    assert world.delete(db) == []


@pytest.mark.parametrize(
    ("is_there", "wrong"),
    [
        pytest.param(True, [], id="the new one is ready"),
        pytest.param(False, ["shop-old, which was reached, was deleted before ['new'] were ready"], id="it is not"),
    ],
)
def test_deletion_of_what_was_reached(is_there: bool, wrong: list[str]) -> None:
    world = World()
    old = child("old")
    world.show(stack({"old": ""}), old, stack({"old": ""}, phase="CreateComplete"))
    world.show(stack({"new": ""}))
    if is_there:
        world.show(child("new"))
    assert world.delete(old) == wrong


def test_deletion_beside_a_definition_that_is_refused() -> None:
    world = World()
    old = child("old")
    world.show(stack({"old": ""}), old, stack({"old": ""}, phase="CreateComplete"))
    metadata = {"labels": {names.LABEL_STACK_UID: "s"}, "annotations": {names.ANNOTATION_REVISION: "2"}}
    data = stack({"new": ""})["spec"]["template"]
    world.oversight.on_change(
        fake_kinds.CONTROLLER_REVISION.kind, None, {"metadata": metadata, "data": {"template": data}}
    )
    refused = stack({"new": "", members.MISTAKEN: ""})
    refused["status"]["target"] = {"revision": 2, "cause": "Spec"}
    world.show(child("new"), refused)
    assert world.delete(old) == []


def test_a_refused_definition_ends_no_cleanup() -> None:
    world = World()
    old, asked = child("old"), stack({"new": ""})
    asked["metadata"]["annotations"] = {names.REQUEST_CLEANUP: "1"}
    world.show(stack({"old": ""}), old, stack({"old": ""}, phase="CreateComplete"), stack({"new": ""}), asked)
    world.show(stack({"new": "", members.MISTAKEN: ""}), asked)
    assert world.delete(old) == []


@pytest.mark.parametrize(
    ("resources", "wrong"),
    [
        pytest.param({}, [], id="its user took it out"),
        pytest.param({"db": ""}, [], id="it is of another kind now"),
    ],
)
def test_deletion_of_a_claim_that_was_asked_for(resources: dict[str, str], wrong: list[str]) -> None:
    world = World()
    claim = child("db", kind="PersistentVolumeClaim")
    world.show(stack(resources), claim)
    assert world.delete(claim) == wrong


def test_deletion_of_a_claim_that_was_not_requested() -> None:
    world = World()
    claim = child("db", kind="PersistentVolumeClaim")
    wanted = stack({"db": ""})
    wanted["spec"]["template"]["resources"]["db"]["manifest"]["kind"] = "PersistentVolumeClaim"
    world.show(wanted, claim)
    assert world.delete(claim) == ["the claim shop-db was deleted, and that was not requested"]


def test_write_while_paused() -> None:
    """No new write may start; writes in flight at the time of the pause may arrive."""
    world = World()
    world.show(stack({}, paused=True))
    world.oversight.on_request(Request(verb="status", kind=CONFIG_MAP, namespace="", name="shop"))
    assert world.oversight.wrong == []
    world.oversight.on_request(Request(verb="apply", kind=CONFIG_MAP, namespace="", name="shop-a"))
    assert world.oversight.wrong == ["apply configmap/shop-a was sent while the Stack is paused"]


@pytest.mark.parametrize(
    ("verb", "named", "wrong"),
    [
        pytest.param("delete", "shop-db", ["ConfigMap shop-db was deleted although new names it"], id="deleted"),
        pytest.param("release", "shop-db", ["ConfigMap shop-db was released although new names it"], id="released"),
        pytest.param("delete", "other", [], id="another name"),
    ],
)
def test_removal_of_what_another_resource_names(verb: str, named: str, wrong: list[str]) -> None:
    world = World()
    db, wanted = child("db"), stack({"new": ""})
    wanted["spec"]["template"]["resources"]["new"]["manifest"]["metadata"] = {"name": named}
    world.show(wanted, db)
    world.traffic.acting = Request(verb=verb, kind=CONFIG_MAP, namespace="default", name="shop-db")
    after = {**db, "metadata": {**db["metadata"], "labels": {}}} if verb == "release" else None
    world.oversight.on_change(CONFIG_MAP, db, after)
    assert world.oversight.wrong == wrong
