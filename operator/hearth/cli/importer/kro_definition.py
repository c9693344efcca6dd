"""Converts kro's ResourceGraphDefinitions and their instances to StackDefinitions and their instances.

Anything without an equivalent is reported. Source: kro's documentation of ResourceGraphDefinitions, version 0.9.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hearth.cli.importer import kro_expressions, manifest_documents, template_names
from hearth.cli.importer.kro_expressions import Words
from hearth.cli.importer.kro_schema import SchemaReader
from hearth.cli.importer.manifest_documents import ManifestDocument, SourceText
from hearth.model import limits, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.text import enumeration
from hearth.template.text import error_hints, interpolation

GROUP: Final = "kro.run"
KIND: Final = "ResourceGraphDefinition"
PREFIX: Final = "kro.run/"
"""Prefixes of kro's own labels and annotations."""
SCHEMA_FIELDS: Final = frozenset(
    {
        "additionalPrinterColumns",
        "apiVersion",
        "categories",
        "group",
        "kind",
        "scope",
        "shortNames",
        "spec",
        "status",
        "types",
    }
)
RESOURCE_FIELDS: Final = frozenset(
    {"externalRef", "forEach", "id", "includeWhen", "lifecycle", "readyWhen", "template"}
)
POLICY: Final = re.compile(r"policy\(\)\.with(Retain|Delete)\(\)")
STANDARD_COLUMNS: Final = (".metadata.creationTimestamp", ".status.state")
"""Columns that Hearth's own columns already cover in every list of instances."""
COLUMN_PATH: Final = re.compile(r"\.(spec|status)\.(\w+)((?:\.\w+){0,8})")
INDEXES: Final = re.compile(r"lists\.range\(size\((.+)\)\)")
"""A list of the positions in another list."""
EACH: Final = "each"
OWN_STATUS: Final = ("conditions", "state")
"""Fields of the status that the operator writes."""
ConvertedKinds: TypeAlias = "Mapping[tuple[str, str], Conversion]"
"""By group and kind."""


