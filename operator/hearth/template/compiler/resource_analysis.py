"""Validates one resource of a template: its kind, the names that it uses, and its mistakes.

Only `apiVersion` and `kind` are evaluated here, because the other checks need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import chunked_work, limits, names, object_fields
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.kinds import Kind, Kinds, make_key
from hearth.template.blueprint import Replacement
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.compiler import collection_analysis, template_conditions
from hearth.template.compiler.collection_analysis import AnalyzedCollection, Element
from hearth.template.compiler.manifest_template import InterpolatedString, Keys, ParsedManifest
from hearth.template.compiler.template_conditions import ConditionValue
from hearth.template.parser import template_kinds
from hearth.template.parser.template_parser import ConditionSource, OutputSource, ResourceSource
from hearth.template.schema import literal_validator, shapes
from hearth.template.schema.shapes import Shape, Type
from hearth.template.text import error_hints, interpolation

IDENTITY = (("apiVersion",), ("kind",))
IDENTITY_NAMES = AllowedNames(
    names=frozenset({"params"}),
    reads_constants=False,
    rule="apiVersion and kind may use only params, because the kind must be known before the apply",
)

REFERENCE_NAMES = AllowedNames(
    names=frozenset({"stack"}),
    rule="externalRef may use only params, conditions, values and stack, because the object to read must be known "
    "beforehand",
)
OWN_RULE = "readyWhen of an external object may use only that object, params, conditions, values and stack"

EVENT = "Event reports what happened, and the API server deletes it within hours; remove the resource"
REFUSED = {
    ("apps", "ControllerRevision"): "ControllerRevision stores revisions of Stacks; remove the resource",
    (names.GROUP, "StackPlan"): "StackPlan is created by the operator for people who approve it; remove the resource",
    ("", "Event"): EVENT,
    ("events.k8s.io", "Event"): EVENT,
}
"""Kinds that no resource may have, by group and kind, with the reason."""
STATEFUL_SET = ("apps", "StatefulSet")


@dataclass(slots=True, kw_only=True)
class AnalyzedDocument:
    """A validated value with expressions."""

    parsed: ParsedManifest
    expressions: dict[Keys, list[str | ValidExpression]] = field(default_factory=dict)
    """Parsed parts of each string that contains expressions, by path."""
    when: ConditionValue | None = None

    @property
    def is_sound(self) -> bool:
        """Return whether neither the value nor an expression in it contains an error."""
        return not self.parsed.mistakes and all(mark.keys in self.expressions for mark in self.parsed.strings)

    def find_within(self, text: InterpolatedString) -> list[ValidExpression]:
        """Return the expressions of one string."""
        return [piece for piece in self.expressions.get(text.keys, ()) if isinstance(piece, ValidExpression)]

    def list_within(self) -> Iterator[ValidExpression]:
        """Return the expressions of all strings."""
        return (piece for pieces in self.expressions.values() for piece in pieces if isinstance(piece, ValidExpression))


@dataclass(slots=True, kw_only=True)
class AnalyzedOutput(AnalyzedDocument):
    """A validated output."""

    name: str
    path: str


@dataclass(slots=True, kw_only=True)
class AnalyzedValues:
    """The validated parts of a template that are for the status."""

    outputs: list[AnalyzedOutput] = field(default_factory=list)
    conditions: dict[str, dict[str, AnalyzedOutput]] = field(default_factory=dict)
    """By type: the fields of each condition."""


@dataclass(slots=True, kw_only=True)
class AnalyzedResource(AnalyzedDocument):
    """A validated resource."""

    source: ResourceSource
    api_version: str
    """"" while it is not known, like `kind`."""
    kind: str
    served: Kind | None
    shape: Shape
    lists: Shape
    """The shape that shows which lists have keys, even for a kind without a known schema."""
    ready_when: list[tuple[ValidExpression, str]] = field(default_factory=list)
    failed_when: list[tuple[ValidExpression, str]] = field(default_factory=list)
    collection: AnalyzedCollection | None = None
    """None for a resource with one object."""
    elements: list[Element] | None = None
    """The elements of a collection, once they are known."""

    @property
    def group(self) -> str:
        """Return the API group of its kind."""
        return self.api_version.rpartition("/")[0]

    @property
    def is_stack(self) -> bool:
        """Return whether it is a nested Stack or ResourceGroup."""
        return names.is_stack(self.group, self.kind)

    @property
    def may_repeat(self) -> bool:
        """Return whether an expression can make an element of a list repeat another one."""
        return any(
            literal_validator.may_repeat(self.lists, mark.keys, is_whole=mark.is_whole) for mark in self.parsed.strings
        )

    def count_expressions(self) -> int:
        """Return how many expressions each member of the collection has."""
        return sum(1 for _ in self.find_expressions())

    def find_expressions(self) -> Iterator[ValidExpression]:
        """Return the expressions of its manifest, key and tests."""
        yield from self.list_within()
        yield from (expression for expression, _ in (*self.ready_when, *self.failed_when))
        if self.collection is not None and self.collection.key is not None:
            yield self.collection.key

    def find_used(self) -> set[str]:
        """Find every name that it uses: its manifest, possibly including itself, its `forEach`, and its tests."""
        tests = (*self.ready_when, *self.failed_when)
        tested = {root for expression, _ in tests for root in expression.parsed.roots} - {self.source.name}
        for_each = self.collection.for_each if self.collection is not None else None
        expanded = for_each.parsed.roots if for_each is not None else ()
        return {*(root for expression in self.list_within() for root in expression.parsed.roots), *tested, *expanded}


def identify(source: ResourceSource, *, kinds: Kinds, params: Mapping[str, Any]) -> AnalyzedResource:
    """Create an AnalyzedResource with its kind, if it can be determined."""
    stated = source.manifest
    api_version, kind = (template_kinds.read_word(stated.get(word), dict(params)) for word in ("apiVersion", "kind"))
    served = kinds.find(api_version, kind) if api_version and kind else None
    is_own = api_version.rpartition("/")[0] == names.GROUP
    # The template within a kind of Hearth belongs to the inner Stack, including its expressions.
    opaque: Keys | None = ("spec", "template") if is_own else None
    shape = shapes.find_shape(kinds, served)
    return AnalyzedResource(
        source=source,
        api_version=api_version,
        kind=kind,
        served=served,
        shape=shape,
        lists=literal_validator.find_list_shape(shape, api_version, kind),
        parsed=ParsedManifest(stated, path=find_manifest_path(source), opaque=opaque),
    )


def find_manifest_path(source: ResourceSource) -> str:
    """Return the path of the manifest, or of the reference to an external object."""
    return f"{source.path}.{'manifest' if source.external is None else 'externalRef'}"


def examine(analyzed: AnalyzedResource, validator: ExpressionValidator, allowed: AllowedNames) -> ChunkedWork[None]:
    """Validate a resource except its dependencies on others."""
    path = find_manifest_path(analyzed.source)
    validator.mistakes += analyzed.parsed.mistakes
    if (refusal := REFUSED.get((analyzed.group, analyzed.kind))) is not None and analyzed.api_version:
        validator.note(f"{path}.kind", refusal)
    if analyzed.source.external is not None:
        yield from examine_external(analyzed, validator, path)
        return
    examine_literals(analyzed, validator, path)
    if analyzed.parsed.may_be_masked:
        validator.mistakes += literal_validator.find_masked(analyzed.source.manifest, path=path)
    if analyzed.served is not None and not analyzed.served.namespaced:
        examine_scope(analyzed, validator, path)
    examine_replacement(analyzed, validator)
    examine_name(analyzed, validator, path)
    source, outer = analyzed.source, validator.scope
    if source.is_collection:
        analyzed.collection = collection_analysis.examine(source, validator)
        validator.scope = collection_analysis.derive_scope(analyzed.collection, validator.scope)
        allowed = AllowedNames(names=validator.scope.types, rule=allowed.rule)
    analyzed.expressions = yield from validate_strings(analyzed.parsed, analyzed.shape, validator, allowed)
    if source.is_collection:
        # In its own rules, its name is the member.
        validator.scope = validator.scope.derive({source.name: outer.objects[source.name]})
    analyzed.ready_when = examine_tests(source.ready_when, validator, allowed)
    analyzed.failed_when = examine_tests(source.failed_when, validator, allowed)
    if source.when is not None:
        when_allowed = collection_analysis.WHEN if source.is_collection else template_conditions.ALLOWED
        path = f"{source.path}.when"
        analyzed.when = template_conditions.examine(source.when, validator, path=path, allowed=when_allowed)
    validator.scope = outer


def examine_external(analyzed: AnalyzedResource, validator: ExpressionValidator, path: str) -> ChunkedWork[None]:
    """Validate a resource that the Stack only reads. path: of the reference."""
    source = analyzed.source
    if analyzed.served is not None and not analyzed.served.namespaced:
        examine_scope(analyzed, validator, path)
    analyzed.expressions = yield from validate_strings(analyzed.parsed, shapes.OPEN, validator, REFERENCE_NAMES)
    own = AllowedNames(names={*REFERENCE_NAMES.names, source.name}, rule=OWN_RULE)
    analyzed.ready_when = examine_tests(source.ready_when, validator, own)
    if source.when is not None:
        analyzed.when = template_conditions.examine(
            source.when, validator, path=f"{source.path}.when", allowed=template_conditions.ALLOWED
        )


def examine_literals(analyzed: AnalyzedResource, validator: ExpressionValidator, path: str) -> None:
    """Validate the literals against the schema of the kind."""
    stated = analyzed.source.manifest
    # These fields were already validated without a schema, with more specific messages.
    compared = {word: value for word, value in stated.items() if word not in ("apiVersion", "kind", "status")}
    if not isinstance(compared.get("metadata"), dict):
        compared.pop("metadata", None)
    found = list(literal_validator.check(compared, analyzed.shape, path=path, effort=validator.effort))
    found += find_repeated(stated, analyzed, path=path)
    if found:
        known = {mistake.path for mistake in validator.mistakes}
        validator.mistakes += [mistake for mistake in found if mistake.path not in known]


def examine_replacement(analyzed: AnalyzedResource, validator: ExpressionValidator) -> None:
    """Check that only a StatefulSet is replaced with its claims kept."""
    is_set = (analyzed.group, analyzed.kind) == STATEFUL_SET
    if analyzed.source.replacement is Replacement.KEEP_CLAIMS and analyzed.kind and not is_set:
        message = f"KeepClaims is for a StatefulSet, and this is a {analyzed.kind}; write another policy, or remove it"
        validator.note(f"{analyzed.source.path}.updatePolicy.replace", message)


def examine_name(analyzed: AnalyzedResource, validator: ExpressionValidator, path: str) -> None:
    """Check that a name in a manifest is not longer than the API server accepts for the kind."""
    name = object_fields.text(analyzed.source.manifest, "metadata", "name")
    longest = names.STRICT_LENGTHS.get(make_key(analyzed.group, analyzed.kind))
    if longest is not None and "${" not in name and len(name) > longest:
        message = f"has {len(name)} characters, and a {analyzed.kind} may have {longest}; shorten it"
        validator.note(f"{path}.metadata.name", message)


def find_repeated(stated: Mapping[str, Any], analyzed: AnalyzedResource, *, path: str) -> Iterator[Mistake]:
    """Find the elements of lists that repeat others; also in the manifests of a nested template."""
    for below, message in literal_validator.find_repeated(stated, analyzed.lists):
        yield Mistake(path=path + below, message=message)
    if analyzed.is_stack:
        yield from find_repeated_within(stated, path=path)


def find_repeated_within(manifest: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the repeated elements in the manifests within a Stack or ResourceGroup, of Kubernetes' own kinds."""
    template = object_fields.find(manifest, "spec", "template")
    if not isinstance(template, dict):
        return
    resources = template.get("resources")
    inner: Mapping[str, Any] = {"": template}
    if isinstance(resources, dict):
        inner = {f".resources{error_hints.write_key(str(name))}": each for name, each in resources.items()}
    for where, resource in inner.items():
        nested = object_fields.find(resource, "manifest")
        if not isinstance(nested, dict):
            continue
        place = f"{path}.spec.template{where}.manifest"
        built_in = literal_validator.find_built_in(f"{nested.get('apiVersion')}/{nested.get('kind')}")
        for below, message in literal_validator.find_repeated(nested, built_in):
            yield Mistake(path=place + below, message=message)
        if str(nested.get("apiVersion")).rpartition("/")[0] == names.GROUP:
            yield from find_repeated_within(nested, path=place)


