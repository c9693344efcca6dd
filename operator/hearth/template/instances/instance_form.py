"""Converts an instance of a StackDefinition to the form of a Stack, with a revision of the definition.

`InstanceForms` also chooses the revision. `hearth.model.instance_fields` converts without a revision, for programs that
only display instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hearth.model import chunked_work, object_fields, packing, value_class
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.instance_fields import OPTIONS, SECRET
from hearth.model.tenancy import DefinerAccount
from hearth.template.cel import cel_environment, expressions
from hearth.template.cel.expression_validator import ExpressionValidator
from hearth.template.cel.expressions import Parsed
from hearth.template.cel.type_checker import TypeScope
from hearth.template.compiler.template_constants import CONDITIONS, Constants
from hearth.template.parser.template_parser import VALUES
from hearth.template.schema import parameters
from hearth.template.text import interpolation
from hearth.template.text.interpolation import ExpressionSource, UnterminatedExpression

USUAL_OPTIONS: Final = ("environment", "healing", "paused", "retry", "rollback", "suspended", "timeout")
"""The options that every instance can set."""
KUBE_CONFIG: Final = "kubeConfig"
"""The option that places the objects of an instance in another cluster."""
FURTHER_OPTIONS: Final = (
    *("adoptionPolicy", "deletionPolicy", "expiresAfter", KUBE_CONFIG, "protected", "revisionHistoryLimit"),
    "serviceAccountName",
)
"""Options that an instance may set only if its StackDefinition lists them."""
FORM_FIELDS: Final = ("account", "boundary", "defaults", "final", "minimumRevision", "options", "scale")
"""Fields of a StackDefinition, in addition to the template, that its revisions store."""
CLUSTER_BOUNDARY: Final = "Cluster"
PIN: Final = "definitionRevision"
"""The option that pins the revision."""
PIN_PATH: Final = f"spec.{OPTIONS}.{PIN}"
OBSERVED: Final = "observedDefinitionRevision"
"""The field of a status with the revision that it describes."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceForm:
    """The parts of a StackDefinition's revision that its instances need."""

    definition: str
    """The name of the StackDefinition."""
    number: int
    packed_template: bytes = field(repr=False)
    """JSON of the template, which all instances of the revision share."""
    sensitive: frozenset[str] = frozenset()
    """Parameters that an instance sets by reference, never by value."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    allowed: frozenset[str] = frozenset(USUAL_OPTIONS)
    """The options that an instance can set."""
    definer: DefinerAccount | None = None
    """The ServiceAccount that writes the objects of instances while this revision is the newest; None: instances have
    the rights of a Stack in their namespace.
    """
    is_pinnable: bool = True
    """Whether instances may pin their revision."""
    minimum: int = 0
    """The oldest revision that an instance may keep while this revision is the newest."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """By output: the type that its value always has, or "" if only its evaluation shows the type."""
    scale: str = ""
    """The parameter behind the scale subresource; "" for none."""
    usual_scale: int | None = None
    """The default of that parameter."""

    def find_options(self, spec: Any) -> Object:
        """Return the options in an instance's spec that instances are allowed to set. The spec may have any shape."""
        return {key: value for key, value in object_fields.mapping(spec, OPTIONS).items() if key in self.allowed}

    def make_settings(self, options: Mapping[str, Any], named: Mapping[str, Any]) -> Object:
        """Return the spec of a Stack without template and parameters.

        options: as `find_options` returns them; named: by parameter, the key of a Secret with its value.
        """
        settings = merge(self.defaults, options)
        if named:
            settings["parametersFrom"] = [
                {"secretRef": {"name": str(each.get("name"))}, "key": str(each.get("key")), "parameter": name}
                for name, each in named.items()
            ]
        return settings

    def find_replicas(self, parameters: Mapping[str, Any]) -> int | None:
        """Return the fields of the scale subresource, or None if the kind has no scale. parameters: as `find_parameters`
        returns them.
        """
        return object_fields.number(parameters.get(self.scale, self.usual_scale)) if self.scale else None

    def find_parameters(self, spec: Any) -> tuple[Object, Object]:
        """Return the parameters of an instance, and, by name, the Secret keys that sensitive parameters refer to."""
        stated: Object = {}
        named: Object = {}
        for name, value in spec.items() if isinstance(spec, dict) else ():
            if name == OPTIONS:
                continue
            reference = value.get(SECRET) if name in self.sensitive and isinstance(value, dict) else None
            if isinstance(reference, dict):
                named[name] = reference
            elif name not in self.sensitive:
                stated[name] = value
        return stated, named


def make_form(definition: str, number: int, content: Mapping[str, Any]) -> InstanceForm:
    """Make the form of a revision. content: as `make_content` returns it."""
    return chunked_work.finish(make_form_in_pieces(definition, number, content))


