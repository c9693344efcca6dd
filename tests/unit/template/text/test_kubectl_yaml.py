"""YAML as kubectl reads it, and attacks that fail. `integration/cli/test_import.py` runs kubectl on the same file of
scalars.
"""

from __future__ import annotations

import tracemalloc
import unicodedata
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies

from hearth.template.text import kubectl_yaml
from support import repository

SCALARS = repository.DATA / "scalars.yaml"

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
    | strategies.integers(kubectl_yaml.SMALLEST, kubectl_yaml.LARGEST)
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    max_leaves=12,
)
TREACHEROUS = (
    strategies.from_regex(kubectl_yaml.INTEGER)
    | strategies.from_regex(kubectl_yaml.FLOAT)
    | strategies.text(alphabet=" \n\t:-#'\"|>%@`${}[]ab01~yn.+", max_size=12)
)


def read_one(text: str) -> Any:
    (document,) = kubectl_yaml.parse_documents(text)
    return document.value


def with_types(values: dict[str, Any]) -> dict[str, tuple[type, Any]]:
    """`1`, `1.0` and `True` are equal to Python."""
    return {key: (type(value), value) for key, value in values.items()}


def find_error(text: str) -> str:
    with pytest.raises(yaml.YAMLError) as caught:
        list(kubectl_yaml.parse_documents(text))
    return kubectl_yaml.describe(caught.value)


def test_words_without_quotes_mean_what_kubectl_takes_them_for() -> None:
    found = read_one(SCALARS.read_text())["data"]

    assert with_types(EXPECTED) == with_types(found)


@hypothesis.given(JSON)
def test_all_that_is_written_is_read_back(value: Any) -> None:
    assert read_one(kubectl_yaml.write({"value": value})) == {"value": value}


@hypothesis.given(TREACHEROUS)
def test_text_stays_text(text: str) -> None:
    assert read_one(kubectl_yaml.write({"value": text})) == {"value": text}


@pytest.mark.parametrize(
    "text", ["22:22", "2024-01-01", "1e3", "0o644", "y", "=", "0644"], ids=lambda text: f"quotes {text}"
)
def test_text_is_quoted_where_any_reader_would_take_it_for_something_else(text: str) -> None:
    assert kubectl_yaml.write([text]) == f"- '{text}'\n"


def test_text_of_several_lines_is_written_as_a_block() -> None:
    assert kubectl_yaml.write({"script": "#!/bin/sh\nexit 0\n"}) == "script: |\n  #!/bin/sh\n  exit 0\n"


def test_what_occurs_twice_is_written_twice() -> None:
    labels = {"app": "web"}

    assert kubectl_yaml.write({"a": labels, "b": labels}) == "a:\n  app: web\nb:\n  app: web\n"


def test_keys_keep_their_order_and_lines_their_length() -> None:
    text = kubectl_yaml.write({"z": "word " * 60, "a": 1})

    assert text.splitlines()[1] == "a: 1"


def test_documents_know_their_number_and_line() -> None:
    documents = list(kubectl_yaml.parse_documents("# nothing\n---\na: 1\n---\n---\nb: 2\n"))

    assert [(document.value, document.number, document.line) for document in documents] == [
        ({"a": 1}, 1, 3),
        ({"b": 2}, 3, 6),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "line 3, column 1: the key 'a' is a duplicate, first used in line 1"),
        pytest.param(
            "a: [1\nb: 2", "line 2, column 2: while parsing a flow sequence: did not find expected ',' or ']'"
        ),
        pytest.param("a: 1\n---\na: .inf", "line 3, column 4: .inf is not a JSON number"),
        pytest.param("? [1]\n: 2", "line 1, column 3: a key must be text"),
        pytest.param(
            "a: &x [*x]", "line 1, column 8: the alias 'x' refers to a value that contains it; write the value out"
        ),
        pytest.param("a: !!set {b}", "line 1, column 4: could not determine a constructor for the tag "),
        pytest.param("a: !!binary gA==", "line 1, column 4: !!binary does not contain text"),
        pytest.param("a: \x01", "control characters are not allowed"),
    ],
    ids=["twice", "open", "infinite", "no key", "endless", "unknown tag", "no text", "no character"],
)
def test_an_error_tells_where_it_is(text: str, message: str) -> None:
    found = find_error(text)

    assert message in found
    assert "\n" not in found


def bomb(levels: int, *, width: int = 10, merge: bool = False) -> str:
    """Aliases of aliases: `width` to the power of `levels` values."""
    inner = "{k: v}" if merge else "[v, v, v, v, v, v, v, v, v, v]"
    lines = [f"a0: &a0 {inner}"]
    for level in range(1, levels + 1):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{aliases}]}}" if merge else f"[{aliases}]"))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(bomb(9), "holds more than 250000 values, aliases expanded", id="aliases"),
        pytest.param(bomb(9, merge=True), "holds more than 250000 values, aliases expanded", id="merges"),
        pytest.param(
            f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]",
            "line 2, column 81: holds more than 2097152 characters, aliases expanded",
            id="a long text again and again",
        ),
        pytest.param(
            "x" * (2 * 1024**2 + 1), "has 2097153 characters, but at most 2097152 are allowed", id="a long file"
        ),
        pytest.param("[" * 200_000, "line 1, column 101: is nested more than 100 levels deep", id="deep"),
        pytest.param(
            "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 50 + "*a" + "]" * 50,
            "line 2, column 54: is nested more than 100 levels deep",
            id="deep by an alias",
        ),
        pytest.param("- a\n" * 500_000, "line 250000, column 3: holds more than 250000 values", id="many"),
        pytest.param("a: 1\n%TAG !a! x\n" * 60_000, "more than 100 lines that start with %", id="directives"),
    ],
)
def test_more_than_the_bounds_is_refused_with_its_line(text: str, message: str) -> None:
    tracemalloc.start()
    try:
        found = find_error(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert message in found
    assert peak < 32 * 1024**2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1" * 309, 1.1111111111111112e308, id="largest float"),
        pytest.param("2" * 309, "2" * 309, id="no float"),
        pytest.param("1" * 4301, "1" * 4301, id="thousands of digits"),
        pytest.param("0x_", "0x_", id="no digits"),
        pytest.param("._", "._", id="a point"),
        pytest.param("0x" + "f" * 300, "0x" + "f" * 300, id="hexadecimal"),
        pytest.param("<<", "<<", id="merge mark"),
    ],
)
def test_what_only_looks_like_a_number_is_text(text: str, value: Any) -> None:
    assert read_one(f"[{text}]") == [value]


