"""YAML as kubectl reads it. `cluster_tests/test_import_real.py` asks kubectl itself about the same file of scalars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies

from hearth.template import plain_yaml

SCALARS = Path(__file__).resolve().parents[2] / "data" / "scalars.yaml"

EXPECTED = {
    "yes-in-small": True,
    "yes-as-letter": True,
    "no-as-letter": False,
    "odd-case": "tRue",
    "tilde": None,
    "nothing": None,
    "null-word": None,
    "decimal": 12,
    "signed": 12,
    "underscored": 1000,
    "grouped": "1,000",
    "hexadecimal": 31,
    "binary": 3,
    "octal": 420,
    "octal-of-today": 420,
    "negative-octal": -15,
    "no-octal": 8,
    "not-octal-either": "0o8",
    "hexadecimal-without-digits": "0x",
    "larger-than-64-bits": 1.2345678901234568e29,
    "largest": 9223372036854775807,
    "fraction": 0.5,
    "point-at-end": 1,
    "exponent": 1000,
    "exponent-after-point": 1000,
    "exponent-with-sign": 0.0015,
    "too-large": "1e400",
    "underscored-fraction": 10.5,
    "ports": "22:22",
    "time-of-day": "12:30:45.5",
    "date": "2024-01-01",
    "moment": "2001-12-14t21:59:43.10-05:00",
    "equals": "=",
    "encoded": "hello",
    "forced": "12",
    "12": "a key",
    "anchor": {"a": 1, "b": 2},
    "merged": {"a": 1, "b": 3},
    # The keys `off` and `on`, as any reader of YAML 1.1 takes them.
    "false": False,
    "true": "a key",
}

JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers(plain_yaml.SMALLEST, plain_yaml.LARGEST)
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    max_leaves=12,
)
TREACHEROUS = (
    strategies.from_regex(plain_yaml.INTEGER)
    | strategies.from_regex(plain_yaml.FLOAT)
    | strategies.text(alphabet=" \n\t:-#'\"|>%@`${}[]ab01~yn.+", max_size=12)
)


def read_one(text: str) -> Any:
    (document,) = plain_yaml.parse_documents(text)
    return document.value


def with_types(values: dict[str, Any]) -> dict[str, tuple[type, Any]]:
    """`1`, `1.0` and `True` are equal to Python."""
    return {key: (type(value), value) for key, value in values.items()}


def find_error(text: str) -> str:
    with pytest.raises(yaml.YAMLError) as caught:
        list(plain_yaml.parse_documents(text))
    return plain_yaml.describe(caught.value)


def test_words_without_quotes_mean_what_kubectl_takes_them_for() -> None:
    """Else an imported object would differ from the applied one without anybody having changed it."""
    found = read_one(SCALARS.read_text())["data"]

    assert with_types(EXPECTED) == with_types(found)


@hypothesis.given(JSON)
def test_whatever_is_written_is_read_back(value: Any) -> None:
    """Nothing is lost on the way to the file and back."""
    assert read_one(plain_yaml.write({"value": value})) == {"value": value}


@hypothesis.given(TREACHEROUS)
def test_text_stays_text(text: str) -> None:
    """Texts that look like numbers, marks of YAML, white space at either end."""
    assert read_one(plain_yaml.write({"value": text})) == {"value": text}


@pytest.mark.parametrize(
    "text", ["22:22", "2024-01-01", "1e3", "0o644", "y", "=", "0644"], ids=lambda text: f"quotes {text}"
)
def test_text_is_quoted_where_any_reader_would_take_it_for_something_else(text: str) -> None:
    """The readers of old and of new YAML, whichever kubectl is built with."""
    assert plain_yaml.write([text]) == f"- '{text}'\n"


def test_text_of_several_lines_is_written_as_a_block() -> None:
    """So that a script in a ConfigMap stays readable."""
    assert plain_yaml.write({"script": "#!/bin/sh\nexit 0\n"}) == "script: |\n  #!/bin/sh\n  exit 0\n"


def test_what_occurs_twice_is_written_twice() -> None:
    """No anchors: nobody wrote them."""
    labels = {"app": "web"}

    assert plain_yaml.write({"a": labels, "b": labels}) == "a:\n  app: web\nb:\n  app: web\n"


def test_keys_keep_their_order_and_lines_their_length() -> None:
    """As the author wrote them."""
    text = plain_yaml.write({"z": "word " * 60, "a": 1})

    assert text.splitlines()[1] == "a: 1"


def test_documents_know_their_number_and_line() -> None:
    """Empty ones count, comments before the first line of dashes do not."""
    documents = list(plain_yaml.parse_documents("# nothing\n---\na: 1\n---\n---\nb: 2\n"))

    assert [(document.value, document.number, document.line) for document in documents] == [
        ({"a": 1}, 1, 3),
        ({"b": 2}, 3, 6),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "line 3, column 1: the key 'a' stands here a second time, first in line 1"),
        pytest.param(
            "a: [1\nb: 2", "line 2, column 2: while parsing a flow sequence: did not find expected ',' or ']'"
        ),
        pytest.param("a: 1\n---\na: .inf", "line 3, column 4: .inf is no number in JSON"),
        pytest.param("? [1]\n: 2", "line 1, column 3: a key must be text"),
        pytest.param("a: &x [*x]", "line 1, column 4: found unconstructable recursive node"),
        pytest.param("a: !!set {b}", "line 1, column 4: could not determine a constructor for the tag "),
        pytest.param("a: !!binary gA==", "line 1, column 4: !!binary holds no text"),
        pytest.param("a: \x01", "control characters are not allowed"),
    ],
    ids=["twice", "open", "infinite", "no key", "endless", "unknown tag", "no text", "no character"],
)
def test_an_error_tells_where_it_is(text: str, message: str) -> None:
    """In one line, whoever found it."""
    found = find_error(text)

    assert message in found
    assert "\n" not in found
