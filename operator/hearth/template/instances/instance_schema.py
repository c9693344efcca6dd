"""Builds the CustomResourceDefinition of a StackDefinition's kind.

Parameters become the schema of `spec`, and outputs the schema of the status. Rules that a structural schema cannot
express are reported as errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from hearth.model import instance_fields, object_fields
from hearth.model import names as api_names
from hearth.model.api import crd, stack_definition
from hearth.model.api.stack import STACK_NAME_RULE
from hearth.model.errors import Mistake
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm
from hearth.template.text import error_hints

PARAMETERS: Final = "spec.template.parameters"
COPIED: Final = frozenset(
    {"minimum", "maximum", "multipleOf", "pattern", "minLength", "maxLength", "minItems", "maxItems"}
    | {"minProperties", "maxProperties", "required", "enum"}
)
"""Keywords that a structural schema has with the same meaning."""
FORMATS: Final = frozenset(
    {"byte", "cidr", "date", "date-time", "double", "duration", "email", "float", "hostname", "int32", "int64"}
    | {"ipv4", "ipv6", "mac", "password", "uri", "uuid"}
)
"""The formats that an API server validates. It accepts and ignores all others."""
COMBINED: Final = ("allOf", "anyOf", "not", "oneOf")
SET_LIMIT: Final = 64
"""Maximum entries of a list of maps or lists that are compared with one another."""
DEFAULT_LENGTH: Final = 200
"""Characters of a default in a description."""
COLUMN_TYPES: Final = ("boolean", "integer", "number", "string")
OBJECT_NAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DATA_KEY: Final = "^([-_a-zA-Z0-9]|\\.[-_a-zA-Z0-9]|\\.\\.[-._a-zA-Z0-9])[-._a-zA-Z0-9]*$"
"""Keys that a Secret accepts: neither `.` nor `..`."""
SECRET_KEY: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "A Secret, in the namespace of the object, and the key of the value in it.",
    "properties": {
        "name": {"type": "string", "maxLength": 253, "pattern": OBJECT_NAME, "description": "Name of the Secret."},
        "key": {
            "type": "string",
            "maxLength": 253,
            "pattern": DATA_KEY,
            "description": "Key in the data of the Secret.",
        },
    },
    "required": ["name", "key"],
}
RESERVED_KINDS: Final = ("ResourceGroup", "Stack")


def find_mistakes(spec: Mapping[str, Any]) -> list[Mistake]:
    """Find problems that prevent the kind from being created, other than errors in the template.

    spec: valid by the schema of StackDefinitions, which leaves the template open.
    """
    return [*find_wrong_names(spec), *find_own_kind(spec), *find_wrong_rules(spec), *find_wrong_fields(spec)]


def find_wrong_names(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find reserved names: kinds of the operator, and a parameter named like the options field."""
    kind = spec["names"]["kind"]
    if kind in RESERVED_KINDS:
        yield Mistake(path="spec.names.kind", message=f"is {kind}, a kind of the operator itself; choose another name")
    if instance_fields.OPTIONS in find_parameters(spec):
        message = "is the field with the options of an object; rename the parameter"
        yield Mistake(path=f"{PARAMETERS}.{instance_fields.OPTIONS}", message=message)