@pytest.mark.parametrize("text", ["!!bool tagsecret99", "!!int tagsecret99", "!!float tagsecret99", "!!binary ä"])
def test_a_text_that_is_not_what_its_tag_says_is_not_repeated(text: str) -> None:
    found = find_error(text)

    assert "tagsecret99" not in found
    assert found.startswith("line 1, column 1: ")


def test_merges_yield_to_what_is_stated_and_to_those_before() -> None:
    text = "a: &a {x: 1, w: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\nd: {z: 4, <<: *b}\ne: {<<: {q: 1}}"

    assert read_one(text) == {
        "a": {"x": 1, "w": 1},
        "b": {"x": 2, "z": 2},
        "c": {"x": 1, "z": 3, "w": 1},
        "d": {"x": 2, "z": 4},
        "e": {"q": 1},
    }


MISLEADING = "\u202e\u2066\u200b\u200d\u2028\u061c\u00ad\u115f\ufe0f\ufeff\x1b\x07\x85\x9b\U000e0041"
TEXTS = strategies.text(
    strategies.one_of(
        strategies.sampled_from(MISLEADING + " :#-'\"|\\\n\t"), strategies.characters(exclude_categories=["Cs"])
    ),
    max_size=12,
)


@hypothesis.given(value=strategies.dictionaries(TEXTS, strategies.one_of(TEXTS, strategies.lists(TEXTS)), max_size=3))
def test_what_is_written_reads_as_it_is(value: dict[str, Any]) -> None:
    written = kubectl_yaml.write(value)
    assert not [each for each in written if not each.isprintable() and each not in "\n\t" and not is_harmless(each)]
    assert not set(written) & set(MISLEADING)
    assert [each.value for each in kubectl_yaml.parse_documents(written)] == [value]


def is_harmless(character: str) -> bool:
    """Spaces of other scripts, private and unassigned characters are shown as escapes."""
    return unicodedata.category(character) in ("Zs", "Co", "Cn") or character in ARABIC_SIGNS


ARABIC_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
"""Visible formatting characters: they enclose the digits after them."""


def test_a_reversed_text_is_seen_as_such() -> None:
    assert kubectl_yaml.write({"a": "safe\u202eevil\nb"}) == 'a: "safe\\u202Eevil\\nb"\n'
    assert kubectl_yaml.write({"a\u200b": "Größe ✔ 名前"}) == '"a\\u200B": Größe ✔ 名前\n'


@pytest.mark.parametrize(
    "character", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\U000e0041"]
)
def test_what_is_written_shows_what_a_terminal_would_obey(character: str) -> None:
    written = kubectl_yaml.write({f"a{character}": f"b{character}c", "lines": f"one\n{character}two\n"})

    assert character not in written
    assert yaml.safe_load(written) == {f"a{character}": f"b{character}c", "lines": f"one\n{character}two\n"}


# ---------------------------------------------------------------- attacks: an object of Python, a call, a file

TAGS = (
    "!!python/object/apply:os.mkdir [{path}]",
    "!!python/object/apply:pathlib.Path.mkdir {{self: {path}}}",
    "!!python/object/new:subprocess.Popen [[mkdir, {path}]]",
    "!!python/name:os.mkdir ''",
    "!!python/module:antigravity ''",
    "!!python/object:hearth.model.kinds.Kind {{plural: x}}",
    "!<tag:yaml.org,2002:python/object/apply:os.mkdir> [{path}]",
    "!!python/tuple [1, 2]",
    "!include {path}",
    "!!set {{a: null}}",
    "!!omap [a: 1]",
    "!!timestamp 2024-01-01",
)


@pytest.mark.parametrize("text", TAGS)
def test_a_tag_makes_no_object_of_python(text: str, tmp_path: Path) -> None:
    target = tmp_path / "made"

    values = read(text.format(path=target))

    assert all(map(is_plain, values))
    assert not target.exists()


@hypothesis.given(
    tag=strategies.from_regex(r"[!a-z/:.]{1,20}", fullmatch=True), value=strategies.sampled_from(("[a]", "{a: b}", "1"))
)
def test_all_that_the_tag_the_values_are_those_of_json(tag: str, value: str) -> None:
    assert all(map(is_plain, read(f"!{tag} {value}")))


def read(text: str) -> list[object]:
    """The values of the documents; none if they are refused."""
    try:
        return [each.value for each in kubectl_yaml.parse_documents(text)]
    except yaml.YAMLError as error:
        assert kubectl_yaml.describe(error)  # noqa: PT017 -- both ends are right, each with a condition of its own
        return []


def is_plain(value: object) -> bool:
    """Whether a value is one of JSON's."""
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(each) for key, each in value.items())
    return all(map(is_plain, value)) if isinstance(value, list) else type(value) in (str, int, float, bool, type(None))
