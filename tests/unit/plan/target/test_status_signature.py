"""The memory in a status is bound to its Stack, its key and every field of it."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.target import target_status

HASHES = KeyedHasher(b"k" * 32)
TARGET = {"revision": 3, "cause": "Spec", "since": "2026-01-01T00:00:00Z"}
STATUS = target_status.sign(
    {"phase": "UpdateComplete", "target": TARGET, "lastCompletedRevision": 3, "handled": {"retry": "1"}},
    uid="u",
    hashes=HASHES,
)


def test_what_was_signed_is_read() -> None:
    """And nothing else of the status."""
    assert target_status.read_memory(STATUS, uid="u", hashes=HASHES) == {
        "target": TARGET,
        "lastCompletedRevision": 3,
        "handled": {"retry": "1"},
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"target": {**TARGET, "revision": 2}}, id="another target"),
        pytest.param({"target": {**TARGET, "completed": True}}, id="more in the target"),
        pytest.param({"lastCompletedRevision": 2}, id="another number"),
        pytest.param({"lastFailedRevision": 2}, id="another field"),
        pytest.param({"handled": {}}, id="less"),
        pytest.param({"historyUnknown": True}, id="a flag"),
        pytest.param({"check": {"found": 0}}, id="a check"),
        pytest.param({"signature": ""}, id="an empty signature"),
        pytest.param({"signature": 7}, id="no text"),
        pytest.param({"signature": HASHES.hash(["u", {}])}, id="a hash"),
        pytest.param({"handled": {1: 2}}, id="no JSON"),
        pytest.param({"target": float("nan")}, id="no number"),
        pytest.param({"target": 2**70}, id="a huge number"),
    ],
)
def test_what_was_changed_is_lost(changes: dict[str, Any]) -> None:
    """As a whole."""
    assert target_status.read_memory({**STATUS, **changes}, uid="u", hashes=HASHES) is None


def test_another_stack_and_another_key_do_not_count() -> None:
    """Nor does a status without a signature."""
    unsigned = {key: value for key, value in STATUS.items() if key != "signature"}
    assert target_status.read_memory(STATUS, uid="v", hashes=HASHES) is None
    assert target_status.read_memory(STATUS, uid="u", hashes=KeyedHasher(b"o" * 32)) is None
    assert target_status.read_memory(unsigned, uid="u", hashes=HASHES) is None


def test_other_fields_may_change() -> None:
    """Regardless of what they become."""
    changed = {**STATUS, "phase": "forged", "outputs": {"a": 1}, "conditions": []}
    memory = target_status.read_memory(STATUS, uid="u", hashes=HASHES)
    assert target_status.read_memory(changed, uid="u", hashes=HASHES) == memory