def find_own_kind(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find resources of the kind itself, which would create objects forever."""
    yield from find_kind_within(spec.get("template"), (spec["group"], spec["names"]["kind"]), "spec.template")


def find_kind_within(template: Any, own: tuple[str, str], path: str) -> Iterator[Mistake]:
    """Find the resources of a kind in a template and in the Stacks and groups nested in it. own: group and name."""
    for name, resource in object_fields.mapping(template, "resources").items():
        yield from find_kind_of(resource, own, f"{path}.resources{error_hints.write_key(name)}")


def find_kind_of(resource: Any, own: tuple[str, str], path: str) -> Iterator[Mistake]:
    """Find the kind in one resource or in its nested templates."""
    manifest = object_fields.mapping(resource, "manifest")
    group = object_fields.text(manifest, "apiVersion").rpartition("/")[0]
    if (group, object_fields.text(manifest, "kind")) == own:
        message = (
            f"is {own[1]}, the kind of this definition, so each object would create another one endlessly; remove it"
        )
        yield Mistake(path=f"{path}.manifest.kind", message=message)
    if group == api_names.GROUP:
        nested, where = object_fields.mapping(manifest, "spec", "template"), f"{path}.manifest.spec.template"
        yield from find_kind_within(nested, own, where)
        yield from find_kind_of(nested, own, where)


def find_wrong_rules(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find rules of parameters that a structural schema cannot express."""
    for name, rules in find_parameters(spec).items():
        if isinstance(rules, dict) and rules.get("sensitive") is not True:
            yield from find_unsayable(rules, f"{PARAMETERS}.{name}")


def find_unsayable(rules: Any, path: str) -> Iterator[Mistake]:
    """Find the rules at and below a path that a structural schema cannot express."""
    if rules is False:
        yield Mistake(path=path, message="allows no value, which a CustomResourceDefinition cannot express; remove it")
    if not isinstance(rules, dict):
        return
    yield from find_unsayable_words(rules, path)
    for name, inner in object_fields.mapping(rules, "properties").items():
        yield from find_unsayable(inner, f"{path}.properties{error_hints.write_key(name)}")
    yield from find_unsayable(rules.get("items"), f"{path}.items")
    if (further := rules.get("additionalProperties")) is not False:
        yield from find_unsayable(further, f"{path}.additionalProperties")


def find_unsayable_words(rules: Mapping[str, Any], path: str) -> Iterator[Mistake]:
    """Find the keywords of rules that a structural schema does not have."""
    if find_type(rules) is None:
        message = (
            f"has {len(rules['type'])} types, but a field of a CustomResourceDefinition can only have one; keep one"
        )
        yield Mistake(path=f"{path}.type", message=message)
    for word in COMBINED:
        if word in rules:
            message = (
                "has no equivalent in the schema of a CustomResourceDefinition; express the rule with other keywords"
            )
            yield Mistake(path=f"{path}.{word}", message=message)
    if rules.get("uniqueItems") and not is_scalar(rules.get("items")):
        limit = rules.get("maxItems")
        if not isinstance(limit, int) or limit > SET_LIMIT:
            message = f"compares all entries with one another; add maxItems: {SET_LIMIT} or less"
            yield Mistake(path=f"{path}.uniqueItems", message=message)
    if isinstance(rules.get("additionalProperties"), dict) and rules.get("properties"):
        message = "cannot be combined with properties in a CustomResourceDefinition; remove one of them"
        yield Mistake(path=f"{path}.additionalProperties", message=message)


def find_wrong_fields(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find columns and a scale of parameters and outputs that do not exist or have another type."""
    parameters, outputs = find_parameters(spec), object_fields.mapping(spec, "template", "outputs")
    for at, column in enumerate(spec.get("columns") or ()):
        for word, known in (("output", outputs), ("parameter", parameters)):
            if (name := column.get(word)) is not None and name not in known:
                hint = error_hints.did_you_mean(name, known)
                yield Mistake(
                    path=f"spec.columns[{at}].{word}", message=f"is {name}, which the template does not have{hint}"
                )
    if (scale := spec.get("scale")) is None:
        return
    rules = parameters.get(scale["parameter"])
    if not isinstance(rules, dict) or rules.get("type") != "integer":
        message = f"is {scale['parameter']}, which is not a parameter of type integer; specify one"
        yield Mistake(path="spec.scale.parameter", message=message)


def find_parameters(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rules of all parameters by name."""
    return object_fields.mapping(spec, "template", "parameters")


def find_type(rules: Mapping[str, Any]) -> str | None:
    """Return the one type, other than null, that rules allow: "" for any, `int-or-string`; None for several."""
    types = set(object_fields.texts(rules, "type")) - {"null"} or {object_fields.text(rules, "type")}
    if types == {"integer", "number"}:
        return "number"
    if types == {"integer", "string"}:
        return "int-or-string"
    return next(iter(types), "") if len(types) <= 1 else None


def is_scalar(rules: Any) -> bool:
    """Return whether a value of these rules is neither a map nor a list."""
    return isinstance(rules, dict) and find_type(rules) in COLUMN_TYPES


def convert(rules: Any) -> dict[str, Any]:
    """Return the structural schema of rules that `find_unsayable` accepts."""
    if not isinstance(rules, dict):
        return dict(crd.ANYTHING)
    found: dict[str, Any] = {}
    if text := describe(rules):
        found["description"] = text
    type_ = find_type(rules)
    if type_ == "int-or-string":
        found["x-kubernetes-int-or-string"] = True
    elif not type_:
        found |= crd.ANYTHING
    else:
        found["type"] = type_
    if isinstance(rules.get("type"), list) and "null" in rules["type"]:
        found["nullable"] = True
    if rules.get("format") in FORMATS:
        found["format"] = rules["format"]
    if "const" in rules:
        found["enum"] = [rules["const"]]
    found |= {word: value for word, value in rules.items() if word in COPIED}
    found |= convert_bounds(rules)
    return found | convert_inner(rules, type_)


def describe(rules: Mapping[str, Any]) -> str:
    """Return the description of a field. The schema itself has no default, because it would be stored in every object."""
    parts = [str(rules["description"]).strip()] if rules.get("description") else []
    if "default" in rules:
        text = orjson.dumps(rules["default"]).decode()
        parts.append(f"Default: {text[:DEFAULT_LENGTH]}." if rules["default"] != "" else 'Default: "".')
    return " ".join(parts)


def convert_bounds(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bounds of a number. In a structural schema, an exclusive bound is a flag, not a keyword."""
    found: dict[str, Any] = {}
    least, above = rules.get("minimum", -math.inf), rules.get("exclusiveMinimum", -math.inf)
    most, below = rules.get("maximum", math.inf), rules.get("exclusiveMaximum", math.inf)
    if above > -math.inf and above >= least:
        found |= {"minimum": above, "exclusiveMinimum": True}
    if below < math.inf and below <= most:
        found |= {"maximum": below, "exclusiveMaximum": True}
    return found


def convert_inner(rules: Mapping[str, Any], type_: str | None) -> dict[str, Any]:
    """Return the schema of the entries of a map or list."""
    found: dict[str, Any] = {}
    further = rules.get("additionalProperties")
    if rules.get("properties"):
        known = rules["properties"]
        found["properties"] = {name: convert(inner) for name, inner in known.items()}
        # Parameters with a default are optional: the API server does not know the default.
        found["required"] = [name for name in rules.get("required") or () if "default" not in (known.get(name) or {})]
        if further is True:
            found["x-kubernetes-preserve-unknown-fields"] = True
    elif isinstance(further, dict):
        found["additionalProperties"] = convert(further)
    elif type_ == "object" and further is not False:
        found["x-kubernetes-preserve-unknown-fields"] = True
    if type_ == "array":
        found["items"] = convert(rules.get("items"))
        if rules.get("uniqueItems") and is_scalar(rules.get("items")):
            found["x-kubernetes-list-type"] = "set"
        elif rules.get("uniqueItems"):
            rule = "self.all(one, self.exists_one(other, other == one))"
            found["x-kubernetes-validations"] = [{"rule": rule, "message": "all entries must be different"}]
    return found


def make_crd(spec: Mapping[str, Any], *, forms: Iterable[InstanceForm] = ()) -> dict[str, Any]:
    """Make the CustomResourceDefinition of a StackDefinition without errors, ready to be applied.

    The API server requires that both have the same name. forms: all revisions that instances may have.
    """
    names, forms = spec["names"], tuple(forms)
    types = find_common_types(forms)
    subresources: dict[str, Any] = {"status": {}}
    if (scale := spec.get("scale")) is not None:
        field = scale["parameter"]
        subresources["scale"] = {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.replicas"}
    named = {
        "kind": names["kind"],
        "plural": names["plural"],
        "singular": names.get("singular") or names["kind"].lower(),
        "shortNames": list(names.get("shortNames") or ()),
        "categories": sorted({"hearth", *(names.get("categories") or ())}),
    }
    content = {
        "additionalPrinterColumns": [dict(each) for each in find_columns(spec, types)],
        "subresources": subresources,
        "schema": {"openAPIV3Schema": make_schema(spec, types, forms)},
    }
    return crd.assemble(spec["group"], named, spec["versions"][0]["name"], content)


def find_columns(spec: Mapping[str, Any], types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Return the printer columns: the definition's columns, between the columns of a Stack. types: of outputs."""
    first, *_ = crd.STACK_COLUMNS
    yield from (first, crd.READY_COLUMN)
    parameters = find_parameters(spec)
    for column in spec.get("columns") or ():
        rules = parameters.get(column.get("parameter"))
        type_ = find_type(rules) if isinstance(rules, dict) else types.get(column.get("output", ""))
        path = f".spec.{column['parameter']}" if "parameter" in column else f".status.outputs.{column['output']}"
        priority = {"priority": column["priority"]} if column.get("priority") else {}
        yield crd.column(column["name"], path, of=type_ if type_ in COLUMN_TYPES else "string", **priority)
    yield from (crd.STATE_COLUMN, crd.AGE_COLUMN)
    yield crd.message_column("The first problem, or the reason why the object waits.")


def make_schema(
    spec: Mapping[str, Any], types: Mapping[str, str], forms: Iterable[InstanceForm] = ()
) -> dict[str, Any]:
    """Make the schema of a whole object. types: of the outputs with a certain type; forms: as for `make_crd`."""
    rules = find_parameters(spec)
    required = [name for name, each in rules.items() if isinstance(each, dict) and "default" not in each]
    options = make_options(spec)
    fields = {**convert_parameters(rules), instance_fields.OPTIONS: options}
    wanted = {"type": "object", "description": "The desired state.", "properties": fields}
    machinery = crd.make_structural_schema(stack_definition.InstanceMachinery)["properties"]
    for form in forms:
        # Otherwise, fields of instances at that revision would be lost: the API server removes unknown fields on each
        # read.
        former = convert_parameters(instance_form.read_rules(form))
        keep_fields(wanted, {"type": "object", "properties": former})
        stated = {name: each for name, each in machinery.items() if name in form.allowed}
        keep_fields(options, {"type": "object", "properties": stated})
    if required:
        wanted["required"] = required
    status = crd.make_structural_schema(stack_definition.InstanceStatus)
    outputs = {
        name: {"type": types[name], "nullable": True} if name in types else {**crd.ANYTHING}
        for name in spec["template"].get("outputs") or {}
    }
    described = status["properties"]["outputs"].get("description", "")
    status["properties"]["outputs"] = {"type": "object", "description": described, "properties": outputs}
    if spec.get("scale") is not None:
        replicas = {"type": "integer", "format": "int64", "description": "Number of replicas in the accepted spec."}
        status["properties"]["replicas"] = replicas
    text = f"A {spec['names']['kind']}, made by StackDefinition {spec['names']['plural']}.{spec['group']}."
    return {
        "type": "object",
        "description": text,
        "x-kubernetes-validations": [dict(STACK_NAME_RULE)],
        **({"required": ["spec"]} if required else {}),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": wanted,
            "status": {**status, "default": {"observedGeneration": -1}},
        },
    }


def convert_parameters(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of each parameter by name."""
    return {
        name: make_secret_field(each) if isinstance(each, dict) and each.get("sensitive") is True else convert(each)
        for name, each in rules.items()
    }


def keep_fields(schema: dict[str, Any], former: Mapping[str, Any]) -> None:
    """Add the fields that only a former schema has. Objects may keep them, but cannot set or change them.

    The API server checks only the fields that an update changes, so an object with such a field can still be written.
    """
    if schema.get("type") == former.get("type") == "array":
        keep_fields(schema["items"], former["items"])
    if not schema.get("type") == former.get("type") == "object" or "additionalProperties" in schema:
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, inner in (former.get("properties") or {}).items():
        known = schema.setdefault("properties", {})
        if name in known:
            keep_fields(known[name], inner)
        else:
            known[name] = forbid(inner)


def forbid(former: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field that objects may keep, but cannot set or change."""
    text = "No longer a field of this kind: remove it."
    kept = {key: value for key, value in former.items() if key not in ("description", *COPIED)}
    rule = {"rule": "false", "message": "is no longer a field of this kind; remove it"}
    typed = kept.get("type") or kept.get("x-kubernetes-int-or-string")
    return {**kept, "description": text, **({"x-kubernetes-validations": [rule]} if typed else {})}


def find_common_types(forms: Iterable[InstanceForm]) -> dict[str, str]:
    """Return, by output, the type that its value has in all of these revisions that have the output."""
    common: dict[str, str] = {}
    for form in forms:
        for name, type_ in form.outputs.items():
            common[name] = type_ if common.get(name, type_) == type_ else ""
    return {name: type_ for name, type_ in common.items() if type_}


def make_secret_field(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a sensitive parameter: the place of its value."""
    return {
        "type": "object",
        "description": " ".join([describe(rules), "Sensitive: specify a Secret and a key in it."]).strip(),
        "properties": {instance_fields.SECRET: dict(SECRET_KEY)},
        "required": [instance_fields.SECRET],
    }


def make_options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of `spec.stack`: the options that an instance may set."""
    schema = crd.make_structural_schema(stack_definition.InstanceMachinery)
    allowed = {*instance_form.USUAL_OPTIONS, *(spec.get("options") or ()), instance_form.PIN}
    stated = allowed - set(spec.get("final") or ())
    return {**schema, "properties": {name: each for name, each in schema["properties"].items() if name in stated}}