@dataclass(slots=True)
class Conversion:
    """One StackDefinition in the making."""

    document: ManifestDocument
    group: str
    """Of the kind."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The parameters by their names in kro."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """The resources by their ids."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The outputs by their names in the status."""
    words: Words = field(default_factory=Words)
    definition: Object = field(default_factory=dict)
    parameters: Object = field(default_factory=dict)
    conditions: dict[str, list[str]] = field(default_factory=dict)
    """By resource, the conditions under which it exists."""
    lost: list[str] = field(default_factory=list)
    """Settings without an equivalent, a sentence each."""
    optional: list[str] = field(default_factory=list)
    """Parameters without a default that are optional in kro."""
    foreign: list[str] = field(default_factory=list)
    """Resources whose namespace may differ from the instance's."""

    @property
    def kind(self) -> str:
        """Return the kind of the instances."""
        return object_fields.text(self.schema, "kind")

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the definition's description of the kind."""
        return object_fields.mapping(self.document.manifest, "spec", "schema")

    @property
    def version(self) -> str:
        """Return the version of the kind."""
        return object_fields.text(self.schema, "apiVersion").rpartition("/")[2]

    def choose_names(self) -> None:
        """Fill `fields`, `ids` and `outputs`."""
        self.fields = template_names.choose_fields(object_fields.mapping(self.schema, "spec"))
        resources = object_fields.entries(self.document.manifest, "spec", "resources")
        self.ids = template_names.choose_ids(object_fields.text(each, "id") for each in resources)
        stated = object_fields.mapping(self.schema, "status")
        self.outputs = template_names.choose_fields(name for name in stated if name not in OWN_STATUS)

    def convert(self, kinds: ConvertedKinds) -> None:
        """Fill `definition`, `lost`, `optional` and `foreign`. kinds: all converted kinds, with their names already
        chosen.
        """
        stated_resources = object_fields.entries(self.document.manifest, "spec", "resources")
        found_kinds = {
            object_fields.text(each, "id"): other
            for each in stated_resources
            for word in ("template", "externalRef")
            if (other := find_converted(object_fields.mapping(each, word), kinds)) is not None
        }
        self.words = Words(
            roots=find_changed(self.ids),
            parameters=find_changed(self.fields),
            outputs={name: other.outputs for name, other in found_kinds.items()},
        )
        self._note_unknown(self.schema, SCHEMA_FIELDS, "spec.schema")
        if self.schema.get("scope") == "Cluster":
            self.lost.append("spec.schema.scope: Cluster: instances are always namespaced")
        columns = self._convert_parameters()
        resources: Object = {}
        for at, stated in enumerate(stated_resources):
            path = f"spec.resources[{at}]"
            resources[self.ids[stated["id"]]] = self._convert_resource(stated, path, kinds)
        status = object_fields.mapping(self.schema, "status")
        outputs = {
            name: {"value": self._translate(status[stated], f"spec.schema.status.{stated}")}
            for stated, name in self.outputs.items()
        }
        self.lost += [
            f"spec.schema.status.{name}: the operator writes its own status field of that name"
            for name in OWN_STATUS
            if name in status
        ]
        self._spread_conditions(resources, outputs)
        columns += self._convert_columns(outputs)
        template: Object = {"parameters": self.parameters, "resources": resources, "outputs": outputs}
        words = {
            "kind": self.kind,
            "plural": find_plural(self.kind),
            **{word: self.schema[word] for word in ("shortNames", "categories") if self.schema.get(word)},
        }
        self.definition = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": names.DEFINITION_KIND,
            "metadata": {"name": f"{words['plural']}.{self.group}"},
            "spec": {
                "group": self.group,
                "names": words,
                "versions": [{"name": self.version}],
                "template": {part: content for part, content in template.items() if content or part == "resources"},
                **({"columns": columns} if columns else {}),
            },
        }

    def convert_instance(self, instance_document: ManifestDocument) -> Object:
        """Return an instance as one of the new kind."""
        kept = {
            key: instance_document.metadata[key] for key in ("name", "namespace") if key in instance_document.metadata
        }
        for part in ("labels", "annotations"):
            stated = object_fields.mapping(instance_document.manifest, "metadata", part)
            own = {key: value for key, value in stated.items() if not key.startswith(PREFIX)}
            kept |= {part: own} if own else {}
        return {
            "apiVersion": f"{self.group}/{self.version}",
            "kind": self.kind,
            "metadata": kept,
            "spec": self.rename_fields(object_fields.mapping(instance_document.manifest, "spec")),
        }

    def rename_fields(self, spec: Mapping[str, Any]) -> Object:
        """Return the spec of an instance with the names of the parameters."""
        return {self.fields.get(name, name): value for name, value in spec.items()}

    def _convert_parameters(self) -> list[Object]:
        expressions = interpolation.find_expressions(object_fields.mapping(self.document.manifest, "spec"))
        needed = kro_expressions.find_needed(expressions)
        reader = SchemaReader(object_fields.mapping(self.schema, "types"), needed=needed)
        columns: list[Object] = []
        for stated_name, stated in object_fields.mapping(self.schema, "spec").items():
            found, name = reader.read(stated, (stated_name,)), self.fields[stated_name]
            self.parameters[name] = found.rules
            self.lost += [f"spec.schema.spec.{name}{unknown}" for unknown in found.unknown[: limits.MISTAKES]]
            if found.column:
                columns.append({"name": found.column, "parameter": name})
            if "default" not in found.rules and not found.is_required:
                self.optional.append(name)
        return columns

    def _convert_columns(self, outputs: Object) -> Iterator[Object]:
        """Yield the columns. outputs: receives an output for each field within a parameter that has a column."""
        for at, column in enumerate(object_fields.entries(self.schema, "additionalPrinterColumns")):
            path = object_fields.text(column, "jsonPath")
            found = COLUMN_PATH.fullmatch(path)
            word, known = ("parameter", self.fields) if found and found[1] == "spec" else ("output", self.outputs)
            priority = {"priority": column["priority"]} if column.get("priority") else {}
            if found and not found[3] and found[2] in known:
                yield {"name": object_fields.text(column, "name"), word: known[found[2]], **priority}
            elif found and found[2] in self.fields and self._has_value(self.fields[found[2]], found[3][1:].split(".")):
                field_ = f"{self.fields[found[2]]}{found[3]}"
                name = template_names.choose_fields([*outputs, field_])[field_]
                outputs[name] = {"value": f"${{params.{field_}}}"}
                yield {"name": object_fields.text(column, "name"), "output": name, **priority}
            elif path not in STANDARD_COLUMNS:
                self.lost.append(f"spec.schema.additionalPrinterColumns[{at}]: {path} is not a parameter or output")

    def _has_value(self, parameter: str, fields: Sequence[str]) -> bool:
        """Return whether a field within a parameter always has a value."""
        rules: Any = self.parameters[parameter]
        for name in fields:
            inner = object_fields.mapping(rules, "properties", name)
            if "default" not in inner and name not in object_fields.elements(rules, "required"):
                return False
            rules = inner
        return bool(rules)

    def _convert_resource(self, stated: Mapping[str, Any], path: str, kinds: ConvertedKinds) -> Object:
        self._note_unknown(stated, RESOURCE_FIELDS, path)
        name = self.ids[stated["id"]]
        made: Object = {}
        renamed: dict[str, str] = {}
        if stated.get("forEach"):
            made |= self._convert_iterators(stated, path, renamed)
        self.conditions[name] = self._convert_conditions(stated, "includeWhen", path, renamed)
        if ready := self._convert_conditions(stated, "readyWhen", path, {**renamed, EACH: name}):
            made["readyWhen"] = ready
        made |= self._convert_lifecycle(stated, path)
        for word, field_ in (("manifest", "template"), ("externalRef", "externalRef")):
            if content := object_fields.mapping(stated, field_):
                content = move_name(content) if word == "externalRef" else content
                made[word] = self._translate(content, f"{path}.{field_}", renamed)
                self._convert_kind(content, made[word], f"{path}.{field_}", kinds)
                self._note_namespace(name, made[word])
        return made

    def _convert_kind(self, stated: Mapping[str, Any], made: Object, path: str, kinds: ConvertedKinds) -> None:
        """Rename the fields of a manifest whose kind kro creates, as the converted kind names them."""
        other = find_converted(stated, kinds)
        if other is not None:
            made["apiVersion"] = f"{other.group}/{other.version}"
            if isinstance(made.get("spec"), dict):
                made["spec"] = other.rename_fields(made["spec"])
        elif object_fields.text(stated, "apiVersion").partition("/")[0] == GROUP:
            kind = object_fields.text(stated, "kind")
            sentence = f"{kind} is defined by a {KIND} that is not in these files; pass its file as well"
            if not any(each.endswith(f": {sentence}") for each in self.lost):
                self.lost.append(f"{path}: {sentence}")

    def _spread_conditions(self, resources: Object, outputs: Object) -> None:
        """Set the condition of each resource and output, and read values that may be missing as optional."""
        reads = {name: kro_expressions.find_reads(each, resources) for name, each in resources.items()}
        conditions = kro_expressions.spread(self.conditions, reads)
        is_conditional = {name for name, each in conditions.items() if each}
        make_optional = kro_expressions.make_optional(is_conditional)
        check_presence = kro_expressions.make_presence_checks(resources.keys())
        change = functools.partial(kro_expressions.change_all, change=lambda text: check_presence(make_optional(text)))
        for name, resource in resources.items():
            when = {"when": check_presence(kro_expressions.join(conditions[name]))} if conditions[name] else {}
            ready = (
                {"readyWhen": [check_presence(each) for each in resource["readyWhen"]]}
                if "readyWhen" in resource
                else {}
            )
            resources[name] = {**when, **kro_expressions.translate_all(resource, change), **ready}
        for name, output in outputs.items():
            needed = sorted(kro_expressions.find_reads(output, is_conditional), key=[*resources].index)
            stated = list(dict.fromkeys(each for other in needed for each in conditions[other]))
            when = {"when": kro_expressions.join(stated)} if stated else {}
            outputs[name] = {**when, **kro_expressions.translate_all(output, change)}

    def _convert_iterators(self, stated: Mapping[str, Any], path: str, renamed: dict[str, str]) -> Object:
        """Return the collection; add its expressions' names for an element to `renamed`."""
        iterators = object_fields.entries(stated, "forEach")
        expression = (
            kro_expressions.read_single(next(iter(iterators[0].values()), None)) if len(iterators) == 1 else None
        )
        if expression is None:
            self.lost.append(f"{path}.forEach: has several iterators; write one list of all combinations")
            return {}
        variable = str(next(iter(iterators[0])))
        if positions := INDEXES.fullmatch(expression):
            renamed[variable] = "index"
            return {"forEach": kro_expressions.translate_expression(positions[1], self.words)}
        renamed[variable] = "item"
        made = kro_expressions.translate_expression(expression, self.words)
        return {"forEach": made, **self._find_key(made)}

    def _find_key(self, expression: str) -> Object:
        """Return the key for the elements of a list parameter: their name if they have one, otherwise their position."""
        items = object_fields.mapping(self.parameters, expression.removeprefix("params."), "items")
        if items.get("type") == "string":
            return {"key": "item"}
        return {"key": "item.name"} if object_fields.text(items, "properties", "name", "type") == "string" else {}

    def _convert_conditions(
        self, stated: Mapping[str, Any], word: str, path: str, renamed: Mapping[str, str]
    ) -> list[str]:
        found: list[str] = []
        for at, text in enumerate(object_fields.elements(stated, word)):
            expression = kro_expressions.read_single(text)
            if expression is None:
                self.lost.append(f"{path}.{word}[{at}]: is not an expression")
            else:
                found.append(kro_expressions.translate_expression(expression, self.words.add_roots(renamed)))
        return found

    def _convert_lifecycle(self, stated: Mapping[str, Any], path: str) -> Object:
        if "lifecycle" not in stated:
            return {}
        policy = POLICY.fullmatch(kro_expressions.read_single(stated["lifecycle"]) or "")
        if policy is None:
            self.lost.append(f"{path}.lifecycle: depends on parameters; choose deletionPolicy: Retain or Delete")
            return {}
        return {"deletionPolicy": policy[1]} if policy[1] == "Retain" else {}

    def _translate(self, value: Any, path: str, renamed: Mapping[str, str] | None = None) -> Any:
        words = self.words.add_roots(renamed or {})

        def translate(text: str) -> str:
            try:
                return kro_expressions.translate(text, words)
            except interpolation.UnterminatedExpression as error:
                self.lost.append(f"{path}: {error}")
                return interpolation.escape(text)

        for expression in interpolation.find_expressions(value):
            self.lost += [
                f"{path}: {each} is not an output of that kind"
                for each in kro_expressions.find_unknown_status(expression, words)
            ]
        return kro_expressions.translate_all(value, translate)

    def _note_namespace(self, name: str, manifest: Any) -> None:
        namespace = object_fields.text(manifest, "metadata", "namespace")
        if namespace not in ("", "${stack.namespace}"):
            self.foreign.append(name)

    def _note_unknown(self, stated: Mapping[str, Any], known: frozenset[str], path: str) -> None:
        self.lost += [f"{path}.{word}" for word in stated if word not in known]