def examine_scope(analyzed: AnalyzedResource, validator: ExpressionValidator, path: str) -> None:
    """Check that a cluster-scoped kind has no namespace."""
    if object_fields.find(analyzed.source.manifest, "metadata", "namespace") is not None:
        message = f"{analyzed.kind} is cluster-scoped and has no namespace; remove it"
        validator.note(f"{path}.metadata.namespace", message)
    if analyzed.source.external is not None and analyzed.source.external.is_in_all_namespaces:
        message = f"{analyzed.kind} is cluster-scoped, so the list contains all objects; remove it"
        validator.note(f"{path}.metadata.allNamespaces", message)


def validate_strings(
    parsed: ParsedManifest, shape: Shape, validator: ExpressionValidator, allowed_names: AllowedNames
) -> ChunkedWork[dict[Keys, list[str | ValidExpression]]]:
    """Return by path the pieces of every string with expressions that contains no error."""
    found: dict[Keys, list[str | ValidExpression]] = {}
    for number, mark in enumerate(parsed.strings, start=1):
        if number % chunked_work.MARKS_IN_A_PIECE == 0 or len(mark.parts) > chunked_work.MARKS_IN_A_PIECE:
            yield
        if len(validator.mistakes) > limits.MISTAKES:
            break
        allowed = IDENTITY_NAMES if mark.keys in IDENTITY else allowed_names
        pieces = examine_mark(mark, shape, validator, allowed)
        if pieces is not None:
            found[mark.keys] = pieces
    return found


