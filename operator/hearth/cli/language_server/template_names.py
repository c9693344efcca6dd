"""Finds the templates in a file, and the places that define or use parameters, conditions, values and resources."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import yaml

from hearth.cli.language_server import outline
from hearth.cli.language_server.outline import Outline
from hearth.model import members, names, value_class, well_known_kinds
from hearth.template.cel import cel_environment, expressions
from hearth.template.text import interpolation

PARAMS, CONDITIONS, VALUES, RESOURCES = "params", "conditions", "values", "resources"
"""Categories of names. Expressions read parameters as fields of `params`, conditions and values likewise."""
CONSTANTS: Final = frozenset({PARAMS, CONDITIONS})
"""Categories whose names are fields in every template. `values` is one only in a template that has some."""
BARE_FIELDS: Final = ("forEach", "key", "when", "readyWhen", "failedWhen")
"""Fields of a resource that are expressions without `${}`."""
MEMBER: Final = re.compile(r"""\s*(?:\.\s*\??\s*|\[\s*\??\s*['"])(\w+)""")
"""The field that follows `params`, `conditions` or `values`."""
ENVIRONMENT_RULES: Final = ("breakpoints", "restrictedActions")
EXPRESSIONS_KEPT: Final = 1_000
TEXTS_KEPT: Final = 4
"""Number of cached texts: the files that a user edits at the same time."""


class Unreadable(Exception):
    """An expression that cannot be parsed."""


@functools.lru_cache(maxsize=EXPRESSIONS_KEPT)
def read_names(text: str) -> list[tuple[str, int]]:
    """Return the names that an expression reads with their positions. Raises Unreadable."""
    try:
        return expressions.list_offsets(text)
    except cel_environment.CelCompileError as error:
        raise Unreadable(str(error)) from error


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TemplateName:
    """A name of a template."""

    category: str
    text: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a text."""

    start: int
    end: int


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenExpression:
    """An expression in a file."""

    text: str
    offsets: Sequence[int]
    """By position in the expression, the offset in the file; the last one is the end."""
    constants: frozenset[str] = CONSTANTS
    """The categories whose names are fields."""

    def find_uses(self, name: TemplateName) -> list[Span]:
        """Find where it reads a name, as CEL does: not in texts, nor where a loop variable hides it. Raises Unreadable."""
        if name.text not in self.text:
            return []
        found = (self.find_name(root, at) for root, at in read_names(self.text))
        starts = sorted({at for each in found if each is not None and each[0] == name for at in (each[1],)})
        return [Span(start=self.offsets[at], end=self.offsets[at + len(name.text) - 1] + 1) for at in starts]

    def find_name(self, root: str, at: int) -> tuple[TemplateName, int] | None:
        """Return the name that an expression reads at a position, and where it is written."""
        if root not in self.constants:
            return (TemplateName(category=RESOURCES, text=root), at) if self.text.startswith(root, at) else None
        member = MEMBER.match(self.text, at + len(root))
        return (TemplateName(category=root, text=member[1]), member.start(1)) if member is not None else None

    def find_at(self, offset: int) -> tuple[TemplateName, Span] | None:
        """Return the name at an offset of the file; None if there is none, or if the expression cannot be parsed."""
        try:
            reads = read_names(self.text)
        except Unreadable:
            return None
        for found in (self.find_name(root, at) for root, at in reads):
            if found is not None:
                name, at = found
                span = Span(start=self.offsets[at], end=self.offsets[at + len(name.text) - 1] + 1)
                if span.start <= offset <= span.end:
                    return name, span
        return None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One template: its own names, and the expressions that may read them."""

    node: yaml.Node
    keys: dict[TemplateName, list[Span]]
    """Where the keys of each name are: the definition first, then the value of a parameter."""
    parameters: dict[str, yaml.Node]
    resources: dict[str, yaml.Node]
    list_expressions: Callable[[], tuple[WrittenExpression, ...]]
    """Finds the expressions on first use. Completion, which must be fastest, does not need them."""
    mentions: tuple[tuple[TemplateName, Span], ...]
    """Resources in `dependsOn` and in rules of the environment."""

    def find_plain_places(self, name: TemplateName) -> list[Span]:
        """Return the places of a name outside expressions, its definition first."""
        return [*self.keys[name], *(span for each, span in self.mentions if each == name)]

    def find_at(self, offset: int) -> tuple[TemplateName, Span] | None:
        """Return the name at an offset of the file, and where it begins and ends."""
        keys = ((name, span) for name, spans in self.keys.items() for span in spans)
        for name, span in (*keys, *self.mentions):
            if span.start <= offset <= span.end:
                return name, span
        within = (each for each in self.list_expressions() if each.offsets[0] <= offset <= each.offsets[-1])
        return next((found for each in within if (found := each.find_at(offset)) is not None), None)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedText:
    """The templates of a file, the outer ones first."""

    text: str
    outline: Outline
    templates: tuple[Template, ...]


@functools.lru_cache(maxsize=TEXTS_KEPT)
def analyze(text: str) -> AnalyzedText:
    """Find the templates in a text."""
    found = outline.read_outline(text)
    templates = [each for root in found.roots for each in find_templates(text, root)]
    return AnalyzedText(text=text, outline=found, templates=tuple(templates))


def find_templates(text: str, root: yaml.Node) -> Iterator[Template]:
    """Find the template of a document, and those that it nests."""
    kind = outline.read_text(outline.find_value(root, "kind"))
    if not is_of_hearth(root):
        return
    template, values = outline.find_value(root, "spec", "template"), outline.find_value(root, "spec", "parameters")
    if kind == names.GROUP_KIND and template is not None:
        # Its template is a resource, and each value is a parameter.
        yield make_template(text, root, values, {members.GROUP_MEMBER: template}, [])
    elif kind in (names.STACK, names.DEFINITION_KIND, well_known_kinds.STACK_TEMPLATE.name):
        yield from find_nested(text, template, root, [])


def find_nested(
    text: str, template: yaml.Node | None, owner: yaml.Node, rules: list[tuple[str, Span]]
) -> Iterator[Template]:
    """Yield a template and those that it nests. owner: the Stack; rules: of environments around it, with paths in it."""
    if template is None:
        return
    rules = [*rules, *find_rules(owner)]
    resources = dict(outline.list_entries(outline.find_value(template, "resources")))
    yield make_template(text, owner, outline.find_value(template, "parameters"), resources, rules)
    for name, resource in resources.items():
        manifest = outline.find_value(resource, "manifest")
        inner = find_inner_template(manifest)
        if manifest is not None and inner is not None:
            below = [(path.partition("/")[2], span) for path, span in rules if read_first(path) == name]
            yield from find_nested(text, inner, manifest, [move(*each) for each in below if each[0]])


def move(path: str, span: Span) -> tuple[str, Span]:
    """Return a path with its own span, at the end of the given one."""
    return path, Span(start=span.end - len(path), end=span.end)


def is_of_hearth(node: yaml.Node | None) -> bool:
    """Return whether a document or manifest has one of Hearth's own kinds."""
    return outline.read_text(outline.find_value(node, "apiVersion")).partition("/")[0] == names.GROUP


def find_inner_template(manifest: yaml.Node | None) -> yaml.Node | None:
    """Return the template of a nested Stack, whose expressions belong to that Stack."""
    is_stack = outline.read_text(outline.find_value(manifest, "kind")) == names.STACK and is_of_hearth(manifest)
    return outline.find_value(manifest, "spec", "template") if is_stack else None


def find_rules(owner: yaml.Node) -> Iterator[tuple[str, Span]]:
    """Yield the paths of resources in the environment of a Stack."""
    environment = outline.find_value(owner, "spec", "environment")
    for word in ENVIRONMENT_RULES:
        for rule in outline.list_items(outline.find_value(environment, word)):
            resource = outline.find_value(rule, "resource")
            if isinstance(resource, yaml.ScalarNode):
                yield resource.value, find_span(resource)


def read_first(path: str) -> str:
    """Return the resource that a path begins with: `cache` for `cache[a]/db`."""
    return members.root_of(path.partition("/")[0])


def make_template(
    text: str,
    owner: yaml.Node,
    parameters: yaml.Node | None,
    resources: dict[str, yaml.Node],
    rules: list[tuple[str, Span]],
) -> Template:
    """Return one template."""
    template = outline.find_value(owner, "spec", "template")
    places = (
        (PARAMS, parameters),
        (CONDITIONS, outline.find_value(template, "conditions")),
        (VALUES, outline.find_value(template, "values")),
        (RESOURCES, outline.find_value(template, "resources")),
        (PARAMS, outline.find_value(owner, "spec", "parameters")),
    )
    keys: dict[TemplateName, list[Span]] = {}
    for category, node in places:
        for key, _ in outline.list_pairs(node):
            spans = keys.setdefault(TemplateName(category=category, text=key.value), [])
            if find_span(key) not in spans:
                spans.append(find_span(key))
    mentioned = [*rules, *(each for resource in resources.values() for each in find_dependencies(resource))]
    mentions = [(read_first(path), span.start) for path, span in mentioned]
    return Template(
        node=template or owner,
        keys=keys,
        parameters=dict(outline.list_entries(parameters)),
        resources=resources,
        list_expressions=functools.cache(lambda: tuple(find_expressions(text, template, resources))),
        mentions=tuple(
            (TemplateName(category=RESOURCES, text=name), Span(start=start, end=start + len(name)))
            for name, start in mentions
            if name in resources
        ),
    )


def find_dependencies(resource: yaml.Node) -> Iterator[tuple[str, Span]]:
    """Yield the names in `dependsOn`."""
    for each in outline.list_items(outline.find_value(resource, "dependsOn")):
        if isinstance(each, yaml.ScalarNode):
            yield each.value, find_span(each)


def find_span(node: yaml.ScalarNode) -> Span:
    """Return where the text of a scalar is, without its quotes."""
    quote = 1 if node.style in ("'", '"') else 0
    return Span(start=node.start_mark.index + quote, end=node.end_mark.index - quote)


def find_expressions(
    text: str, template: yaml.Node | None, resources: dict[str, yaml.Node]
) -> Iterator[WrittenExpression]:
    """Yield the expressions of a template, without those of nested Stacks."""
    constants = find_constants(template)
    for each in find_written(text, template, resources):
        yield WrittenExpression(text=each.text, offsets=each.offsets, constants=constants)


def find_constants(template: yaml.Node | None) -> frozenset[str]:
    """Return the categories whose names expressions of a template read as fields."""
    has_values = any(True for _ in outline.list_pairs(outline.find_value(template, "values")))
    return CONSTANTS | {VALUES} if has_values else CONSTANTS


def find_written(text: str, template: yaml.Node | None, resources: dict[str, yaml.Node]) -> Iterator[WrittenExpression]:
    """Yield the expressions of a template in any order."""
    for resource in resources.values():
        for word, value in outline.list_entries(resource):
            if word in BARE_FIELDS:
                yield from read_bare(text, value)
            elif word in ("manifest", "externalRef"):
                yield from read_interpolated(text, value, without=find_inner_template(value))
    for section in ("conditions", "values"):
        yield from read_bare(text, outline.find_value(template, section))
    for _, output in outline.list_entries(outline.find_value(template, "outputs")):
        yield from read_bare(text, outline.find_value(output, "when"))
        yield from read_interpolated(text, outline.find_value(output, "value"))
    for _, condition in outline.list_entries(outline.find_value(template, "statusConditions")):
        yield from read_bare(text, outline.find_value(condition, "status"))
        for word in ("reason", "message"):
            yield from read_interpolated(text, outline.find_value(condition, word))


def read_bare(text: str, node: yaml.Node | None) -> Iterator[WrittenExpression]:
    """Yield the expressions in the scalars of a node, which are expressions as a whole."""
    for scalar in outline.list_scalars(node):
        written, offsets = outline.read_written(text, scalar)
        yield WrittenExpression(text=written, offsets=offsets)


def read_interpolated(
    text: str, node: yaml.Node | None, *, without: yaml.Node | None = None
) -> Iterator[WrittenExpression]:
    """Yield the expressions `${…}` in the scalars of a node."""
    for scalar in outline.list_scalars(node, without=without):
        if interpolation.OPENING in scalar.value:
            written, offsets = outline.read_written(text, scalar)
            for start, end in interpolation.find_spans(written):
                yield WrittenExpression(text=written[start:end], offsets=offsets[start : end + 1])
