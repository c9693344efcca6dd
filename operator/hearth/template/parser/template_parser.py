"""Parses a template into its parts, and checks keys, names and required fields.

Expressions and schemas are checked later, by `expression_validator` and `literal_validator`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hearth.model import field_paths, limits, names, object_fields, phases, value_class
from hearth.model.child import Object, Path
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.field_paths import ListItem, PathPattern
from hearth.model.text import times
from hearth.template.blueprint import Completion, DriftPolicy, Replacement, RunRetry
from hearth.template.cel import cel_environment
from hearth.template.parser import policies
from hearth.template.parser.policies import RollingSource
from hearth.template.schema import parameters
from hearth.template.schema.json_schema import Effort
from hearth.template.text import error_hints, interpolation

TEMPLATE_WORDS = ("parameters", "conditions", "values", "resources", "outputs", "statusConditions")
"""The maps of a template. Those of several objects are merged by name."""
RESOURCE_WORDS = (
    *("manifest", "externalRef", "optional", "forEach", "key", "dependsOn", "when", "readyWhen", "failedWhen"),
    *("updatePolicy", "driftPolicy", "ignoreFields", "deletionPolicy", "adoptionPolicy", "completion", "retry"),
)
UPDATE_WORDS = ("replace", "replaceOn", "rolling", "maxRemoved")
OUTPUT_WORDS = ("value", "when")
CONDITION_WORDS = ("status", "reason", "message")
CONDITION_TYPE = re.compile(names.CONDITION_TYPE)
CONDITION_REASON = re.compile("[A-Za-z](?:[A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")
"""A reason as the API conventions define it."""
RETRY_WORDS = ("limit", "maxBackoff")
REFERENCE_WORDS = ("apiVersion", "kind", "metadata")
REFERENCE_METADATA_WORDS = ("name", "namespace", "selector", "allNamespaces")
EXTERNAL_WORDS = ("externalRef", "when", "readyWhen", "optional")
"""Fields of a resource with `externalRef`."""
RESERVED_NAMES = frozenset({"params", "conditions", "stack", "index", "item"})
RESERVED_RESOURCE_NAMES = (
    RESERVED_NAMES | cel_environment.KEYWORDS | cel_environment.NAMESPACES | cel_environment.TYPE_NAMES
)
"""Names that an expression cannot use for a resource."""
MEMBER_KEY = "key"
"""Reserved only in templates with collections: it was a valid name of a resource before collections existed."""
VALUES = "values"
"""Reserved only in templates with values, for the same reason."""
SERVER_FIELDS = (
    *("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "selfLink"),
)
"""Fields of the metadata that only the API server writes."""
TRACKING_METADATA = frozenset(
    {
        names.LABEL_STACK_UID,
        names.LABEL_STACK,
        names.LABEL_RESOURCE,
        names.LABEL_BUCKET,
        names.ANNOTATION_IDENTITY,
        names.ANNOTATION_SIGNATURE,
        names.ANNOTATION_INCARNATION,
        names.ANNOTATION_HASH,
        names.ANNOTATION_REQUIRES,
        names.ANNOTATION_LAST_APPLIED,
        names.ANNOTATION_INHERITED_RULES,
        names.REQUEST_INHERITED_RETRY,
        names.ANNOTATION_DELETION_POLICY,
        names.ANNOTATION_ADOPTED,
        names.ANNOTATION_UNHEALTHY,
        names.ANNOTATION_MARKED_BY,
        names.ANNOTATION_RESTARTED_BY,
    }
)
"""The labels and annotations that Hearth writes on every child."""
IDENTITY = frozenset({"apiVersion", "kind"})
OWN_METADATA = frozenset({"name", "namespace"})
ITEM_BY_POSITION = re.compile(r"\[(\*|\d+)\]|(^|\.)\*(\.|$)")
"""`containers[0]`, `containers[*]`, `containers.*`."""
MAX_LIMIT = 2**63 - 1
"""The same limit as in the schema of the API."""
DURATION_LENGTH = 32
"""Characters, as in the schema of the API."""

Choice = TypeVar("Choice", bound=enum.Enum)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSource:
    """Fields of an external resource in addition to the reference."""

    is_list: bool
    is_in_all_namespaces: bool
    is_optional: bool


@dataclass(slots=True, kw_only=True)
class ResourceSource:
    """A resource of the template, as written."""

    name: str
    path: str
    manifest: Object
    depends_on: list[tuple[str, str]] = field(default_factory=list)
    """Names, each with its path."""
    for_each: Any = None
    """An expression, if it is a collection, or None if it is not set."""
    key: Any = None
    """The expression of a member's key, or None if it is not set."""
    when: Any = None
    """Text, a boolean, or None if it is not set."""
    ready_when: list[tuple[str, str]] = field(default_factory=list)
    """Texts, each with its path."""
    failed_when: list[tuple[str, str]] = field(default_factory=list)
    replacement: Replacement | None = None
    replace_on: tuple[Path, ...] = ()
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    ignore_fields: tuple[PathPattern, ...] = ()
    is_retained: bool = False
    adopts: bool | None = None
    """None if it is not set."""
    rolling: RollingSource | None = None
    """How the members of a collection change; None: all at once."""
    indices: tuple[int, ...] | None = None
    """The members of a group; None for the resource of a Stack."""
    completion: Completion | None = None
    """None if it is not set."""
    retry: RunRetry | None = None
    """None if it is not set."""
    max_removed: int | str | None = None
    """How many members of a collection may disappear without a user's edit, a number or a percentage, or None if not set.
    """
    external: ExternalSource | None = None
    """Set for an object that the Stack only reads. `manifest` is then the reference."""

    @property
    def is_collection(self) -> bool:
        """Whether it has one object per element of `forEach`."""
        return self.for_each is not None

    @property
    def is_list(self) -> bool:
        """Return whether expressions read a list of objects under its name."""
        return self.is_collection or (self.external is not None and self.external.is_list)