def make_form_in_pieces(definition: str, number: int, content: Mapping[str, Any]) -> ChunkedWork[InstanceForm]:
    """Make the form of a revision. content: as `make_content` returns it."""
    template, stated = content["template"], content.get("form") or {}
    rules = template.get("parameters") or {}
    scale = str((stated.get("scale") or {}).get("parameter") or "")
    account = stated.get("account")
    further = [each for each in stated.get("options") or () if each in FURTHER_OPTIONS]
    final = frozenset(stated.get("final") or ())
    outputs = yield from find_output_types(template)
    return InstanceForm(
        definition=definition,
        number=number,
        packed_template=packing.pack(template),
        sensitive=frozenset(find_sensitive(rules)),
        defaults=stated.get("defaults") or {},
        allowed=frozenset([*USUAL_OPTIONS, *further]) - final,
        is_pinnable=PIN not in final,
        minimum=object_fields.number(stated, "minimumRevision") or 0,
        definer=DefinerAccount(
            namespace=account["namespace"],
            name=account["name"],
            definition=definition,
            is_confined=stated.get("boundary") != CLUSTER_BOUNDARY,
        )
        if account
        else None,
        scale=scale,
        outputs=outputs,
        usual_scale=rules[scale].get("default") if isinstance(rules.get(scale), dict) else None,
    )


def make_content(spec: Mapping[str, Any]) -> Object:
    """Return the part of a StackDefinition's spec that a revision stores: everything its instances depend on."""
    form = {key: spec[key] for key in FORM_FIELDS if spec.get(key)}
    return {"template": spec.get("template") or {}, "parameters": {}, **({"form": form} if form else {})}


