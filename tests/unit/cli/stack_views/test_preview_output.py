"""A preview as text, Markdown and JSON. Hostile values cannot control a terminal or change the format."""

from __future__ import annotations

import json

import pytest

from hearth.cli.stack_access.stack_previews import DefinitionPreview
from hearth.cli.stack_commands.files import diff_command
from hearth.cli.stack_views import preview_output
from hearth.cli.stack_views.files import stack_files
from hearth.model.errors import Mistake
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.ownership.field_changes import ABSENT, FieldChange
from hearth.plan.resource import reversal
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.preview.changes import Action, Change, Preview
from hearth.template.instances.instance_form import InstanceForm


def ref(name: str, kind: str = "ConfigMap") -> ObjectRef:
    """An object of the Stack."""
    return ObjectRef(group="", kind=kind, namespace="prod", name=name)


CHANGES = (
    Change(
        action=Action.UPDATE,
        resource="web",
        ref=ref("shop-web"),
        fields=(
            FieldChange(path=("spec", "ports", "[name=web]", "port"), old=80, new=8080),
            FieldChange(path=("metadata", "labels", "example.org/tier"), old=ABSENT, new="front"),
            FieldChange(path=("spec", "note"), old="x", new=ABSENT),
        ),
    ),
    Change(action=Action.CREATE, resource="more", ref=ref("shop-more")),
    Change(
        action=Action.REPLACE,
        resource="job",
        ref=ref("shop-job-2", "Job"),
        old_ref=ref("shop-job", "Job"),
        reason="spec.template cannot be changed in place",
    ),
    Change(action=Action.UPDATE, resource="late", ref=ref("shop-late"), is_uncertain=True),
    Change(action=Action.DELETE, resource="old", ref=ref("shop-old"), unchecked="you may not"),
    Change(action=Action.STOP, resource="db", ref=ref("shop-db"), hook="PreUpdate", reason="is stopped"),
)


def make(*changes: Change, **more: object) -> Preview:
    """A preview of stack/shop in prod."""
    stated = {"kind": "Stack", "namespace": "prod", "name": "shop", "is_new": False, "revision": 2, **more}
    return Preview(changes=changes, **stated)  # type: ignore[arg-type]  # a test states some fields only


def write(preview: Preview) -> str:
    """The text without colors."""
    return "\n".join("".join(text for text, _ in line) for line in preview_output.list_lines(preview))


def test_the_text_has_a_line_for_each_resource_and_field() -> None:
    assert write(make(*CHANGES)).split("\n") == [
        "stack/shop in prod: to revision 2",
        "~ change      web (configmap/shop-web)",
        "    - spec.ports[name=web].port: 80",
        "    + spec.ports[name=web].port: 8080",
        '    + metadata.labels["example.org/tier"]: front',
        "    - spec.note: x",
        "+ create      more (configmap/shop-more)",
        "± replace     job (job/shop-job → job/shop-job-2): spec.template cannot be changed in place",
        "~ may change  late (configmap/shop-late)",
        "- delete      old (configmap/shop-old)",
        "    not checked by the API server: you may not",
        "! stop        db/PreUpdate (configmap/shop-db): is stopped",
        "1 created, 1 changed, 1 perhaps changed, 1 replaced, 1 deleted, 1 stopped",
    ]


CLAIM = Undo(grade=UndoGrade.ONE_WAY, field="spec.resources.requests.storage", reason="a claim never shrinks")
SERVICE = Undo(grade=UndoGrade.RECREATES, lost=("its cluster IP", "its node port"))
GRADED = (
    Change(action=Action.UPDATE, resource="data", ref=ref("shop-data"), undo=CLAIM),
    Change(action=Action.DELETE, resource="web", ref=ref("shop-web"), undo=SERVICE),
    Change(action=Action.CREATE, resource="more", ref=ref("shop-more"), undo=reversal.COMPLETE),
)


def test_a_change_says_what_its_way_back_loses_and_the_last_line_the_worst() -> None:
    assert write(make(*GRADED)).split("\n")[1:] == [
        "~ change      data (configmap/shop-data)",
        "    undo: one-way (spec.resources.requests.storage): a claim never shrinks",
        "- delete      web (configmap/shop-web)",
        "    undo: recreates; lost: its cluster IP, its node port",
        "+ create      more (configmap/shop-more)",
        "1 created, 1 changed, 1 deleted; can be undone: not completely (one-way)",
    ]


