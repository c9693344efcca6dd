"""Names of members, and what is made of them: labels, object names."""

from __future__ import annotations

import pytest

from hearth.model import names
from hearth.model.groups import members

LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


def child_name(resource: str, *, incarnation: int = 1) -> str:
    """The name of an object in the Stack's own namespace."""
    return names.child_name(
        stack="shop",
        stack_namespace="prod",
        stack_uid="u1",
        resource=resource,
        incarnation=incarnation,
        namespace="prod",
    )


@pytest.mark.parametrize(
    ("name", "root", "key", "is_all"),
    [
        ("web", "web", "", False),
        ("workers[a]", "workers", "a", False),
        ("workers[b-2]", "workers", "b-2", False),
        ("workers[*]", "workers", "*", True),
    ],
)
def test_a_name_is_taken_apart(name: str, root: str, key: str, is_all: bool) -> None:
    """Into the name in the template, and the key."""
    assert (members.root_of(name), members.key_of(name), members.is_all(name)) == (root, key, is_all)


@pytest.mark.parametrize(
    ("key", "is_key"),
    [("a", True), ("0", True), ("a-b", True), ("a" * 40, True), ("a" * 41, False), ("", False)]
    + [(key, False) for key in ("-a", "a-", "A", "a_b", "a.b", "a/b", "a]", "*", "a\n", "ä")],
)
def test_which_keys_there_are(key: str, is_key: bool) -> None:
    """A key is part of a name of an object, a label and a path."""
    assert bool(members.KEY.fullmatch(key)) is is_key


@pytest.mark.parametrize(
    ("resource", "label"),
    [("web", "web"), ("workers[a]", "workers.a"), ("w" * 40 + "[" + "k" * 40 + "]", None)],
)
def test_the_label_of_a_member_is_a_valid_value(resource: str, label: str | None) -> None:
    """Without brackets; one that would be too long is cut, and still its own."""
    import re

    found = names.resource_label(resource)
    assert re.fullmatch(LABEL, found)
    assert found == label or (label is None and found != names.resource_label(resource[:-2] + "x]"))


def test_the_object_of_a_member_is_named_by_its_key() -> None:
    """In kebab case as ever; long ones that differ at the end only, and later incarnations, differ as well."""
    assert child_name("workers[a]") == "shop-workers-a"
    assert child_name("redisMasters[b-2]") == "shop-redis-masters-b-2"
    long = ["w" * 40 + "[" + "k" * 30 + at + "]" for at in "xy"]
    assert len({child_name(each) for each in long}) == 2
    assert all(len(child_name(each)) <= names.NAME_LENGTH for each in long)
    assert child_name("workers[a]", incarnation=2) != child_name("workersA", incarnation=2)


def test_a_signature_of_the_longest_name_is_read() -> None:
    """What the operator writes is never longer than what it accepts."""
    from hearth.model import limits, signatures
    from support.units import blueprints

    text = signatures.write(
        "identity",
        resource="w" * 40 + "[" + "k" * 40 + "]",
        incarnation=10**limits.COUNT_DIGITS - 1,
        requires="workers[*]/1",
        signer=blueprints.HASHER,
    )
    assert len(text) <= limits.SIGNATURE_LENGTH
    assert signatures.read("identity", text, signatures=blueprints.HASHER) is not None