def find_sensitive(rules: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of the sensitive parameters."""
    for name, each in rules.items():
        if isinstance(each, dict) and each.get("sensitive") is True:
            yield name


def merge(defaults: Mapping[str, Any], stated: Mapping[str, Any]) -> Object:
    """Return the defaults, overridden by the given values; maps are merged."""
    merged = dict(defaults)
    for key, value in stated.items():
        before = merged.get(key)
        merged[key] = merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def translate(error: InvalidDefinition, definition: str) -> InvalidDefinition:
    """Return the errors with their paths changed to paths in the spec of the instance or its StackDefinition."""
    places = [(find_path(each.path, definition), find_place(each.message, definition)) for each in error.mistakes]
    return InvalidDefinition([Mistake(path=path, message=message) for path, message in places])


def find_path(path: str, definition: str) -> str:
    """Return the path in an instance's spec for a path in a Stack's spec."""
    if path.startswith("spec.parameters."):
        return f"spec.{path.removeprefix('spec.parameters.')}"
    for option in (*USUAL_OPTIONS, *FURTHER_OPTIONS):
        if path == f"spec.{option}" or path.startswith(f"spec.{option}."):
            return f"spec.{OPTIONS}.{path.removeprefix('spec.')}"
    return find_place(path, definition)


def find_place(text: str, definition: str) -> str:
    """Return a text where places in the template refer to the StackDefinition, which contains the template."""
    return text.replace("spec.template.", f"StackDefinition {definition} spec.template.")


@dataclass(slots=True)
class InstanceForms:
    """The revisions of one StackDefinition that its instances may have."""

    definition: str
    by_number: dict[int, InstanceForm] = field(default_factory=dict)
    current: int = 0
    """The revision of instances that have none yet."""

    @property
    def newest(self) -> InstanceForm:
        """Return the newest revision. It always decides the rights of instances, whichever revision they run."""
        return self.by_number[max(self.by_number)]

    def choose(self, spec: Any, last: int | None) -> InstanceForm:
        """Return the revision of an instance.

        last: the revision that it had, None for a new instance. A pin to a revision that does not exist, or that is
        older than the instance's own, does not count: a corrected error in a template must not come back.
        """
        own = self.by_number.get(last) if last is not None else None
        if own is None:
            own = self.by_number[self.current]
        pin = self.find_pin(spec)
        return own if pin is None or self.find_pin_mistake(spec, own.number) else self.by_number[pin]

    def find_pin_mistake(self, spec: Any, own: int) -> str:
        """Return why an instance does not get the revision that it names, or "" if it does. own: its revision."""
        pin, floor = self.find_pin(spec), max(own, self.newest.minimum)
        if pin is None or pin == own:
            return ""
        if pin not in self.by_number:
            known = f"{min(self.by_number)} to {max(self.by_number)}"
            return (
                f"{PIN_PATH}: StackDefinition {self.definition} has no revision {pin} ({known}); correct or remove it"
            )
        if pin < floor:
            return (
                f"{PIN_PATH}: is {pin}, but an instance only keeps its revision, which is {own}, or takes a newer one; "
                "remove it, or apply the definition as it was as a new revision"
            )
        return ""

    def find_pin(self, spec: Any) -> int | None:
        """Return the revision that an instance pins, or None if it pins none or is not allowed to."""
        return object_fields.number(spec, OPTIONS, PIN) if self.newest.is_pinnable else None


def find_last(status: Any) -> int | None:
    """Return the revision that an instance had when its status was written, or None if that names none."""
    observed = object_fields.number(status, OBSERVED)
    return observed if observed is not None else object_fields.number(status, PIN)


# Whether the spec of an instance fits a revision.


def read_rules(form: InstanceForm) -> Mapping[str, Any]:
    """Return the rules of the parameters of a revision; parsed at every call."""
    rules: Mapping[str, Any] = orjson.loads(form.packed_template).get("parameters") or {}
    return rules


def find_unfit(
    form: InstanceForm, rules: Mapping[str, Any], spec: Any, *, own_form: InstanceForm | None
) -> ChunkedWork[list[Mistake]]:
    """Find the parts of an instance's spec that are valid in its own revision but not in this one.

    rules: of this revision, as `read_rules` returns them; own_form: None if it is not known.
    """
    wrong = yield from find_mistakes(form, rules, spec)
    if not wrong or own_form is None:
        return wrong
    before = yield from find_mistakes(own_form, read_rules(own_form), spec)
    paths = {each.path for each in before}
    return [each for each in wrong if each.path not in paths]


def find_mistakes(form: InstanceForm, rules: Mapping[str, Any], spec: Any) -> ChunkedWork[list[Mistake]]:
    """Find the parts of an instance's spec that do not fit, with paths in that spec.

    rules: as `read_rules` returns them. A sensitive parameter is set by reference, so its value is not checked. A
    literal value is an error.
    """
    stated, named = form.find_parameters(spec)
    clear = {name: each for name, each in rules.items() if name not in form.sensitive}
    _, mistakes = yield from parameters.resolve(clear, stated, path="spec", template_path="spec.template")
    found = [Mistake(path=each.path, message=find_place(each.message, form.definition)) for each in mistakes]
    for name in sorted(form.sensitive - named.keys()):
        message = f"is sensitive; specify the key of a Secret: {{{SECRET}: {{name: …, key: …}}}}"
        found.append(Mistake(path=f"spec.{name}", message=message))
    for option in sorted(object_fields.mapping(spec, OPTIONS).keys() - form.allowed - {PIN}):
        hint = ", and objects cannot move to another cluster" if option == KUBE_CONFIG else "; remove it"
        message = f"is not an option of StackDefinition {form.definition}{hint}"
        found.append(Mistake(path=f"spec.{OPTIONS}.{option}", message=message))
    return found


# The types of outputs that follow from the template. An instance may have any revision of its StackDefinition, and the
# API server refuses a whole status for one wrong value. An output therefore has no type if it depends on the schema of
# another kind, or if two revisions disagree.

RESULT_TYPES: Final = {"BOOL": "boolean", "INT": "integer", "STRING": "string", "UINT": "integer"}
"""Types of values by the type of a result in CEL. A double may be a number or text."""
NAMES_OF_OBJECTS: Final = re.compile(r"(?!params\.)[A-Za-z_]\w*\.metadata\.(name|namespace|uid)")
"""Metadata that is text in every object."""


def find_output_types(template: Mapping[str, Any]) -> ChunkedWork[dict[str, str]]:
    """Return the types of all outputs of a template without errors: boolean, integer, or string; "" for the others."""
    outputs = template.get("outputs") or {}
    if not outputs:
        return {}
    rules = {
        name: each
        for name, each in (template.get("parameters") or {}).items()
        # Sensitive values have a placeholder in the status.
        if isinstance(each, dict) and each.get("sensitive") is not True
    }
    is_sensitive = len(rules) < len(template.get("parameters") or {})
    constants = Constants("", {word: object_fields.mapping(template, word) for word in (CONDITIONS, VALUES)})
    known = {"params": parameters.find_shape(rules), **constants.find_shapes()}
    yield from constants.examine(ExpressionValidator(scope=TypeScope(known), constants=constants.roots))
    # Those that read a sensitive parameter have a placeholder as well.
    for key, expression in list(constants.expressions.items()):
        if is_sensitive and reads_all_parameters(expression.parsed):
            del constants.expressions[key]
    scope = TypeScope({**known, **constants.find_shapes(sound_only=True)})
    found: dict[str, str] = {}
    for name, each in outputs.items():
        yield
        if isinstance(each, dict) and (type_ := find_value_type(each.get("value"), scope, is_sensitive=is_sensitive)):
            found[name] = type_
    return found


def reads_all_parameters(parsed: Parsed) -> bool:
    """Return whether an expression reads `params` as a whole, and thus sensitive parameters as well."""
    return any(read.root == "params" and not read.path for read in parsed.reads.reads)


def find_value_type(value: Any, scope: TypeScope, *, is_sensitive: bool) -> str:
    """Return the type of a value with expressions, or "" if only its evaluation shows it.

    is_sensitive: whether any parameter is.
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if not isinstance(value, str):
        return ""
    try:
        parts = interpolation.parse(value)
        if len(parts) != 1 or not isinstance(parts[0], ExpressionSource) or NAMES_OF_OBJECTS.fullmatch(parts[0].text):
            return "string"
        parsed = expressions.parse(parts[0].text)
        if is_sensitive and reads_all_parameters(parsed):
            return ""
        checked = scope.check(parsed)
    except (UnterminatedExpression, cel_environment.CelCompileError):
        return ""
    return "" if checked.faults else RESULT_TYPES.get(checked.result, "")
