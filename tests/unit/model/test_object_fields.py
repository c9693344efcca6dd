"""Fields of objects that any client may have written."""

import pytest

from hearth.model import object_fields


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        pytest.param("7", "10", True, id="lower as a number, not as a text"),
        pytest.param("10", "7", False, id="higher"),
        pytest.param("7", "7", False, id="equal"),
        pytest.param("", "7", False, id="unknown"),
        pytest.param("²", "7", False, id="a digit that int() refuses"),
        pytest.param("1" * 5000, "7", False, id="too long for int()"),
    ],
)
def test_only_resource_versions_are_compared(version: str, than: str, expected: bool) -> None:
    assert object_fields.is_older_version(version, than) is expected