def examine_mark(
    text: InterpolatedString, shape: Shape, validator: ExpressionValidator, allowed: AllowedNames
) -> list[str | ValidExpression] | None:
    """Return the pieces of one string with expressions, or None if one of them contains an error."""
    place = literal_validator.find_place(shape, text.keys)
    pieces = [
        validator.examine(
            fit_index(part.text, place, is_whole=text.is_whole), path=text.path, allowed=allowed, is_within_text=True
        )
        if isinstance(part, interpolation.ExpressionSource)
        else part
        for part in text.parts
    ]
    expression = [piece for piece in pieces if piece is not None]
    if len(expression) < len(pieces):
        return None
    if text.is_whole and isinstance(expression[0], ValidExpression):
        validator.check_fit(expression[0], place, path=text.path)
    else:
        validator.check_text(place, path=text.path)
    return expression


def fit_index(text: str, place: Shape, *, is_whole: bool) -> str:
    """Return the expression, converted so that a member's index fits where the schema requires text."""
    is_text = is_whole and place.type is Type.STRING and text.strip() == collection_analysis.INDEX
    return f"string({collection_analysis.INDEX})" if is_text else text


def examine_tests(
    stated: Iterable[tuple[str, str]], validator: ExpressionValidator, allowed: AllowedNames
) -> list[tuple[ValidExpression, str]]:
    """Return the tests without errors, each with its path."""
    found: list[tuple[ValidExpression, str]] = []
    for raw, path in stated:
        written = template_conditions.read_test(raw, validator, path=path)
        expression = None if written is None else validator.examine_test(written, path=path, allowed=allowed)
        if expression is not None:
            found.append((expression, path))
    return found