def test_a_reversible_change_says_what_it_leaves() -> None:
    change = Change(action=Action.CREATE, resource="db", ref=ref("shop-db"), undo=reversal.CLAIMS_STAY)
    assert write(make(change)).split("\n")[2:] == [
        "    undo: reversible; claims that its controller creates meanwhile stay, unused",
        "1 created; can be undone: yes (reversible)",
    ]


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        pytest.param(GRADED[2:], "1 created; can be undone: yes (reversible)", id="reversible"),
        pytest.param(GRADED[1:], "1 created, 1 deleted; can be undone: with new objects (recreates)", id="recreates"),
        pytest.param(
            (GRADED[2], CHANGES[5]), "1 created, 1 stopped; can be undone: yes (reversible), as far as is known", id="stopped"
        ),
        pytest.param((CHANGES[5],), "1 stopped", id="nothing-is-graded"),
    ],
)  # fmt: skip
def test_the_last_line_says_how_all_of_it_is_undone(changes: tuple[Change, ...], summary: str) -> None:
    assert write(make(*changes)).split("\n")[-1] == summary
    assert f"**{summary}**" in preview_output.write_markdown(make(*changes))


def test_a_nested_stack_counts_for_the_outer_one() -> None:
    outer = make(GRADED[2], nested=(make(GRADED[0]),))
    assert "1 created; can be undone: not completely (one-way)" in write(outer)
    assert preview_output.to_output(outer)["undo"] == "one-way"


def test_json_grades_each_change() -> None:
    written = preview_output.to_output(make(*GRADED))
    assert [each["undo"] for each in written["changes"]] == [
        {"grade": "one-way", "field": "spec.resources.requests.storage", "reason": "a claim never shrinks"},
        {"grade": "recreates", "lost": ["its cluster IP", "its node port"]},
        {"grade": "reversible"},
    ]


def test_old_and_new_values_have_the_colors_of_kubectl_diff() -> None:
    styles = [
        style for line in preview_output.list_change(CHANGES[0]) for text, style in line if text.startswith("    ")
    ]
    assert styles == ["red", "green", "green", "red"]


def test_no_change_is_said() -> None:
    assert write(make()).split("\n")[-1] == "no change"


def test_a_refused_definition_shows_every_mistake() -> None:
    mistakes = tuple(Mistake(path=f"spec.template.resources.{name}", message="is wrong") for name in "ab")
    text = write(make(rejection="is refused", mistakes=mistakes))
    assert text.split("\n")[1:] == [f"x {mistake}" for mistake in mistakes]


@pytest.mark.parametrize("value", ["\x1b[31mred", "a\nb", "x" * 5_000, "\u202eevil"])
def test_hostile_values_stay_on_their_line(value: str) -> None:
    change = Change(
        action=Action.UPDATE, resource="a", ref=ref("a"), fields=(FieldChange(path=("data", "v"), old="", new=value),)
    )
    lines = write(make(change)).split("\n")
    assert len(lines) == 5
    assert all(len(line) < 300 and line.isprintable() for line in lines)


def test_markdown_is_one_block_that_no_value_ends() -> None:
    hostile = FieldChange(path=("data", "v"), old="x", new="``` <script> ````")
    change = Change(action=Action.UPDATE, resource="a", ref=ref("a"), fields=(hostile,))
    lines = preview_output.write_markdown(make(change, CHANGES[1], notes=("<b>note</b>",))).split("\n")
    assert lines[0] == "### stack/shop in prod: to revision 2"
    assert lines[2] == "**1 created, 1 changed**"
    assert lines[4:10] == [
        "`````diff",
        "! change      a (configmap/a)",
        "-   - data.v: x",
        "+   + data.v: ``` <script> ````",
        "+ create      more (configmap/shop-more)",
        "`````",
    ]
    assert lines[-1] == "- \\<b\\>note\\</b\\>"


