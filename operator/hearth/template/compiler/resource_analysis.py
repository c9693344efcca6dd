"""One resource during the validation of its template: its kind, the names it uses, its mistakes.

Evaluates only `apiVersion` and `kind`, which the other validation needs first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, names
from hearth.model.errors import Mistake
from hearth.model.kinds import Kind, Kinds, make_key
from hearth.template import chunked_work
from hearth.template.blueprint import Replacement
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.chunked_work import ChunkedWork
from hearth.template.compiler import collection_analysis, template_conditions
from hearth.template.compiler.collection_analysis import AnalyzedCollection, Element
from hearth.template.compiler.manifest_template import InterpolatedString, Keys, ParsedManifest
from hearth.template.compiler.template_conditions import ConditionValue
from hearth.template.parser import masked_values, template_kinds
from hearth.template.parser.template_parser import ResourceSource
from hearth.template.schema import literal_validator, repeated_elements, shapes
from hearth.template.schema.shapes import Shape, Type
from hearth.template.text import error_hints, interpolation

IDENTITY = (("apiVersion",), ("kind",))
IDENTITY_AUDIENCE = AllowedNames(
    names=frozenset({"params"}),
    rule="apiVersion and kind may use only params, because the kind must be known before the apply",
)


EVENT = "Event reports what happened, and the API server deletes it within hours; remove the resource"
REFUSED = {
    ("apps", "ControllerRevision"): "ControllerRevision stores revisions of Stacks; remove the resource",
    ("", "Event"): EVENT,
    ("events.k8s.io", "Event"): EVENT,
}
"""By group and kind that no resource may have, why."""
STATEFUL_SET = ("apps", "StatefulSet")


@dataclass(slots=True, kw_only=True)
class AnalyzedResource:
    """A validated resource."""

    source: ResourceSource
    api_version: str
    """"" while it is not known, as `kind`."""
    kind: str
    served: Kind | None
    shape: Shape
    lists: Shape
    """The shape that tells which lists have keys, also of a kind whose schema is not known."""
    dissection: ParsedManifest
    expressions: dict[Keys, list[str | ValidExpression]] = field(default_factory=dict)
    """By path, the pieces of each string with expressions."""
    ready_when: list[tuple[ValidExpression, str]] = field(default_factory=list)
    failed_when: list[tuple[ValidExpression, str]] = field(default_factory=list)
    when: ConditionValue | None = None
    collection: AnalyzedCollection | None = None
    """None if it stands for one object."""
    elements: list[Element] | None = None
    """Those of a collection, once they are known."""

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
            repeated_elements.may_repeat(self.lists, mark.keys, is_whole=mark.is_whole)
            for mark in self.dissection.strings
        )

    def count_expressions(self) -> int:
        """Return how many expressions each member of the collection has."""
        parts = (piece for pieces in self.expressions.values() for piece in pieces)
        in_manifest = sum(isinstance(piece, ValidExpression) for piece in parts)
        has_key = self.collection is not None and self.collection.key is not None
        return in_manifest + len(self.ready_when) + len(self.failed_when) + has_key

    def find_used(self) -> set[str]:
        """Find every name that its manifest uses, possibly including itself."""
        return {
            root
            for pieces in self.expressions.values()
            for piece in pieces
            if isinstance(piece, ValidExpression)
            for root in piece.parsed.roots
        }

    def find_tested(self) -> set[str]:
        """Find every other name that its tests use."""
        tests = (*self.ready_when, *self.failed_when)
        return {root for expression, _ in tests for root in expression.parsed.roots} - {self.source.name}


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
        lists=repeated_elements.find_shape(shape, api_version, kind),
        dissection=ParsedManifest(stated, path=f"{source.path}.manifest", opaque=opaque),
    )


def examine(analyzed: AnalyzedResource, examiner: ExpressionValidator, audience: AllowedNames) -> ChunkedWork[None]:
    """Validate a resource except its dependencies on others."""
    path = f"{analyzed.source.path}.manifest"
    examiner.mistakes += analyzed.dissection.mistakes
    examine_literals(analyzed, examiner, path)
    if analyzed.dissection.may_be_masked:
        examiner.mistakes += masked_values.find_mistakes(analyzed.source.manifest, path=path)
    if (refusal := REFUSED.get((analyzed.group, analyzed.kind))) is not None and analyzed.api_version:
        examiner.note(f"{path}.kind", refusal)
    if analyzed.served is not None and not analyzed.served.namespaced:
        examine_scope(analyzed, examiner, path)
    examine_replacement(analyzed, examiner)
    examine_name(analyzed, examiner, path)
    source, outer = analyzed.source, examiner.scope
    if source.is_collection:
        analyzed.collection = collection_analysis.examine(source, examiner)
        examiner.scope = collection_analysis.derive_scope(analyzed.collection, examiner.scope)
        audience = AllowedNames(names=examiner.scope.types, rule=audience.rule)
    analyzed.expressions = yield from validate_strings(analyzed.dissection, analyzed.shape, examiner, audience)
    if source.is_collection:
        # In its own rules, its name is the member.
        examiner.scope = examiner.scope.derive({source.name: outer.objects[source.name]})
    analyzed.ready_when = examine_tests(source.ready_when, examiner, audience)
    analyzed.failed_when = examine_tests(source.failed_when, examiner, audience)
    if source.when is not None:
        when_audience = collection_analysis.WHEN if source.is_collection else template_conditions.AUDIENCE
        path = f"{source.path}.when"
        analyzed.when = template_conditions.examine(source.when, examiner, path=path, audience=when_audience)
    examiner.scope = outer


def examine_literals(analyzed: AnalyzedResource, examiner: ExpressionValidator, path: str) -> None:
    """Validate the literals against the schema of the kind."""
    stated = analyzed.source.manifest
    # These were validated without a schema, with a more specific message.
    compared = {word: value for word, value in stated.items() if word not in ("apiVersion", "kind", "status")}
    if not isinstance(compared.get("metadata"), dict):
        compared.pop("metadata", None)
    found = list(literal_validator.check(compared, analyzed.shape, path=path, effort=examiner.effort))
    found += find_repeated(stated, analyzed, path=path)
    if found:
        known = {mistake.path for mistake in examiner.mistakes}
        examiner.mistakes += [mistake for mistake in found if mistake.path not in known]


def examine_replacement(analyzed: AnalyzedResource, examiner: ExpressionValidator) -> None:
    """Check that only a StatefulSet is replaced with its claims kept."""
    is_set = (analyzed.group, analyzed.kind) == STATEFUL_SET
    if analyzed.source.replacement is Replacement.KEEP_CLAIMS and analyzed.kind and not is_set:
        message = f"KeepClaims is for a StatefulSet, and this is a {analyzed.kind}; write another policy, or remove it"
        examiner.note(f"{analyzed.source.path}.updatePolicy.replace", message)


def examine_name(analyzed: AnalyzedResource, examiner: ExpressionValidator, path: str) -> None:
    """Check that a stated name is not longer than the API server accepts for the kind."""
    metadata = analyzed.source.manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    longest = names.STRICT_LENGTHS.get(make_key(analyzed.group, analyzed.kind))
    if longest is not None and isinstance(name, str) and "${" not in name and len(name) > longest:
        message = f"has {len(name)} characters, and a {analyzed.kind} may have {longest}; shorten it"
        examiner.note(f"{path}.metadata.name", message)


def find_repeated(stated: Mapping[str, Any], analyzed: AnalyzedResource, *, path: str) -> Iterator[Mistake]:
    """Find the elements of lists that repeat others; also in the manifests of a nested template."""
    for below, message in repeated_elements.find_repeated(stated, analyzed.lists):
        yield Mistake(path=path + below, message=message)
    if analyzed.is_stack:
        yield from find_repeated_within(stated, path=path)


def find_repeated_within(manifest: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the repeated elements in the manifests within a Stack or ResourceGroup, of Kubernetes' own kinds."""
    spec = manifest.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        return
    resources = template.get("resources")
    inner = (
        {f".resources{error_hints.write_key(str(name))}": each for name, each in resources.items()}
        if isinstance(resources, dict)
        else {"": template}
    )
    for where, resource in inner.items():
        nested = resource.get("manifest") if isinstance(resource, dict) else None
        if not isinstance(nested, dict):
            continue
        place = f"{path}.spec.template{where}.manifest"
        built_in = repeated_elements.find_built_in(f"{nested.get('apiVersion')}/{nested.get('kind')}")
        for below, message in repeated_elements.find_repeated(nested, built_in):
            yield Mistake(path=place + below, message=message)
        if str(nested.get("apiVersion")).rpartition("/")[0] == names.GROUP:
            yield from find_repeated_within(nested, path=place)