def analyze_condition(
    source: ConditionSource, validator: ExpressionValidator, allowed: AllowedNames
) -> ChunkedWork[dict[str, AnalyzedOutput]]:
    """Validate a condition for the status; return its fields without errors."""
    path = f"{source.path}.status"
    found: dict[str, AnalyzedOutput] = {}
    if tests := examine_tests([(source.status, path)], validator, allowed):
        ((expression, _),) = tests
        mark = InterpolatedString(keys=(), path=path, parts=(interpolation.ExpressionSource(expression.parsed.text),))
        parsed = ParsedManifest("", path=path)
        parsed.strings.append(mark)
        found["status"] = AnalyzedOutput(name="status", path=path, parsed=parsed, expressions={(): [expression]})
    for name, text in source.texts.items():
        parsed = ParsedManifest(text, path=f"{source.path}.{name}")
        validator.mistakes += parsed.mistakes
        expressions = yield from validate_strings(parsed, shapes.OPEN, validator, allowed)
        found[name] = AnalyzedOutput(name=name, path=parsed.path, parsed=parsed, expressions=expressions)
    return found


def analyze_output(
    source: OutputSource, validator: ExpressionValidator, allowed: AllowedNames
) -> ChunkedWork[AnalyzedOutput]:
    """Validate one output."""
    parsed = ParsedManifest(source.value, path=f"{source.path}.value")
    validator.mistakes += parsed.mistakes
    expressions = yield from validate_strings(parsed, shapes.OPEN, validator, allowed)
    analyzed = AnalyzedOutput(name=source.name, path=source.path, parsed=parsed, expressions=expressions)
    if source.when is not None:
        analyzed.when = template_conditions.examine(source.when, validator, path=f"{source.path}.when")
    return analyzed