def test_json_has_all_of_it() -> None:
    written = preview_output.to_output(make(*CHANGES))
    assert written["changed"] is True
    assert written["changes"][0]["fields"][1] == {"path": 'metadata.labels["example.org/tier"]', "new": "front"}
    assert written["changes"][3]["uncertain"] is True
    assert written["changes"][5]["breakpoint"] == "PreUpdate"
    assert "reason" not in written["changes"][1]


def test_a_secret_in_a_file_counts_as_the_api_server_stores_it() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "x"}, "data": {"b": "eQ=="}}
    assert stack_files.encode_secret(secret)["data"] == {"a": "eA==", "b": "eQ=="}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("5", 5, id="a text and a number"),
        pytest.param("true", True, id="a text and a truth value"),
        pytest.param("null", None, id="a text and null"),
        pytest.param("a b", "a\u00a0b", id="another blank"),
        pytest.param("a b", "a  b", id="two blanks"),
        pytest.param("a\tb", "a b", id="a tab"),
        pytest.param("a\nb", "a\r\nb", id="another end of a line"),
        pytest.param("x" * 500 + "a", "x" * 500 + "b", id="the end of a long text"),
        pytest.param("x" * 500, "x" * 500 + "\n", id="one character more"),
        pytest.param({}, [], id="empty values"),
    ],
)
def test_the_lines_of_a_change_differ(old: object, new: object) -> None:
    first, second = (
        line[0][0][6:] for line in preview_output.list_field(FieldChange(path=("spec", "a"), old=old, new=new))
    )
    assert first != second


def test_the_preview_of_a_definition_says_which_defaults_no_longer_keep_objects() -> None:
    lines = preview_output.list_of_definition("webapps", [], pinned=0, notes=["spec.defaults.protected: was true"])
    texts = ["".join(text for text, _ in line) for line in lines]
    assert texts[1] == "note: spec.defaults.protected: was true"


def test_each_format_of_the_preview_of_a_definition_has_all_notes(capsys: pytest.CaptureFixture[str]) -> None:
    kind = Kind(group="platform.example", version="v1", name="WebApp", plural="webapps", namespaced=True)
    form = InstanceForm(definition="webapps.platform.example", number=2, packed_template=b"{}")
    made = DefinitionPreview(
        name="webapps.platform.example",
        kind=kind,
        form=form,
        unfit=("b/shop: spec.title: too long",),
        pinned=3,
        lost_guards=("spec.defaults.protected: was true",),
    )

    printed = {}
    for output in ("text", "markdown", "json"):
        writer = diff_command.PreviewWriter(output)
        writer.write_definition(made)
        writer.finish()
        printed[output] = capsys.readouterr().out

    for output in ("text", "markdown"):
        for said in ("spec.title: too long", "3 stay at their revision", "spec.defaults.protected: was true"):
            assert said in printed[output], output
    (definition,) = json.loads(printed["json"])
    assert definition == {
        "kind": "StackDefinition",
        "name": "webapps.platform.example",
        "changed": True,
        "changes": [],
        "notes": ["spec.defaults.protected: was true"],
        "pinned": 3,
        "unfit": ["b/shop: spec.title: too long"],
    }


def test_json_of_definitions_and_other_objects_is_one_array(capsys: pytest.CaptureFixture[str]) -> None:
    kind = Kind(group="platform.example", version="v1", name="WebApp", plural="webapps", namespaced=True)
    form = InstanceForm(definition="webapps.platform.example", number=2, packed_template=b"{}")
    preview = make()
    definition = DefinitionPreview(name="webapps.platform.example", kind=kind, form=form, previews=(preview,))
    writer = diff_command.PreviewWriter("json")

    writer.write_refusal("pages.platform.example", [Mistake(path="spec.template", message="no")])
    writer.write_definition(definition)
    writer.write([preview])
    writer.write([])
    writer.finish()

    entries = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["name"]) for each in entries] == [
        ("StackDefinition", "pages.platform.example"),
        ("StackDefinition", "webapps.platform.example"),
        ("Stack", "shop"),
        ("Stack", "shop"),
    ]


def test_the_mistakes_of_a_definition_are_available_to_programs() -> None:
    refused = preview_output.write_refusal("webapps.platform.example", [Mistake(path="spec.template", message="no")])
    assert refused["mistakes"] == [{"path": "spec.template", "message": "no"}]