def examine_scope(analyzed: AnalyzedResource, examiner: ExpressionValidator, path: str) -> None:
    """Check that a cluster-scoped kind has no namespace."""
    metadata = analyzed.source.manifest.get("metadata")
    if isinstance(metadata, dict) and metadata.get("namespace") is not None:
        message = f"{analyzed.kind} is cluster-scoped and has no namespace; remove it"
        examiner.note(f"{path}.metadata.namespace", message)


def validate_strings(
    dissection: ParsedManifest, shape: Shape, examiner: ExpressionValidator, audience: AllowedNames
) -> ChunkedWork[dict[Keys, list[str | ValidExpression]]]:
    """Return by path the pieces of every string with expressions that contains no mistake."""
    found: dict[Keys, list[str | ValidExpression]] = {}
    for number, mark in enumerate(dissection.strings, start=1):
        if number % chunked_work.MARKS_IN_A_PIECE == 0 or len(mark.parts) > chunked_work.MARKS_IN_A_PIECE:
            yield
        if len(examiner.mistakes) > limits.MISTAKES:
            break
        allowed = IDENTITY_AUDIENCE if mark.keys in IDENTITY else audience
        pieces = examine_mark(mark, shape, examiner, allowed)
        if pieces is not None:
            found[mark.keys] = pieces
    return found


