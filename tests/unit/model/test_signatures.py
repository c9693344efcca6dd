"""Valid signatures of a child, and the treatment of objects without one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hearth.model import child, limits, names, signatures
from hearth.model.child import Child, Object
from hearth.plan.ownership import keyed_hash
from support.units.blueprints import CONFIG_MAP, GADGET, HASHER

IDENTITY = names.identity(stack_uid="stack-1", group="", kind="ConfigMap", namespace="default", name="shop-web")
REQUIRES = "db/1,cache/2"
ANOTHER_KEY = keyed_hash.KeyedHasher(b"another key, long enough")
NINES = "9" * 5000


def sign(**facts: Any) -> str:
    """The signature of a child with these facts."""
    facts = {"resource": "web", "incarnation": 3, "requires": REQUIRES, "signer": HASHER, **facts}
    return signatures.write(IDENTITY, **facts)


def make_object() -> Object:
    """A child after an apply by Hearth."""
    metadata = {
        "name": "shop-web",
        "namespace": "default",
        "uid": "1",
        "resourceVersion": "7",
        "labels": {names.LABEL_STACK_UID: "stack-1", names.LABEL_RESOURCE: "web"},
        "annotations": {
            names.ANNOTATION_IDENTITY: IDENTITY,
            names.ANNOTATION_SIGNATURE: sign(),
            names.ANNOTATION_INCARNATION: "3",
            names.ANNOTATION_REQUIRES: REQUIRES,
        },
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def change(**parts: dict[str, str | None]) -> Object:
    """The same after a user has changed labels and annotations; None removes one."""
    raw = copy.deepcopy(make_object())
    for part, changes in parts.items():
        for key, value in changes.items():
            raw["metadata"][part].pop(f"{names.GROUP}/{key}")
            if value is not None:
                raw["metadata"][part][f"{names.GROUP}/{key}"] = value
    return raw


def parse(raw: Object, **options: Any) -> Child:
    """The object as the cache keeps it."""
    return child.parse_child(raw, **{"kind": CONFIG_MAP, "paths": (), "signatures": HASHER, **options})


def facts_of(found: Child) -> tuple[object, ...]:
    """The accepted facts about the object."""
    return found.is_identified, found.resource, found.incarnation, found.requires


def test_a_child_is_what_its_signature_says() -> None:
    assert facts_of(parse(make_object())) == (True, "web", 3, ("db/1", "cache/2"))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(change(annotations={"identity": None}), id="its identity is removed"),
        pytest.param(
            change(annotations={"identity": "stack-2//ConfigMap/default/shop-web"}), id="its identity names another"
        ),
        pytest.param(change(annotations={"incarnation": "99"}), id="it claims a later incarnation"),
        pytest.param(change(annotations={"incarnation": NINES}), id="its incarnation has 5000 digits"),
        pytest.param(change(labels={"resource": "db"}), id="its label names another resource"),
        pytest.param(change(labels={"resource": None}), id="its label names no resource"),
    ],
)
def test_what_is_signed_counts_regardless_of_what_is_written_beside_it(raw: Object) -> None:
    assert facts_of(parse(raw)) == (True, "web", 3, ("db/1", "cache/2"))


@pytest.mark.parametrize("requires", ["", "web/1,cfg/1", f"{REQUIRES},cfg/1"])
def test_forged_requirements_hold_nothing(requires: str) -> None:
    """The object remains the Stack's child, but its unsigned requirements are ignored."""
    assert facts_of(parse(change(annotations={"requires": requires}))) == (True, "web", 3, ())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(change(annotations={"signature": None}), id="without a signature"),
        pytest.param(change(annotations={"signature": ""}), id="with an empty one"),
        pytest.param(change(annotations={"signature": "/"}), id="with nothing but a slash"),
        pytest.param(
            change(annotations={"signature": f"web/4/{sign().partition('/3/')[2]}"}), id="a later incarnation"
        ),
        pytest.param(change(annotations={"signature": f"db{sign().removeprefix('web')}"}), id="another resource"),
        pytest.param(change(annotations={"signature": f"{sign()}0"}), id="one digit more"),
        pytest.param(change(annotations={"signature": sign().upper()}), id="in capitals"),
        pytest.param(change(annotations={"signature": sign(signer=ANOTHER_KEY)}), id="of another key"),
        pytest.param(change(annotations={"signature": "web/3//" + HASHER.hash(IDENTITY)}), id="a hash instead"),
        pytest.param(change(annotations={"signature": f"web/{NINES}//x"}), id="a number of 5000 digits"),
        pytest.param(change(annotations={"signature": "é" * 100}), id="no ASCII"),
        pytest.param(change(labels={"stack-uid": "stack-2"}), id="under another Stack's label"),
    ],
)
def test_without_a_valid_signature_an_object_is_no_child(raw: Object) -> None:
    found = parse(raw)
    assert (found.is_identified, found.index_key, found.requires) == (False, child.UNPROVEN, ())


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        pytest.param({"name": "other"}, CONFIG_MAP, id="another name"),
        pytest.param({"namespace": "other"}, CONFIG_MAP, id="another namespace"),
        pytest.param({}, GADGET, id="another kind"),
    ],
)
def test_a_copied_signature_makes_no_child(metadata: Object, kind: Any) -> None:
    raw = make_object()
    raw["metadata"] |= metadata
    assert not parse(raw, kind=kind).is_identified


def test_nothing_is_believed_where_it_cannot_be_known() -> None:
    assert not parse(make_object(), signatures=None).is_identified


def test_a_proof_holds_for_the_next_state_of_the_object_only_as_long_as_it_is_the_same() -> None:
    known = parse(make_object())
    later = change(annotations={"incarnation": "4"})
    assert facts_of(parse(later, signatures=ANOTHER_KEY, known=known)) == facts_of(known)
    assert not parse(change(labels={"stack-uid": "stack-2"}), known=known).is_identified


@pytest.mark.parametrize("signature", [None, f"db/9//{sign().rpartition('/')[2]}"])
def test_an_object_that_was_proven_stays_a_child_when_its_signature_is_spoilt(signature: str | None) -> None:
    spoilt = change(annotations={"signature": signature})
    found = parse(spoilt, known=parse(make_object()))
    for _ in range(2):
        assert (found.is_signed, facts_of(found)) == (False, (True, "web", 3, ("db/1", "cache/2")))
        found = parse(spoilt, known=found)


@pytest.mark.parametrize(
    ("text", "count"),
    [("7", 7), ("9" * 9, 999_999_999), ("9" * 10, 1), (NINES, 1), ("x", 1), ("-1", 1), ("²", 1), ("", 1)],
)
def test_a_count_has_nine_digits_at_most(text: str, count: int) -> None:
    assert child.parse_incarnation(text) == count


def test_the_longest_signature_is_within_its_limit() -> None:
    assert len(sign(resource="r" * 40, incarnation=10**9 - 1)) <= limits.SIGNATURE_LENGTH
