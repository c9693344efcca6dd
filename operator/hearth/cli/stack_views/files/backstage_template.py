"""Builds a Backstage software template for a StackDefinition's kind: a form for the parameters, and a pull request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hearth.cli.stack_views.files import editor_schemas
from hearth.model import instance_fields, object_fields, value_class
from hearth.model.child import Object
from hearth.template.instances import instance_schema

NAME: Final = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
DESTINATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "github": {"action": "publish:github:pull-request", "host": "github.com", "title": "pull request"},
    "gitlab": {"action": "publish:gitlab:merge-request", "host": "gitlab.com", "title": "merge request"},
}
"""By code host, the Backstage action that opens a pull request with the file."""
SKELETON: Final = "skeleton"
WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BackstageTemplate:
    """The two files of a software template."""

    template: Object
    """The content of `template.yaml`."""
    skeleton: str
    """The text of the file that the template fills in: an instance of the kind."""
    skeleton_file: str
    """Its path next to `template.yaml`."""


def make_template(spec: Mapping[str, Any], *, owner: str, destination: str, folder: str) -> BackstageTemplate:
    """Make the software template of a StackDefinition without mistakes, whose template is in its spec.

    owner: in the catalog; destination: `github` or `gitlab`; folder: the path of the manifests in the repository.
    """
    names, version = spec["names"], spec["versions"][0]["name"]
    kind, plural, host = str(names["kind"]), str(names["plural"]), DESTINATIONS[destination]
    title = WORDS.sub(" ", kind)
    file = f"{plural}-${{{{ parameters.name }}}}.yaml"
    request = f"Create {title} ${{{{ parameters.name }}}}"
    steps = [
        {
            "id": "fetch",
            "name": "Write the manifest",
            "action": "fetch:template",
            "input": {
                "url": f"./{SKELETON}",
                "targetPath": folder,
                "values": {word: f"${{{{ parameters.{word} }}}}" for word in ("name", "namespace", "spec")},
            },
        },
        {
            "id": "publish",
            "name": f"Open a {host['title']}",
            "action": host["action"],
            "input": {
                "repoUrl": "${{ parameters.repoUrl }}",
                "branchName": f"{plural}-${{{{ parameters.namespace }}}}-${{{{ parameters.name }}}}",
                "title": request,
                "description": f"{request} in namespace ${{{{ parameters.namespace }}}}.",
            },
        },
    ]
    template = {
        "apiVersion": "scaffolder.backstage.io/v1beta3",
        "kind": "Template",
        "metadata": {
            "name": f"create-{kind.lower()}",
            "title": f"Create a {title}",
            "description": f"Creates a {kind} ({plural}.{spec['group']}) by a {host['title']}.",
            "tags": ["hearth", "kubernetes"],
        },
        "spec": {
            "owner": owner,
            "type": "resource",
            "parameters": [make_identity(title), make_form(spec, title), make_repository(host["host"])],
            "steps": steps,
            "output": {
                "links": [{"title": host["title"].capitalize(), "url": "${{ steps['publish'].output.remoteUrl }}"}]
            },
        },
    }
    return BackstageTemplate(
        template=template,
        skeleton=write_skeleton(f"{spec['group']}/{version}", kind),
        # Backstage fills in the name of the file as well.
        skeleton_file=f"{SKELETON}/{file.replace('parameters.', 'values.')}",
    )


def make_identity(title: str) -> Object:
    """Return the page of the form with the name."""
    return {
        "title": f"Name of the {title}",
        "required": ["name", "namespace"],
        "properties": {
            "name": {
                "title": "Name",
                "type": "string",
                "pattern": NAME,
                "description": "Starts with a letter; only lowercase letters, digits and '-'.",
                "ui:autofocus": True,
            },
            "namespace": {"title": "Namespace", "type": "string", "pattern": NAME, "description": "It must exist."},
        },
    }


def make_form(spec: Mapping[str, Any], title: str) -> Object:
    """Return the page of the form with the parameters."""
    definition = editor_schemas.read_definition(instance_schema.make_crd(spec))
    stated = object_fields.mapping(definition.schema, "properties", "spec")
    # The options of a Stack are for its operators.
    fields = {
        name: {"title": find_title(name), **simplify(each)}
        for name, each in object_fields.mapping(stated, "properties").items()
        if name != instance_fields.OPTIONS
    }
    required = object_fields.texts(stated, "required")
    inner = {
        "title": title,
        "type": "object",
        "properties": fields,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
    return {"title": "Parameters", "required": ["spec"], "properties": {"spec": inner}}


def make_repository(host: str) -> Object:
    """Return the page of the form with the repository."""
    picker = {
        "title": "Repository",
        "type": "string",
        "description": "The repository with the manifests of the namespace.",
        "ui:field": "RepoUrlPicker",
        "ui:options": {"allowedHosts": [host]},
    }
    return {"title": "Repository", "required": ["repoUrl"], "properties": {"repoUrl": picker}}


def find_title(name: str) -> str:
    """Return a parameter's name as words: `Max replicas` for `maxReplicas`."""
    words = WORDS.sub(" ", name).lower()
    return words[:1].upper() + words[1:]


def simplify(schema: Any) -> Any:
    """Return a schema without null: a form leaves out an empty field instead."""
    if isinstance(schema, list):
        return [simplify(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: simplify(value) for key, value in schema.items()}
    if isinstance(inner.get("type"), list):
        types = [each for each in inner["type"] if each != "null"]
        inner["type"] = types[0] if len(types) == 1 else types
    if isinstance(inner.get("enum"), list):
        inner["enum"] = [each for each in inner["enum"] if each is not None]
    return inner


def write_skeleton(api_version: str, kind: str) -> str:
    """Return the manifest of an instance, with values that Backstage fills in as JSON, which is valid YAML.

    JSON prevents text in the form from adding a field.
    """
    return (
        f"apiVersion: {api_version}\n"
        f"kind: {kind}\n"
        "metadata:\n"
        "  name: ${{ values.name | dump }}\n"
        "  namespace: ${{ values.namespace | dump }}\n"
        "spec: ${{ values.spec | dump }}\n"
    )
