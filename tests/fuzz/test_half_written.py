"""Half-written and damaged files: the language server answers requests on all of them, and a rename changes only the
name.
"""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from hearth.cli.language_server import completion, places
from hearth.cli.stack_access.schema_folder import FolderKinds
from support.units import fuzzing

KINDS: Final = FolderKinds(None)
STACK: Final = """apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: shop}
spec:
  parameters: &a {size: 1}
  template:
    parameters: {size: {type: integer}}
    conditions: {big: params.size > 1}
    resources:
      web:
        when: conditions.big
        manifest:
          apiVersion: v1
          kind: ConfigMap
          data: {a: "😀 ${params['size'] + \\"x\\"}", b: '${''a'' + web.metadata.name}', c: *a}
      pool:
        forEach: "[1]"
        dependsOn: [web]
        manifest:
          apiVersion: hearth.dev/v1alpha1
          kind: Stack
          spec:
            template: {parameters: {size: {}}, resources: {db: {manifest: {data: "${params.size}"}}}}
"""
PIECES: Final = st.sampled_from(
    [
        "${",
        "}",
        '"',
        "'",
        "\t",
        "\n",
        "\r\n",
        ": ",
        "- ",
        "{",
        "]",
        "&a ",
        "*a",
        "|\n",
        "#",
        "---\n",
        ".",
        "\\",
        "😀",
        "\x00",
    ]
)


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """The Stack, cut at some places and with some pieces inserted."""
    text = STACK
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + draw(PIECES) + text[end:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@fuzzing.QUICK
@given(damaged_texts(), st.data())
def test_each_place_has_an_answer(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))

    completion.complete(text, offset, KINDS)
    completion.describe(text, offset, KINDS)
    assert len({text[span.start : span.end] for span in places.find_references(text, offset)}) <= 1
    try:
        spans = places.rename(text, offset, "other")
    except places.Refusal:
        return
    assert len({text[span.start : span.end] for span in spans}) == 1
