"""The first resource that names an object owns it, until it names others."""

from __future__ import annotations

from hearth.model.kinds import ObjectRef
from hearth.plan.resource.desired_objects import ObjectClaims


def make_ref(name: str) -> ObjectRef:
    """A ConfigMap."""
    return ObjectRef(group="", kind="ConfigMap", namespace="default", name=name)


def test_the_first_resource_that_names_an_object_owns_it() -> None:
    """As often as either names it."""
    claims = ObjectClaims()
    assert [claims.claim(make_ref("a"), name) for name in ("web", "db", "web", "db")] == ["web"] * 4


def test_all_objects_of_a_changed_resource_are_free() -> None:
    """Those of its later incarnations too, and no objects of others."""
    claims = ObjectClaims()
    for name in ("a", "b", "c"):
        claims.claim(make_ref(name), "web")
    claims.claim(make_ref("d"), "db")
    claims.release(["web", "unknown"])
    assert [claims.claim(make_ref(name), "new") for name in ("a", "b", "c", "d")] == ["new", "new", "new", "db"]
    claims.release(["web"])
    assert claims.claim(make_ref("a"), "db") == "new"