def find_plural(kind: str) -> str:
    """Return the usual plural of a kind, in lower case."""
    word = kind.lower()
    if re.search("(s|x|z|ch|sh)$", word):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search("[^aeiou]y$", word) else f"{word}s"


def is_definition(document: ManifestDocument) -> bool:
    """Return whether a document is a ResourceGraphDefinition."""
    return document.kind == KIND and document.group == GROUP


def find_group(document: ManifestDocument) -> str:
    """Return the group of the kind that a ResourceGraphDefinition creates."""
    return object_fields.text(document.manifest, "spec", "schema", "group") or GROUP


# All definitions and instances in some files.


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KroImport:
    """Result of an import."""

    definitions: tuple[Object, ...]
    """The StackDefinitions."""
    instances: tuple[Object, ...]
    """The objects of their kinds."""
    lost: tuple[str, ...]
    """Settings without an equivalent, a sentence each."""
    notes: tuple[str, ...]
    """Notes for the user, a sentence each."""


def convert_all(texts: Sequence[SourceText], *, group: str | None) -> KroImport:
    """Convert all definitions and instances in the texts. Raises InvalidDefinition that lists every other document.

    group: of the kinds; None: as in kro.
    """
    documents = manifest_documents.read_all(texts, default_namespace="default")
    conversions = [
        Conversion(document=each, group=group or find_group(each)) for each in documents if is_definition(each)
    ]
    by_kind = {(find_group(each.document), each.kind): each for each in conversions}
    others = [each for each in documents if not is_definition(each)]
    # Without a definition, every document would be a stranger.
    strangers = find_strangers(others, by_kind) if conversions else ()
    if mistakes := [*strangers, *find_missing(conversions, texts, others)]:
        raise InvalidDefinition(mistakes)
    for conversion in conversions:
        conversion.choose_names()
    for conversion in conversions:
        conversion.convert(by_kind)
    notes = [note for each in conversions for note in find_notes(each)]
    if others:
        notes.append("apply twice: the objects can only be created once their kinds are served")
    return KroImport(
        definitions=tuple(each.definition for each in conversions),
        instances=tuple(by_kind[each.group, each.kind].convert_instance(each) for each in others),
        lost=tuple(f"{call(each)}: {sentence}" for each in conversions for sentence in each.lost),
        notes=tuple(notes),
    )


