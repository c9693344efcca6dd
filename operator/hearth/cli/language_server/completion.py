"""Completion and hover: the words that may follow at an offset in a text, or the description of a word.

An incomplete text gives fewer results, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml

from hearth.cli.language_server import outline, template_names
from hearth.cli.language_server.template_names import (
    BARE_FIELDS,
    CONDITIONS,
    PARAMS,
    RESOURCES,
    VALUES,
    AnalyzedText,
    Template,
    TemplateName,
)
from hearth.model import chunked_work, limits, value_class
from hearth.model.kinds import Kinds
from hearth.template.cel.expression_validator import ExpressionValidator
from hearth.template.cel.type_checker import TypeScope
from hearth.template.compiler.template_constants import Constants
from hearth.template.schema import parameters, shapes
from hearth.template.schema.shapes import Shape, Type
from hearth.template.text import error_hints, interpolation

MEMBER_NAMES: Final = {"item": "the element", "key": "the key of the element", "index": "the position of the element"}
"""Names within a resource with `forEach`."""
STACK_FIELDS: Final = ("name", "namespace", "uid")
CHAIN: Final = re.compile(r"(?<![\w.)\]}])((?:[A-Za-z_]\w*(?:\[[^\[\]]*\])?\s*\.\s*\??\s*)*)(\w*)$")
"""Matches the path that ends at the cursor, and the unfinished word."""
CHAIN_LENGTH: Final = 400
STEP: Final = re.compile(r"([A-Za-z_]\w*)|\[[^\[\]]*\]")
TEXT: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
"""A text within an expression."""
WORD_END: Final = re.compile(r"\w*")
ELEMENT: Final = "[]"
DEEPEST: Final = 12
"""Maximum depth of a parameter's rules that is described."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A word that can stand at the cursor."""

    label: str
    category: str
    """`params`, `conditions`, `values` or `resources` for a name of that category, otherwise `field`."""
    detail: str
    description: str = ""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The path of fields in front of the cursor: `web.spec.` and the unfinished word `repl`."""

    steps: tuple[str, ...]
    word: str
    resource: str | None
    """The resource that contains the expression."""
    template: Template


def complete(text: str, offset: int, kinds: Kinds) -> list[Candidate]:
    """Return the words that can stand at an offset within an expression, none elsewhere."""
    start, end = outline.find_line(text, offset)
    kept = outline.find_start(text[start:end]).rstrip()
    # The line being edited may not be valid YAML yet, and the other lines do not change meanwhile.
    analyzed = template_names.analyze(text[:start] + kept + text[end:])
    chain = find_chain(analyzed, text, offset, start + len(kept))
    if chain is None:
        return []
    if not chain.steps:
        return [each for each in list_names(chain) if each.label.startswith(chain.word)]
    shape = find_shape(chain.template, chain.steps, kinds)
    is_name = len(chain.steps) == 1 and chain.steps[0] in template_names.find_constants(chain.template.node)
    category = chain.steps[0] if is_name else "field"
    fields = shape.fields if shape is not None and shape.type is Type.OBJECT else {}
    return [
        Candidate(label=name, category=category, detail=field.type.value, description=field.description)
        for name, field in fields.items()
        if name.startswith(chain.word) and name.isidentifier()
    ]


def describe(text: str, offset: int, kinds: Kinds) -> str:
    """Return a description of the word at an offset, as Markdown; empty if it is not a name or field."""
    analyzed = template_names.analyze(text)
    for template in reversed(analyzed.templates):
        named = template.find_at(offset)
        if named is not None:
            return describe_name(template, named[0], kinds)
    end = WORD_END.match(text, offset)
    chain = find_chain(analyzed, text, end.end() if end is not None else offset, offset)
    if chain is None or not chain.word:
        return ""
    if not chain.steps:
        found = next((each for each in list_names(chain) if each.label == chain.word), None)
        return f"`{found.label}`: {found.detail}" if found is not None else ""
    shape = find_shape(chain.template, (*chain.steps, chain.word), kinds)
    if shape is None:
        return ""
    path = ".".join((*chain.steps, chain.word)).replace(f".{ELEMENT}", ELEMENT)
    return join_paragraphs(f"`{path}`: {shape.type.value} ({shape.name})", shape.description)


def describe_name(template: Template, name: TemplateName, kinds: Kinds) -> str:
    """Return a description of a parameter, condition, value or resource.

    It never contains the value of a sensitive parameter.
    """
    if name.category == RESOURCES:
        resource = template.resources.get(name.text)
        return f"resource `{name.text}`: {describe_resource(resource)}" if resource is not None else ""
    if name.category == CONDITIONS:
        return f"condition `{name.text}`" if name in template.keys else ""
    if name.category == VALUES:
        shape = find_shape(template, (VALUES, name.text), kinds)
        return f"value `{name.text}`: {shape.type.value}" if shape is not None else ""
    rules = template.parameters.get(name.text)
    if rules is None:
        return ""
    shape = find_shape(template, (PARAMS, name.text), kinds) or shapes.OPEN
    default = outline.read_text(outline.find_value(rules, "default"))
    is_sensitive = outline.read_text(outline.find_value(rules, "sensitive")) == "true"
    facts = f"parameter `{name.text}`: {shape.type.value}"
    if is_sensitive:
        facts += ", sensitive"
    elif default:
        facts += f", default {error_hints.quote(default)}"
    return join_paragraphs(facts, shape.description)


def join_paragraphs(*paragraphs: str) -> str:
    """Return paragraphs that are not empty as one text."""
    return "\n\n".join(each for each in paragraphs if each)


def describe_resource(resource: yaml.Node) -> str:
    """Return the kind of a resource: `Deployment (apps/v1)`."""
    manifest = find_manifest(resource)
    kind = outline.read_text(outline.find_value(manifest, "kind")) or "object"
    version = outline.read_text(outline.find_value(manifest, "apiVersion"))
    found = f"{kind} ({version})" if version else kind
    return f"list of {found}" if is_list(resource) else found


def list_names(chain: Chain) -> Iterator[Candidate]:
    """Yield the names that an expression can begin with."""
    template = chain.template
    yield Candidate(label=PARAMS, category="field", detail="parameters of the template")
    yield Candidate(label=CONDITIONS, category="field", detail="conditions of the template")
    if VALUES in template_names.find_constants(template.node):
        yield Candidate(label=VALUES, category="field", detail="values of the template")
    yield Candidate(label="stack", category="field", detail="name, namespace and uid of the Stack")
    for name, resource in template.resources.items():
        manifest = outline.read_text(outline.find_value(find_manifest(resource), "kind"))
        yield Candidate(label=name, category=RESOURCES, detail=manifest or "resource")
    if chain.resource is not None and outline.find_value(template.resources[chain.resource], "forEach") is not None:
        for name, detail in MEMBER_NAMES.items():
            yield Candidate(label=name, category="field", detail=detail)


def find_manifest(resource: yaml.Node) -> yaml.Node | None:
    """Return the manifest of a resource, or its reference to an external object."""
    return outline.find_value(resource, "manifest") or outline.find_value(resource, "externalRef")


def is_list(resource: yaml.Node) -> bool:
    """Return whether expressions read a list of objects under the name of a resource."""
    selector = outline.find_value(resource, "externalRef", "metadata", "selector")
    return outline.find_value(resource, "forEach") is not None or selector is not None


def find_shape(template: Template, steps: tuple[str, ...], kinds: Kinds) -> Shape | None:
    """Return the shape at the end of a path; None if the path has no such field."""
    root, *rest = steps
    if root in template.resources and is_list(template.resources[root]):
        if rest[:1] != [ELEMENT]:
            return None
        rest = rest[1:]
    shape = find_root(template, root, kinds)
    for step in rest:
        if shape is None:
            return None
        if step == ELEMENT:
            shape = shape.element
        else:
            shape = shape.fields.get(step) if shape.type is Type.OBJECT else shape.find_entry(step)
    return shape


def find_root(template: Template, root: str, kinds: Kinds) -> Shape | None:
    """Return the shape of a name."""
    if root == PARAMS:
        return parameters.find_shape({name: read_rules(rules) for name, rules in template.parameters.items()})
    if root in (CONDITIONS, VALUES) and (root == CONDITIONS or root in template_names.find_constants(template.node)):
        return find_constant_shapes(template)[root]
    if root == "stack":
        return shapes.make_closed({name: {"type": "string"} for name in STACK_FIELDS}, name="stack")
    resource = template.resources.get(root)
    if resource is None:
        return None
    manifest = find_manifest(resource)
    version, kind = (outline.read_text(outline.find_value(manifest, word)) for word in ("apiVersion", "kind"))
    return shapes.find_shape(kinds, kinds.find(version, kind))


def find_constant_shapes(template: Template) -> dict[str, Shape]:
    """Return the shapes of `conditions` and `values`, with the types of values that can be found."""
    params = parameters.find_shape({name: read_rules(rules) for name, rules in template.parameters.items()})
    stated = {
        section: {
            key: outline.read_text(value)
            for key, value in outline.list_entries(outline.find_value(template.node, section))
        }
        for section in (CONDITIONS, VALUES)
    }
    constants = Constants("", stated)
    scope = TypeScope({PARAMS: params, **constants.find_shapes()})
    chunked_work.finish(constants.examine(ExpressionValidator(scope=scope, constants=constants.roots)))
    return constants.find_shapes()


def read_rules(node: yaml.Node, depth: int = 0) -> dict[str, object]:
    """Return the part of a parameter's rules that describes its type."""
    found: dict[str, object] = {}
    for word, value in outline.list_entries(node):
        if word in ("type", "description"):
            found[word] = outline.read_text(value)
        elif word in ("items", "additionalProperties") and depth < DEEPEST:
            found[word] = read_rules(value, depth + 1)
        elif word == "properties" and depth < DEEPEST:
            found[word] = {name: read_rules(inner, depth + 1) for name, inner in outline.list_entries(value)}
    return found