def examine_mark(
    mark: InterpolatedString, shape: Shape, examiner: ExpressionValidator, audience: AllowedNames
) -> list[str | ValidExpression] | None:
    """Return the pieces of one string with expressions; None if one of them contains a mistake."""
    place = literal_validator.find_place(shape, mark.keys)
    pieces = [
        examiner.examine(
            fit_index(part.text, place, is_whole=mark.is_whole), path=mark.path, audience=audience, is_within_text=True
        )
        if isinstance(part, interpolation.ExpressionSource)
        else part
        for part in mark.parts
    ]
    expression = [piece for piece in pieces if piece is not None]
    if len(expression) < len(pieces):
        return None
    if mark.is_whole and isinstance(expression[0], ValidExpression):
        examiner.check_fit(expression[0], place, path=mark.path)
    else:
        examiner.check_text(place, path=mark.path)
    return expression


def fit_index(text: str, place: Shape, *, is_whole: bool) -> str:
    """Return the expression, written so that the index of a member can stand where the schema requires text."""
    is_text = is_whole and place.type is Type.STRING and text.strip() == collection_analysis.INDEX
    return f"string({collection_analysis.INDEX})" if is_text else text


def examine_tests(
    stated: Iterable[tuple[str, str]], examiner: ExpressionValidator, audience: AllowedNames
) -> list[tuple[ValidExpression, str]]:
    """Return the tests without mistakes, each with its path."""
    found: list[tuple[ValidExpression, str]] = []
    for raw, path in stated:
        written = template_conditions.read_test(raw, examiner, path=path)
        expression = None if written is None else examiner.examine_test(written, path=path, audience=audience)
        if expression is not None:
            found.append((expression, path))
    return found