def find_strangers(documents: Sequence[ManifestDocument], known: Collection[tuple[str, str]]) -> Iterator[Mistake]:
    """Yield a mistake for each document that is not an instance of a definition in the same files. known: groups and
    kinds.
    """
    for document in documents:
        if (document.group, document.kind) not in known:
            message = (
                f"{document.kind} {document.name} is not an instance of a kind in these files; pass its {KIND} as well"
            )
            yield Mistake(path=document.place, message=message)


def find_missing(
    conversions: Sequence[Conversion], texts: Sequence[SourceText], others: Sequence[ManifestDocument]
) -> Iterator[Mistake]:
    """Yield a mistake if there is no definition, or if a definition creates no kind. others: all other documents."""
    if not conversions:
        kinds = enumeration.enumerate_names(list(dict.fromkeys(each.kind for each in others)))
        advice = f"; pass the definition of {kinds} as well" if kinds else ""
        yield Mistake(path=texts[0].source, message=f"contains no {KIND} of {GROUP}{advice}")
    for conversion in conversions:
        if not conversion.kind:
            yield Mistake(path=conversion.document.place, message="spec.schema.kind is missing; set it to the kind")
        for mistake in find_wrong_types(conversion.document.manifest):
            message = f"{mistake.path}: {mistake.message}"
            yield Mistake(path=conversion.document.place, message=message)