@dataclass(slots=True, kw_only=True)
class OutputSource:
    """An output of the template, as written."""

    name: str
    path: str
    value: Any
    when: Any


@dataclass(slots=True, kw_only=True)
class ConditionSource:
    """A condition for the status, as written."""

    type: str
    path: str
    status: Any
    texts: Mapping[str, str]
    """`reason` and `message`, if they are set."""


@dataclass(slots=True, kw_only=True)
class TemplateSource:
    """A parsed template."""

    path: str
    parameters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The parameters whose rules are valid."""
    unsound_parameters: set[str] = field(default_factory=set)
    conditions: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, ResourceSource] = field(default_factory=dict)
    outputs: dict[str, OutputSource] = field(default_factory=dict)
    status_conditions: list[ConditionSource] = field(default_factory=list)


class TemplateParser:
    """Parses one template; collects every error."""

    def __init__(self, path: str, *, indices: tuple[int, ...] | None = None) -> None:
        """Create the parser. indices: the members of a group, whose template is its only resource; None for a Stack."""
        self.path = path
        self.indices = indices
        self.mistakes: list[Mistake] = []
        self.effort = Effort()

    def note(self, path: str, message: str) -> None:
        """Record an error; above the limit, record only that there are more."""
        if len(self.mistakes) <= limits.MISTAKES:
            self.mistakes.append(Mistake(path=path, message=message))

    def read(self, template: Any) -> ChunkedWork[TemplateSource]:
        """Parse `template`; stop when there are more errors than one message lists."""
        source = TemplateSource(path=self.path)
        if not isinstance(template, dict):
            self.note(self.path, f"must be a map with resources, found {error_hints.describe(template)}")
            return source
        self.check_words(template, TEMPLATE_WORDS, self.path, what="a template")
        for name, rules in self.entries(template, "parameters", limit=limits.ENTRIES):
            yield from self.read_parameter(source, name, rules)
        source.conditions = dict(self.entries(template, "conditions", limit=limits.ENTRIES))
        source.values = dict(self.entries(template, "values", limit=limits.ENTRIES))
        for name, raw in self.entries(template, "resources", limit=limits.RESOURCES):
            self.read_resource(source, name, raw)
            if len(self.mistakes) > limits.MISTAKES:
                break
            yield
        self.check_names_in_use(source)
        if template.get("resources") is None:
            self.note(f"{self.path}.resources", "is missing; list the resources by name, or {} for none")
        for name, raw in self.entries(template, "outputs", limit=limits.ENTRIES):
            self.read_output(source, name, raw)
        self.read_status_conditions(source, template.get("statusConditions"))
        return source

    def entries(self, template: Object, word: str, *, limit: int) -> list[tuple[str, Any]]:
        """Return the named entries under `word`, at most `limit`; check their names."""
        raw = template.get(word)
        if raw is None:
            return []
        path = f"{self.path}.{word}"
        if not isinstance(raw, dict):
            self.note(path, f"must be a map by name, found {error_hints.describe(raw)}")
            return []
        if len(raw) > limit:
            self.note(path, f"has {len(raw)} entries, but at most {limit} are allowed; split the template")
            return []
        reserved = RESERVED_NAMES | cel_environment.LITERALS
        if word == "resources":
            reserved = RESERVED_RESOURCE_NAMES
        for name in raw:
            self.check_name(name, path=path, reserved=reserved, what=word[:-1])
        return [(name, value) for name, value in raw.items() if isinstance(name, str)]

    def check_names_in_use(self, source: TemplateSource) -> None:
        """Check that no resource has a name with another meaning in this template: `values`, or `key` of a member."""
        if VALUES in source.resources and source.values:
            message = "is the name of the values in a template that has some; rename the resource"
            self.note(source.resources[VALUES].path, message)
        if MEMBER_KEY in source.resources and any(each.is_collection for each in source.resources.values()):
            message = "is the key of a member in a template with forEach; rename the resource"
            self.note(source.resources[MEMBER_KEY].path, message)

    def check_name(self, name: Any, *, path: str, reserved: Collection[str], what: str) -> None:
        """Check that the name is valid."""
        if not isinstance(name, str) or not names.RESOURCE_NAME.fullmatch(name):
            rule = "names start with a lower-case letter and have at most 40 letters and digits, e.g. redisMaster"
            self.note(f"{path}{error_hints.write_key(str(name))}", f"cannot be the name of a {what}; {rule}")
        elif name in reserved:
            self.note(f"{path}.{name}", f"'{name}' is a reserved word of the expression language; rename the {what}")

    def check_words(self, raw: Object, known: Collection[str], path: str, *, what: str) -> None:
        """Check that all keys of `raw` are known."""
        for word in raw:
            if word not in known:
                hint = self.effort.hint(str(word), known)
                has = f"; {what} has {error_hints.list_words(tuple(known))}"
                self.note(
                    f"{path}{error_hints.write_key(str(word))}",
                    f"'{error_hints.shorten(str(word))}' is not known{hint or has}",
                )

    def read_parameter(self, source: TemplateSource, name: str, rules: Any) -> ChunkedWork[None]:
        """Parse one parameter."""
        yield
        place = f"{self.path}.parameters{error_hints.write_key(name)}"
        found = yield from parameters.check_rules(name, rules, path=place, effort=self.effort)
        self.mistakes += found
        if found:
            source.unsound_parameters.add(name)
        else:
            source.parameters[name] = rules

    def read_resource(self, source: TemplateSource, name: str, raw: Any) -> None:
        """Parse one resource; fields with errors are left out."""
        path = self.path if self.indices is not None else f"{self.path}.resources{error_hints.write_key(name)}"
        if not isinstance(raw, dict):
            self.note(path, f"must be a map with a manifest, found {error_hints.describe(raw)}")
            raw = {"manifest": {}}
        else:
            self.check_words(raw, RESOURCE_WORDS, path, what="a resource")
            if raw.get("externalRef") is not None and self.indices is None:
                self.read_external(source, name, raw, path)
                return
            if raw.get("optional") is not None:
                self.note(f"{path}.optional", "is for objects that the Stack only reads; add externalRef, or remove it")
            self.check_manifest(raw.get("manifest"), f"{path}.manifest")
        manifest = raw.get("manifest")
        policy = self.read_map(raw, "updatePolicy", path)
        self.check_words(policy, UPDATE_WORDS, f"{path}.updatePolicy", what="an update policy")
        source.resources[name] = ResourceSource(
            name=name,
            path=path,
            manifest=manifest if isinstance(manifest, dict) else {},
            depends_on=self.read_list(raw, "dependsOn", path, of="names of resources", limit=limits.DEPENDENCIES),
            for_each=raw.get("forEach"),
            key=self.read_key(raw, path),
            when=raw.get("when"),
            ready_when=self.read_list(raw, "readyWhen", path, of="expressions"),
            failed_when=self.read_list(raw, "failedWhen", path, of="expressions"),
            replacement=self.read_replacement(policy, manifest, f"{path}.updatePolicy"),
            replace_on=self.read_replaced(policy, f"{path}.updatePolicy"),
            drift_policy=self.read_choice(raw, "driftPolicy", path, of=DriftPolicy) or DriftPolicy.REPAIR,
            ignore_fields=self.read_ignored(raw, manifest, path),
            is_retained=self.read_word(raw, "deletionPolicy", path, known=policies.DELETION) == policies.RETAIN,
            adopts=policies.adopts(self.read_word(raw, "adoptionPolicy", path, known=policies.ADOPTION)),
            rolling=self.read_rolling(raw, policy, f"{path}.updatePolicy"),
            max_removed=self.read_max_removed(raw, policy, f"{path}.updatePolicy.maxRemoved"),
            indices=self.indices,
            completion=self.read_choice(raw, "completion", path, of=Completion),
            retry=self.read_retry(raw, path),
        )

    def read_external(self, source: TemplateSource, name: str, raw: Object, path: str) -> None:
        """Parse an external resource; fields with errors are left out.

        Names and labels are checked once their expressions have values.
        """
        for word in raw:
            if word == "manifest":
                message = "has both manifest and externalRef; a Stack writes an object or only reads it"
                self.note(path, f"{message}: remove one of them")
            elif word not in EXTERNAL_WORDS and word in RESOURCE_WORDS:
                message = "is for objects that the Stack writes; remove it, or write manifest for externalRef"
                self.note(f"{path}.{word}", message)
        is_optional = raw.get("optional")
        if is_optional is not None and not isinstance(is_optional, bool):
            self.note(f"{path}.optional", f"must be true or false, found {error_hints.describe(is_optional)}")
        reference = self.read_map(raw, "externalRef", path)
        place = self.read_place(reference, f"{path}.externalRef")
        if isinstance(raw["externalRef"], dict):
            self.check_kind(reference, f"{path}.externalRef")
        source.resources[name] = ResourceSource(
            name=name,
            path=path,
            manifest=reference,
            when=raw.get("when"),
            ready_when=self.read_list(raw, "readyWhen", path, of="expressions"),
            drift_policy=DriftPolicy.IGNORE,
            external=ExternalSource(
                is_list=place.get("selector") is not None,
                is_in_all_namespaces=place.get("allNamespaces") is True,
                is_optional=is_optional is True,
            ),
        )

    def read_place(self, reference: Object, path: str) -> Object:
        """Return the metadata of a reference, which select its objects; empty without metadata."""
        self.check_words(reference, REFERENCE_WORDS, path, what="a reference")
        metadata = reference.get("metadata")
        if isinstance(metadata, dict):
            self.check_words(metadata, REFERENCE_METADATA_WORDS, f"{path}.metadata", what="the metadata of a reference")
            self.check_target(metadata, f"{path}.metadata")
            return metadata
        if reference:
            found = "is missing" if metadata is None else f"must be a map, found {error_hints.describe(metadata)}"
            self.note(f"{path}.metadata", f"{found}; set the name of the object, or a selector")
        return {}

    def check_target(self, metadata: Object, path: str) -> None:
        """Record metadata that does not select objects."""
        name, selector, everywhere = (metadata.get(word) for word in ("name", "selector", "allNamespaces"))
        if (name is None) == (selector is None):
            found = "has neither name nor selector" if name is None else "has both name and selector"
            self.note(path, f"{found}; write name for one object, selector for a list of objects")
        if everywhere is not None and not isinstance(everywhere, bool):
            self.note(f"{path}.allNamespaces", f"must be true or false, found {error_hints.describe(everywhere)}")
        elif everywhere and selector is None:
            self.note(f"{path}.allNamespaces", "is for a list; write selector, or remove it")
        elif everywhere and metadata.get("namespace") is not None:
            self.note(f"{path}.allNamespaces", "and namespace are mutually exclusive; remove one of them")

    def read_retry(self, raw: Object, path: str) -> RunRetry | None:
        """Parse how failed work is run again. Returns None if it is not set."""
        if raw.get("retry") is None:
            return None
        stated, path = self.read_map(raw, "retry", path), f"{path}.retry"
        self.check_words(stated, RETRY_WORDS, path, what="a retry")
        limit, longest = stated.get("limit"), stated.get("maxBackoff")
        if limit is not None and not (type(limit) is int and 0 <= limit <= MAX_LIMIT):
            self.note(f"{path}.limit", f"must be a whole number from 0, found {error_hints.describe(limit)}")
            limit = None
        if longest is not None and not is_duration(longest):
            found = error_hints.describe(longest)
            self.note(f"{path}.maxBackoff", f"must be a duration, e.g. 90s or 10m, found {found}")
            longest = None
        return RunRetry(limit=limit, max_backoff=times.parse_duration(longest) if longest is not None else None)

    def read_rolling(self, raw: Object, policy: Object, path: str) -> RollingSource | None:
        """Parse how the members of a collection change. Returns None if it is not set."""
        stated = self.read_map(policy, "rolling", path)
        if policy.get("rolling") is None:
            return None
        path = f"{path}.rolling"
        if raw.get("forEach") is None:
            self.note(path, "is for the members of a collection; add forEach, or remove it")
        self.check_words(stated, policies.ROLLING_WORDS, path, what="a rolling update")
        return policies.read_rolling(stated, path, note=self.note)

    def read_max_removed(self, raw: Object, policy: Object, path: str) -> int | str | None:
        """Parse how many members may disappear without a user's edit. Returns None if not set."""
        stated = policy.get("maxRemoved")
        if stated is None:
            return None
        if raw.get("forEach") is None:
            self.note(path, "is for the members of a collection; add forEach, or remove it")
        is_share = isinstance(stated, str) and policies.SHARE.fullmatch(stated) is not None
        if not is_share and not policies.is_count(stated, least=0):
            rule = "must be a number of members, or a share of them from 1% to 100%"
            self.note(path, f"{rule}, found {error_hints.describe(stated)}")
            return None
        return int(stated) if isinstance(stated, int) else str(stated)

    def read_key(self, raw: Object, path: str) -> Any:
        """Return the value of `key`, which only a collection may have."""
        stated = raw.get("key")
        if stated is not None and raw.get("forEach") is None:
            self.note(f"{path}.key", "names the members of a collection; add forEach, or remove it")
            return None
        return stated

    def read_word(self, raw: Object, word: str, path: str, *, known: Collection[str]) -> str | None:
        """Return the one of the `known` words under `word`, or None if it is not set."""
        stated = raw.get(word)
        if stated is None or (isinstance(stated, str) and stated in known):
            return stated
        self.note(f"{path}.{word}", f"must be one of {', '.join(known)}, found {error_hints.describe(stated)}")
        return None

    def read_choice(self, raw: Object, word: str, path: str, *, of: type[Choice]) -> Choice | None:
        """Return the member that the word under `word` names, or None if it is not set."""
        # Most policies set none of these fields. Without this check, every call would build the list of words.
        if word not in raw:
            return None
        stated = self.read_word(raw, word, path, known=[each.value for each in of])
        return None if stated is None else of(stated)

    def read_map(self, raw: Object, word: str, path: str) -> Object:
        """Return the map under `word`, empty if it is not set."""
        stated = raw.get(word)
        if stated is None:
            return {}
        if not isinstance(stated, dict):
            self.note(f"{path}.{word}", f"must be a map, found {error_hints.describe(stated)}")
            return {}
        return stated

    def read_replacement(self, policy: Object, manifest: Any, path: str) -> Replacement | None:
        """Parse how to replace the resource. Returns None if it is not set."""
        stated = self.read_choice(policy, "replace", path, of=Replacement)
        is_named = object_fields.find(manifest, "metadata", "name") is not None
        if stated is Replacement.CREATE_FIRST and is_named:
            message = "cannot be CreateFirst if metadata.name is set; write DeleteFirst, or omit the name"
            self.note(f"{path}.replace", message)
        return stated

    def read_replaced(self, policy: Object, path: str) -> tuple[Path, ...]:
        """Parse the fields of `replaceOn`: maps, lists and values, but no single item of a list."""
        found: list[Path] = []
        for text, place in self.read_list(policy, "replaceOn", path, of="fields"):
            pattern = field_paths.parse(text)
            if pattern is None:
                self.note(place, f"'{error_hints.shorten(text)}' is not a field path; write e.g. spec.storageClassName")
            elif ITEM_BY_POSITION.search(text) or any(isinstance(key, ListItem) for key in pattern):
                self.note(place, f"'{text}' names an item of a list; name the list as a whole")
            else:
                found.append(tuple(map(str, pattern)))
        return tuple(found)

    def read_ignored(self, raw: Object, manifest: Any, path: str) -> tuple[PathPattern, ...]:
        """Parse the fields that are left to others. manifest: as in the template."""
        found: list[PathPattern] = []
        for text, place in self.read_list(raw, "ignoreFields", path, of="fields"):
            pattern = field_paths.parse(text)
            if pattern is None:
                example = 'spec.replicas or spec.template.spec.containers[name="web"].image'
                self.note(place, f"'{error_hints.shorten(text)}' is not a field path; write e.g. {example}")
            elif wrong := find_wrong(pattern, manifest):
                self.note(place, f"'{text}' {wrong}")
            else:
                found.append(pattern)
        return tuple(found)

    def read_list(
        self, raw: Object, word: str, path: str, *, of: str, limit: int = limits.RULES
    ) -> list[tuple[str, str]]:
        """Return the texts under `word`, each with its path, at most `limit`."""
        stated = raw.get(word)
        if stated is None:
            return []
        if not isinstance(stated, list):
            self.note(f"{path}.{word}", f"must be a list of {of}, found {error_hints.describe(stated)}")
            return []
        if len(stated) > limit:
            self.note(f"{path}.{word}", f"has {len(stated)} entries, but at most {limit} are allowed")
            return []
        found: list[tuple[str, str]] = []
        for at, entry in enumerate(stated):
            if isinstance(entry, str) and len(entry) > limits.EXPRESSION_LENGTH:
                message = f"has {len(entry)} characters, but at most {limits.EXPRESSION_LENGTH} are allowed; shorten it"
                self.note(f"{path}.{word}[{at}]", message)
            elif isinstance(entry, str):
                found.append((entry, f"{path}.{word}[{at}]"))
            else:
                self.note(f"{path}.{word}[{at}]", f"must be text, found {error_hints.describe(entry)}")
        return found

    def read_output(self, source: TemplateSource, name: str, raw: Any) -> None:
        """Parse one output."""
        path = f"{self.path}.outputs{error_hints.write_key(name)}"
        if not isinstance(raw, dict):
            self.note(path, f"must be a map with a value, found {error_hints.describe(raw)}; write value: … below it")
            return
        self.check_words(raw, OUTPUT_WORDS, path, what="an output")
        if "value" not in raw:
            self.note(f"{path}.value", "is missing; set the value of the output")
            return
        source.outputs[name] = OutputSource(name=name, path=path, value=raw["value"], when=raw.get("when"))

    def read_status_conditions(self, source: TemplateSource, stated: Any) -> None:
        """Parse the conditions for the status."""
        path = f"{self.path}.statusConditions"
        if stated is None:
            return
        if not isinstance(stated, dict):
            self.note(path, f"must be a map by type, found {error_hints.describe(stated)}")
            return
        if len(stated) > limits.STATUS_CONDITIONS:
            self.note(path, f"has {len(stated)} entries, but at most {limits.STATUS_CONDITIONS} are allowed")
            return
        for type_, raw in stated.items():
            self.read_status_condition(source, type_, raw, f"{path}{error_hints.write_key(str(type_))}")

    def read_status_condition(self, source: TemplateSource, type_: Any, raw: Any, path: str) -> None:
        """Parse one condition for the status."""
        if not isinstance(type_, str) or not CONDITION_TYPE.fullmatch(type_):
            rule = "types start with a capital letter and have at most 40 letters and digits, e.g. Reachable"
            self.note(path, f"cannot be the type of a condition; {rule}")
        elif type_ in phases.RESERVED_CONDITIONS:
            self.note(path, f"the operator sets the condition {type_}; rename yours")
        elif not isinstance(raw, dict):
            self.note(path, f"must be a map with a status, found {error_hints.describe(raw)}; write status: … below it")
        else:
            self.check_words(raw, CONDITION_WORDS, path, what="a condition")
            texts: dict[str, str] = {}
            for word in ("reason", "message"):
                text = raw.get(word)
                if isinstance(text, str):
                    texts[word] = text
                elif text is not None:
                    self.note(f"{path}.{word}", f"must be text, found {error_hints.describe(text)}")
            reason = texts.get("reason", "")
            if reason and not interpolation.has_expressions(reason) and not CONDITION_REASON.fullmatch(reason):
                self.note(f"{path}.reason", f"must be one word in CamelCase, found {error_hints.quote(reason)}")
            if raw.get("status") is None:
                self.note(f"{path}.status", "is missing; set an expression that is true or false")
            else:
                condition = ConditionSource(type=type_, path=path, status=raw["status"], texts=texts)
                source.status_conditions.append(condition)

    def check_manifest(self, manifest: Any, path: str) -> None:
        """Check that `manifest` has all required and no forbidden fields."""
        if not isinstance(manifest, dict):
            wrong = f"must be a map, found {error_hints.describe(manifest)}"
            self.note(path, wrong if manifest is not None else "is missing; set the manifest of the object")
            return
        self.check_kind(manifest, path)
        if manifest.get("status") is not None:
            self.note(f"{path}.status", "is written by the controller of the kind, not by a template; remove it")
        metadata = manifest.get("metadata")
        if isinstance(metadata, dict):
            self.check_metadata(metadata, f"{path}.metadata")
        elif metadata is not None:
            self.note(f"{path}.metadata", f"must be a map, found {error_hints.describe(metadata)}")

    def check_kind(self, stated: Object, path: str) -> None:
        """Record a missing or impossible kind."""
        for word, example in (("apiVersion", "apps/v1"), ("kind", "Deployment")):
            found = stated.get(word)
            if found is None or found == "":
                self.note(f"{path}.{word}", f"is missing; write e.g. {word}: {example}")
            elif not isinstance(found, str):
                self.note(f"{path}.{word}", f"must be text, found {error_hints.describe(found)}")

    def check_metadata(self, metadata: Object, path: str) -> None:
        """Check that the metadata sets only fields that a template may set."""
        if metadata.get("generateName") is not None:
            message = "would create a new object with every apply; set name, or omit it for a name generated by Hearth"
            self.note(f"{path}.generateName", message)
        for word in SERVER_FIELDS:
            if metadata.get(word) is not None:
                self.note(f"{path}.{word}", "is written only by the API server; remove it")
        finalizers = metadata.get("finalizers")
        if isinstance(finalizers, list) and names.FINALIZER_COMPLETION in finalizers:
            self.note(f"{path}.finalizers", f"{names.FINALIZER_COMPLETION} is written by Hearth; remove it")
        for word in ("labels", "annotations"):
            stated = metadata.get(word)
            for key in TRACKING_METADATA.intersection(stated) if isinstance(stated, dict) else ():
                self.note(f"{path}.{word}[{key}]", "is written by Hearth; remove it")


