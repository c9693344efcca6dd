"""The structure of a template: known keys, missing keys, and allowed names.

Parses a raw template into its parts and records every mistake. Must not examine expressions or schemas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, names
from hearth.model.child import Object, Path
from hearth.model.errors import Mistake
from hearth.model.field_paths import PathPattern
from hearth.template.blueprint import Completion, DriftPolicy, Replacement, RunRetry
from hearth.template.cel import cel_environment
from hearth.template.chunked_work import ChunkedWork
from hearth.template.parser import ignored_fields, policies, rolling_policy, run_policies
from hearth.template.parser.rolling_policy import RollingSource
from hearth.template.schema import parameters
from hearth.template.schema.effort import Effort
from hearth.template.text import error_hints

TEMPLATE_WORDS = ("parameters", "conditions", "resources", "outputs")
RESOURCE_WORDS = (
    *("manifest", "forEach", "key", "dependsOn", "when", "readyWhen", "failedWhen"),
    *("updatePolicy", "driftPolicy", "ignoreFields", "deletionPolicy", "adoptionPolicy", "completion", "retry"),
)
UPDATE_WORDS = ("replace", "replaceOn", "rolling")
OUTPUT_WORDS = ("value", "when")
RESERVED_NAMES = frozenset({"params", "conditions", "stack", "index", "item"})
RESERVED_RESOURCE_NAMES = (
    RESERVED_NAMES | cel_environment.KEYWORDS | cel_environment.NAMESPACES | cel_environment.TYPE_NAMES
)
"""Those that may not stand bare in an expression, as the name of a resource does."""
MEMBER_KEY = "key"
"""Reserved only beside collections: it was a valid name of a resource before there were any."""
SERVER_FIELDS = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
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
    }
)
"""The labels and annotations that Hearth writes on every child."""


@dataclass(slots=True, kw_only=True)
class ResourceSource:
    """A resource as the template states it."""

    name: str
    path: str
    manifest: Object
    depends_on: list[tuple[str, str]]
    """Names, each with its path."""
    for_each: Any
    """An expression, if it is a collection; None if it is not set."""
    key: Any
    """The expression of a member's key; None if it is not set."""
    when: Any
    """Text, a boolean, or None if it is not set."""
    ready_when: list[tuple[str, str]]
    """Texts, each with its path."""
    failed_when: list[tuple[str, str]]
    replacement: Replacement | None
    replace_on: tuple[Path, ...]
    drift_policy: DriftPolicy
    ignore_fields: tuple[PathPattern, ...]
    is_retained: bool
    adopts: bool | None
    """None if it is not set."""
    rolling: RollingSource | None
    """How the members of a collection change; None: all at once."""
    indices: tuple[int, ...] | None
    """The members of a group; None for the resource of a Stack."""
    completion: Completion | None = None
    """None if it is not set."""
    retry: RunRetry | None = None
    """None if it is not set."""

    @property
    def is_collection(self) -> bool:
        """Return whether it stands for one object for each element of `forEach`."""
        return self.for_each is not None


@dataclass(slots=True, kw_only=True)
class OutputSource:
    """An output as the template states it."""

    name: str
    path: str
    value: Any
    when: Any