def find_chain(analyzed: AnalyzedText, text: str, offset: int, place: int) -> Chain | None:
    """Return the path in front of an offset; None outside of expressions.

    place: the offset in the text that was analyzed, which may lack the rest of the line.
    """
    template, keys = find_place(analyzed, place)
    if template is None:
        return None
    written = read_interpolation(text, offset)
    if written is None and is_bare(keys):
        start, _ = outline.find_line(text, offset)
        written = text[start:offset].removeprefix(outline.find_start(text[start:offset])).lstrip(" '\"")
    masked = TEXT.sub(lambda found: "_" * len(found[0]), (written or "")[-CHAIN_LENGTH:])
    found = CHAIN.search(masked)
    if written is None or found is None or "'" in masked or '"' in masked:
        return None
    steps = tuple(step[1] or ELEMENT for step in STEP.finditer(found[1]))
    resource = keys[1] if keys[0] == RESOURCES and keys[1:] and keys[1] in template.resources else None
    return Chain(steps=steps, word=found[2], resource=resource, template=template)


def read_interpolation(text: str, offset: int) -> str | None:
    """Return the expression `${…` up to an offset; None if no expression is open there."""
    before = text[max(0, offset - limits.EXPRESSION_LENGTH) : offset]
    mark = before.rfind(interpolation.OPENING)
    if mark < 0 or before[mark - 1 : mark] == "$":
        return None
    # In double quotes, YAML escapes the quotes of the expression.
    written = before[mark + len(interpolation.OPENING) :].replace('\\"', ' "')
    is_ended = any(outline.find_start(line).rstrip() for line in written.splitlines()[1:])
    if is_ended or any(True for _ in interpolation.find_spans(interpolation.OPENING + written)):
        return None
    return written


def find_place(analyzed: AnalyzedText, offset: int) -> tuple[Template | None, list[str]]:
    """Return the innermost template around an offset, and the keys in it to that place."""
    for template in reversed(analyzed.templates):
        keys = find_keys(template.node, offset)
        if keys:
            return template, keys
    return None, []


def find_keys(node: yaml.Node, offset: int) -> list[str]:
    """Return the keys around an offset, the outermost first; none if it is not in the node."""
    if not node.start_mark.index <= offset <= node.end_mark.index:
        return []
    keys: list[str] = []
    place: yaml.Node | None = node
    while place is not None:
        inner = None
        for key, value in outline.list_pairs(place):
            if key.start_mark.index <= offset:
                inner = key.value, value
        if inner is not None:
            keys.append(inner[0])
            place = inner[1]
        else:
            place = next(
                (each for each in reversed(outline.list_items(place)) if each.start_mark.index <= offset), None
            )
    return keys


def is_bare(keys: list[str]) -> bool:
    """Return whether the field at the end of a path is an expression without `${}`."""
    match keys:
        case ["resources", _, field]:
            return field in BARE_FIELDS
        case ["outputs", _, "when"] | ["conditions" | "values", _] | ["statusConditions", _, "status"]:
            return True
    return False