def is_duration(text: Any) -> bool:
    """Return whether it is a duration within the length that the schema of the API allows."""
    is_short = isinstance(text, str) and len(text) <= DURATION_LENGTH
    return is_short and re.fullmatch(times.DURATION, text) is not None


def find_wrong(pattern: PathPattern, manifest: Any) -> str:
    """Return why a field cannot be left to others, "" if it can."""
    if pattern[0] in IDENTITY or (pattern[0] == "metadata" and len(pattern) > 1 and pattern[1] in OWN_METADATA):
        return "identifies the object and cannot change; remove it"
    if pattern[0] == "metadata" and any(isinstance(key, str) and key.startswith(f"{names.GROUP}/") for key in pattern):
        return "is written by Hearth to identify its objects; remove it"
    if isinstance(manifest, dict) and not (is_stated(pattern, manifest) or is_stated_as_text(pattern, manifest)):
        return "is not in the manifest, so Hearth never changes it; remove it, or correct it"
    return ""


def is_stated(pattern: PathPattern, value: Any) -> bool:
    """Return whether a manifest sets the field, or might set it once its expressions have values."""
    if not pattern or (isinstance(value, str) and "${" in value):
        return True
    wanted, rest = pattern[0], pattern[1:]
    if isinstance(wanted, ListItem):
        return isinstance(value, list) and any(fits(wanted, item) and is_stated(rest, item) for item in value)
    return isinstance(value, dict) and value.get(wanted) is not None and is_stated(rest, value[wanted])


def is_stated_as_text(pattern: PathPattern, manifest: dict[str, Any]) -> bool:
    """Return whether a Secret sets the field of its `data` in `stringData`."""
    return (
        pattern[0] == "data" and manifest.get("kind") == "Secret" and is_stated(("stringData", *pattern[1:]), manifest)
    )


def fits(wanted: ListItem, item: Any) -> bool:
    """Return whether a list's item matches, or might match once its expressions have values."""
    if not isinstance(item, dict):
        return isinstance(item, str) and "${" in item
    stated = ((item.get(name), value) for name, value in wanted.keys)
    return all(
        found is not None and (field_paths.write_value(found) == value or "${" in str(found)) for found, value in stated
    )