@dataclass(slots=True, kw_only=True)
class TemplateSource:
    """A parsed template."""

    path: str
    parameters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Those whose rules are valid."""
    unsound_parameters: set[str] = field(default_factory=set)
    conditions: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, ResourceSource] = field(default_factory=dict)
    outputs: dict[str, OutputSource] = field(default_factory=dict)


class TemplateParser:
    """Parses one template; collects every mistake."""

    def __init__(self, path: str, *, indices: tuple[int, ...] | None = None) -> None:
        """Create the parser. indices: the members of a group, whose template is its only resource; None for a Stack."""
        self.path = path
        self.indices = indices
        self.mistakes: list[Mistake] = []
        self.effort = Effort()

    def note(self, path: str, message: str) -> None:
        """Record a mistake; above the limit, record only that there are more."""
        if len(self.mistakes) <= limits.MISTAKES:
            self.mistakes.append(Mistake(path=path, message=message))

    def read(self, template: Any) -> ChunkedWork[TemplateSource]:
        """Parse `template`; stop when there are more mistakes than one message lists."""
        source = TemplateSource(path=self.path)
        if not isinstance(template, dict):
            self.note(self.path, f"must be a map with resources, found {error_hints.describe(template)}")
            return source
        self.check_words(template, TEMPLATE_WORDS, self.path, what="a template")
        for name, rules in self.entries(template, "parameters", limit=limits.ENTRIES):
            yield from self.read_parameter(source, name, rules)
        for name, text in self.entries(template, "conditions", limit=limits.ENTRIES):
            source.conditions[name] = text
        for name, raw in self.entries(template, "resources", limit=limits.RESOURCES):
            self.read_resource(source, name, raw)
            if len(self.mistakes) > limits.MISTAKES:
                break
            yield
        self.check_member_names(source)
        if template.get("resources") is None:
            self.note(f"{self.path}.resources", "is missing; list the resources by name, or {} for none")
        for name, raw in self.entries(template, "outputs", limit=limits.ENTRIES):
            self.read_output(source, name, raw)
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

    def check_member_names(self, source: TemplateSource) -> None:
        """Check that no resource has the name that the members of a collection read their key by."""
        if MEMBER_KEY in source.resources and any(each.is_collection for each in source.resources.values()):
            message = "is the key of a member in a template with forEach; rename the resource"
            self.note(source.resources[MEMBER_KEY].path, message)

    def check_name(self, name: Any, *, path: str, reserved: Collection[str], what: str) -> None:
        """Return whether the name is valid."""
        if not isinstance(name, str) or not names.RESOURCE_NAME.fullmatch(name):
            rule = "names start with a lower-case letter and have at most 40 letters and digits, e.g. redisMaster"
            self.note(f"{path}{error_hints.write_key(str(name))}", f"cannot be the name of a {what}; {rule}")
        elif name in reserved:
            self.note(f"{path}.{name}", f"'{name}' is a reserved word of the expression language; rename the {what}")

    def check_words(self, raw: Object, known: Collection[str], path: str, *, what: str) -> None:
        """Return whether all keys of `raw` are known."""
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
        """Parse one resource, as far as possible."""
        path = self.path if self.indices is not None else f"{self.path}.resources{error_hints.write_key(name)}"
        if not isinstance(raw, dict):
            self.note(path, f"must be a map with a manifest, found {error_hints.describe(raw)}")
            raw = {"manifest": {}}
        else:
            self.check_words(raw, RESOURCE_WORDS, path, what="a resource")
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
            replacement=self.read_replacement(policy, manifest, f"{path}.updatePolicy.replace"),
            replace_on=ignored_fields.read_replaced(
                self.read_list(policy, "replaceOn", f"{path}.updatePolicy", of="fields"), note=self.note
            ),
            drift_policy=ignored_fields.read_policy(raw.get("driftPolicy"), path=f"{path}.driftPolicy", note=self.note),
            ignore_fields=ignored_fields.read_ignored(
                self.read_list(raw, "ignoreFields", path, of="fields"), manifest, note=self.note
            ),
            is_retained=self.read_word(raw, "deletionPolicy", path, known=policies.DELETION) == policies.RETAIN,
            adopts=policies.adopts(self.read_word(raw, "adoptionPolicy", path, known=policies.ADOPTION)),
            rolling=self.read_rolling(raw, policy, f"{path}.updatePolicy"),
            indices=self.indices,
            completion=run_policies.read_completion(self.read_word(raw, "completion", path, known=run_policies.WORDS)),
            retry=self.read_retry(raw, f"{path}.retry"),
        )

    def read_retry(self, raw: Object, path: str) -> RunRetry | None:
        """Parse how failed work is run again; None if it is not set."""
        if raw.get("retry") is None:
            return None
        stated = self.read_map(raw, "retry", path.rpartition(".")[0])
        self.check_words(stated, run_policies.RETRY_WORDS, path, what="a retry")
        return run_policies.read_retry(stated, path, note=self.note)

    def read_rolling(self, raw: Object, policy: Object, path: str) -> RollingSource | None:
        """Parse how the members of a collection change; None if it is not set."""
        stated = self.read_map(policy, "rolling", path)
        if policy.get("rolling") is None:
            return None
        path = f"{path}.rolling"
        if raw.get("forEach") is None:
            self.note(path, "is for the members of a collection; add forEach, or remove it")
        self.check_words(stated, rolling_policy.WORDS, path, what="a rolling update")
        return rolling_policy.read(stated, path, note=self.note)

    def read_key(self, raw: Object, path: str) -> Any:
        """Return what is stated as `key`, which only a collection has."""
        stated = raw.get("key")
        if stated is not None and raw.get("forEach") is None:
            self.note(f"{path}.key", "names the members of a collection; add forEach, or remove it")
            return None
        return stated

    def read_word(self, raw: Object, word: str, path: str, *, known: Collection[str]) -> str | None:
        """Return the one of the `known` words under `word`, None if it is not set."""
        stated = raw.get(word)
        if stated is None or (isinstance(stated, str) and stated in known):
            return stated
        self.note(f"{path}.{word}", f"must be one of {', '.join(known)}, found {error_hints.describe(stated)}")
        return None

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
        """Parse how to replace the resource; None if it is not set."""
        stated = policy.get("replace")
        if stated is None:
            return None
        known = {each.value: each for each in Replacement}
        if not isinstance(stated, str) or stated not in known:
            self.note(path, f"must be one of {', '.join(known)}, found {error_hints.describe(stated)}")
            return None
        metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
        if (
            known[stated] is Replacement.CREATE_FIRST
            and isinstance(metadata, dict)
            and metadata.get("name") is not None
        ):
            self.note(path, "cannot be CreateFirst if metadata.name is set; write DeleteFirst, or omit the name")
        return known[stated]

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

    def check_manifest(self, manifest: Any, path: str) -> None:
        """Return whether `manifest` has all required and no forbidden fields."""
        if not isinstance(manifest, dict):
            missing = manifest is None
            self.note(
                path,
                "is missing; set the manifest of the object"
                if missing
                else f"must be a map, found {error_hints.describe(manifest)}",
            )
            return
        for word, example in (("apiVersion", "apps/v1"), ("kind", "Deployment")):
            stated = manifest.get(word)
            if stated is None or stated == "":
                self.note(f"{path}.{word}", f"is missing; write e.g. {word}: {example}")
            elif not isinstance(stated, str):
                self.note(f"{path}.{word}", f"must be text, found {error_hints.describe(stated)}")
        if manifest.get("status") is not None:
            self.note(f"{path}.status", "is written by the controller of the kind, not by a template; remove it")
        metadata = manifest.get("metadata")
        if isinstance(metadata, dict):
            self.check_metadata(metadata, f"{path}.metadata")
        elif metadata is not None:
            self.note(f"{path}.metadata", f"must be a map, found {error_hints.describe(metadata)}")

    def check_metadata(self, metadata: Object, path: str) -> None:
        """Return whether the metadata sets only fields that a template may set."""
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