MAPS: Final = ("spec.schema.spec", "spec.schema.status", "spec.schema.types")
RESOURCE_TYPES: Final[Mapping[str, type]] = {
    "template": dict,
    "externalRef": dict,
    "forEach": list,
    "includeWhen": list,
    "readyWhen": list,
}


def find_wrong_types(definition: Object) -> Iterator[Mistake]:
    """Yield each field with the wrong type for a ResourceGraphDefinition, and ids that are missing or repeated."""
    for path in MAPS:
        yield from check_type(object_fields.find(definition, *path.split(".")), dict, path)
    resources = object_fields.find(definition, "spec", "resources")
    yield from check_type(resources, list, "spec.resources")
    seen: set[str] = set()
    for at, resource in enumerate(object_fields.elements(resources)):
        path = f"spec.resources[{at}]"
        if not isinstance(resource, dict):
            yield Mistake(path=path, message=f"must be a map, found {error_hints.describe(resource)}")
            continue
        name = resource.get("id")
        if not isinstance(name, str) or not name:
            yield Mistake(path=f"{path}.id", message=f"must be a name, found {error_hints.describe(name)}")
        elif name in seen:
            yield Mistake(path=f"{path}.id", message=f"is {error_hints.quote(name)}, the id of another resource")
        seen.add(str(name))
        for word, type_ in RESOURCE_TYPES.items():
            yield from check_type(resource.get(word), type_, f"{path}.{word}")


def check_type(value: Any, wanted: type, path: str) -> Iterator[Mistake]:
    """Yield a mistake if a field is neither missing nor of that type, a map or a list."""
    if value is not None and not isinstance(value, wanted):
        called = "a map" if wanted is dict else "a list"
        yield Mistake(path=path, message=f"must be {called}, found {error_hints.describe(value)}")


def find_converted(manifest: Mapping[str, Any], kinds: ConvertedKinds) -> Conversion | None:
    """Return the conversion of a manifest's kind, or None if no definition in these files creates the kind."""
    group = object_fields.text(manifest, "apiVersion").rpartition("/")[0]
    return kinds.get((group, object_fields.text(manifest, "kind")))


def find_changed(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the names that differ from kro's."""
    return {old: new for old, new in chosen.items() if new != old}


def move_name(reference: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a reference with its name and namespace in the metadata, where early versions of kro did not have them."""
    early = {word: reference[word] for word in ("name", "namespace") if word in reference}
    if not early or reference.get("metadata"):
        return reference
    return {word: each for word, each in reference.items() if word not in early} | {"metadata": early}


def find_notes(conversion: Conversion) -> Iterator[str]:
    """Yield the differences from kro."""
    name = f"{call(conversion)}:"
    chosen = {**conversion.fields, **conversion.ids, **conversion.outputs}
    if changed := [f"{error_hints.shorten(old)} is {new}" for old, new in find_changed(chosen).items()]:
        yield f"{name} names that a template does not allow are changed: {enumeration.enumerate_names(changed)}"
    if conversion.optional:
        listed = enumeration.enumerate_names(conversion.optional)
        yield f"{name} parameters that are optional in kro are required here unless you set a default: {listed}"
    if conversion.foreign:
        listed = enumeration.enumerate_names(conversion.foreign)
        own = "sets its own namespace" if len(conversion.foreign) == 1 else "set their own namespaces"
        yield (
            f"{name} {listed} {own}: this must be the namespace of the instance unless you set spec.account and "
            "spec.boundary: Cluster"
        )
    if conversion.group == GROUP:
        yield (
            f"{name} the kind is in the group {GROUP}; set your own group with --group, or first stop kro and delete "
            "its CustomResourceDefinition, which deletes all its objects"
        )


def call(conversion: Conversion) -> str:
    """Return the text that identifies a definition in messages."""
    return f"{conversion.document.kind} {conversion.document.name}"
