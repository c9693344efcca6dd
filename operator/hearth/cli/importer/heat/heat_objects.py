"""Converts resources of OpenStack to objects of OpenStack controllers.

Most resources need only their row in the table of types. `ObjectRules` has the rules that need code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.cli.importer.heat import heat_types, heat_user_data, heat_values
from hearth.cli.importer.heat.heat_scope import HeatResource, TemplateScope
from hearth.cli.importer.heat.heat_types import FieldMaker, Loss, Row
from hearth.cli.importer.heat.heat_values import Lost, Value, make_expression
from hearth.model import object_fields
from hearth.model.child import Object
from hearth.template.text import error_hints

NETWORK: Final = "defaultNetwork"
"""The parameter with the network for servers that do not specify one."""
ADDRESSES: Final = ("addr", "OS-EXT-IPS-MAC:mac_addr", "port")
SERVER: Final = "OS::Nova::Server"


def declare(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare the values that reads of a resource return."""
    resource.kind = "" if "into" in resource.row else resource.row["kind"]
    if "into" in resource.row:
        resource.waits_for = find_joined(resource, scope).stated_name
    if resource.kind:
        resource.read_identity = lambda: scope.read_object(resource, "status.id", "string")
        resource.read_attribute = lambda path: read_attribute(resource, path, scope)


def convert(resource: HeatResource, scope: TemplateScope) -> None:
    """Fill `made`. Raises Lost."""
    row = resource.row
    if "external_id" in resource.stated:
        resource.made = make_external(resource, scope)
        return
    fields, losses = ObjectRules(resource, scope).make_fields()
    credentials = scope.make_credentials() if row.get("credentials", True) else {}
    policy = (
        {"updatePolicy": {"replace": row.get("replace", "CreateFirst")}} if row.get("replace", "") is not None else {}
    )
    manifest = heat_types.make_manifest(row["kind"], fields, credentials, root=row.get("root", "spec.resource"))
    scope.check_readable(manifest)
    resource.made = {**policy, "manifest": manifest}
    resource.losses += losses


def make_external(resource: HeatResource, scope: TemplateScope) -> Object:
    """Return an object for an existing resource, found by its ID and never written. Raises Lost."""
    identity = heat_values.to_string(scope.translate(resource.stated["external_id"]))
    resource.losses += [
        Loss(
            place=f"properties.{error_hints.shorten(name)}", reason="external resources are never changed", value=value
        )
        for name, value in resource.properties.items()
    ]
    return scope.make_import(resource.kind, {"id": identity})


def merge(resource: HeatResource, scope: TemplateScope) -> None:
    """Add the fields of a resource that joins two others to the object of one of them. Raises Lost."""
    row = resource.row
    target = find_joined(resource, scope)
    if "condition" in resource.stated:
        raise Lost("has a condition, but becomes a field of another object")
    fields, losses = ObjectRules(resource, scope).make_fields()
    resource.losses += losses
    made = object_fields.find(target.made, "manifest", "spec", "resource")
    if not isinstance(made, dict):
        raise Lost(f"{target.stated_name} is an external resource, which is not changed")
    scope.check_readable(fields)
    if "append" in row:
        made[row["append"]] = [*made.get(row["append"], []), fields]
    else:
        heat_types.merge_fields(made, fields)


def find_joined(resource: HeatResource, scope: TemplateScope) -> HeatResource:
    """Return the resource of the template whose object gets the fields. Raises Lost."""
    word = resource.row["into"]
    stated = resource.properties.get(word)
    name = stated.get("get_resource") if isinstance(stated, Mapping) and len(stated) == 1 else None
    if not isinstance(name, str) or scope.find_resource(name).kind != resource.row["kind"]:
        raise Lost(f"{word} is no {resource.row['kind']} of this template; its object belongs to another one")
    return scope.find_resource(name)


def read_attribute(resource: HeatResource, path: Sequence[Value], scope: TemplateScope) -> Value:
    """Return an attribute of an object. Raises Lost."""
    name, *rest = path or [None]
    rule = object_fields.mapping(resource.row, "attributes").get(name) if isinstance(name, str) else None
    if rule is None:
        raise Lost(f"the attribute {error_hints.shorten(str(name))} of {resource.type} has no equivalent")
    if isinstance(rule, str):
        return heat_values.select(scope.read_object(resource, rule), rest)
    if "use" in rule:
        return read_addresses(resource, rest, scope)
    fields = object_fields.mapping(rule, "fields")
    return heat_values.select(
        scope.read_object(resource, rule["path"]),
        [fields.get(each, each) if isinstance(each, str) else each for each in rest],
    )


def read_addresses(resource: HeatResource, path: Sequence[Value], scope: TemplateScope) -> Value:
    """Return an address of a server: `[network, position]`, or `[network, position, addr]`. Raises Lost."""
    if not path or not isinstance(path[0], str | heat_values.Expression):
        raise Lost("all addresses by network have no equivalent; read the addresses of one network")
    network = heat_values.to_cel(scope.import_object(path[0], "Network")).removesuffix(".metadata.name")
    interfaces = scope.read_object(resource, "status.resource.interfaces")
    if interfaces.type == heat_values.OPTIONAL:
        raise Lost("an address of a server with a condition has no equivalent; read first_address")
    of_network = f"{interfaces.text}.filter(each, each.netID == {network}.status.id)"
    position = path[1] if len(path) > 1 else None
    if position is None:
        return make_expression(f"{of_network}[0].fixedIPs.map(each, each.ipAddress)", "list")
    word = path[2] if len(path) > 2 else ADDRESSES[0]
    index = heat_values.to_integer(position)
    match word:
        case "addr":
            return heat_values.select(make_expression(f"{of_network}[0].fixedIPs"), [index, "ipAddress"])
        case "OS-EXT-IPS-MAC:mac_addr":
            return make_expression(f"{of_network}[0].macAddr", "string")
        case "port":
            return make_expression(f"{of_network}[0].portID", "string")
        case _:
            raise Lost(f"{error_hints.shorten(str(word))} of an address has no equivalent")


class ObjectRules:
    """Conversion rules for one object that a row of the table cannot express."""

    def __init__(self, resource: HeatResource, scope: TemplateScope) -> None:
        self._resource = resource
        self._scope = scope
        self._fields: Object = {}
        self._maker = FieldMaker(
            scope,
            {
                "networks": lambda _name, _value, _rule: None,
                "user_data": lambda _name, _value, _rule: None,
                "volumes": self._put_volumes,
                "password": self._put_password,
                "roles": self._add_roles,
                "port": self._put_port,
            },
        )

    def make_fields(self) -> tuple[Object, Sequence[Loss]]:
        """Return the fields of the object, and the settings that it cannot express. Raises Lost."""
        made = self._maker.make(self._resource.properties, self._resource.row, place="properties")
        heat_types.merge_fields(made, self._fields)
        if self._resource.type == SERVER:
            made["ports"] = self._make_ports()
            heat_user_data.add_user_data(made, self._resource, self._scope)
            if "imageRef" not in made and "bootVolume" not in made:
                raise Lost("has neither image nor boot volume")
        return made, self._maker.losses

    def _make_ports(self) -> list[Object]:
        networks = self._resource.properties.get("networks")
        if not networks:
            chosen = self._scope.add_parameter(
                NETWORK, {"type": "string", "description": "Network for servers that specify none"}
            )
            reason = f"Nova would choose a network; set the parameter {NETWORK}"
            self._maker.losses.append(Loss(place="properties.networks", reason=reason))
            reference = self._scope.import_object(chosen, "Network")
            return [self._add_port(0, {"networkRef": reference})]
        if not isinstance(networks, list):
            raise Lost("networks is a list that is only known at run time; list its elements in the template")
        return [port for at, each in enumerate(networks) if (port := self._make_port(at, each)) is not None]

    def _make_port(self, at: int, stated: Any) -> Object | None:
        place = f"properties.networks[{at}]"
        if not isinstance(stated, Mapping):
            raise Lost(f"networks[{at}] must be a map, found {error_hints.describe(stated)}")
        known = {name: value for name, value in stated.items() if value is not None}
        if "port" in known:
            self._note_unused(known, {"port"}, place)
            return {"portRef": self._scope.refer(known["port"], "Port")}
        network = known.get("network", known.get("uuid"))
        if network is None:
            reason = "specifies neither a network nor a port"
            self._maker.losses.append(Loss(place=place, reason=reason, value=stated))
            return None
        row = heat_types.read_table()["OS::Neutron::Port"]
        properties = {**object_fields.mapping(known, "port_extra_properties"), "network": network}
        if "fixed_ip" in known or "subnet" in known:
            address = {"ip_address": known.get("fixed_ip"), "subnet": known.get("subnet")}
            properties["fixed_ips"] = [{name: each for name, each in address.items() if each is not None}]
        self._note_unused(known, {"network", "uuid", "fixed_ip", "subnet", "port_extra_properties"}, place)
        return self._add_port(at, self._maker.make(properties, row, place=place))

    def _note_unused(self, stated: Mapping[str, Any], known: set[str], place: str) -> None:
        self._maker.losses += [
            Loss(
                place=f"{place}.{error_hints.shorten(str(name))}",
                reason="the controller has no such field",
                value=value,
            )
            for name, value in stated.items()
            if name not in known
        ]

    def _add_port(self, at: int, fields: Object) -> Object:
        groups = self._resource.properties.get("security_groups")
        if groups and "securityGroupRefs" not in fields:
            rule = {
                "properties": {"security_groups": {"to": "securityGroupRefs", "ref": "SecurityGroup", "many": True}}
            }
            fields |= self._maker.make({"security_groups": groups}, rule, place="properties")
        manifest = heat_types.make_manifest("Port", fields, self._scope.make_credentials())
        resource = {"updatePolicy": {"replace": "CreateFirst"}, "manifest": manifest}
        name = self._scope.add_resource(f"{self._resource.name}-port{at or ''}", resource)
        return {"portRef": make_expression(f"{name}.metadata.name", "string")}

    def _put_volumes(self, name: str, value: Any, _rule: Row) -> None:
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise Lost("must be a list of maps")
        for at, each in enumerate(value):
            device, place = dict(each), f"properties.{name}[{at}]"
            is_boot = device.get("boot_index") in (0, "0") or (at == 0 and "image" not in self._resource.properties)
            image = device.get("image", device.get("image_id"))
            volume: Value = None
            if "volume_id" in device:
                volume = self._scope.refer(device["volume_id"], "Volume")
            elif image is not None and "volume_size" in device:
                fields = {
                    "size": heat_values.to_integer(self._scope.translate(device["volume_size"])),
                    "imageRef": self._scope.refer(image, "Image"),
                }
                manifest = heat_types.make_manifest("Volume", fields, self._scope.make_credentials())
                made = self._scope.add_resource(f"{self._resource.name}-volume{at or ''}", {"manifest": manifest})
                volume = make_expression(f"{made}.metadata.name", "string")
            if volume is None:
                reason = "the controller only attaches existing volumes and volumes that it creates from an image"
                self._maker.losses.append(Loss(place=place, reason=reason, value=each))
            elif is_boot:
                self._fields["bootVolume"] = {"volumeRef": volume}
            else:
                path = {"device": self._scope.translate(device["device_name"])} if device.get("device_name") else {}
                self._fields.setdefault("volumes", []).append({"volumeRef": volume, **path})

    def _put_password(self, _name: str, value: Any, _rule: Row) -> None:
        password = heat_values.to_string(self._scope.translate(value))
        self._fields["passwordRef"] = self._scope.add_secret(f"{self._resource.name}-password", {"password": password})

    def _add_roles(self, name: str, value: Any, rule: Row) -> None:
        rules = {
            "role": {"to": "roleRef", "ref": "Role"},
            "project": {"to": "projectRef", "ref": "Project"},
            "domain": {"to": "domainRef", "ref": "Domain"},
        }
        own = make_expression(f"{self._resource.name}.metadata.name", "string")
        for at, each in enumerate(heat_values.to_list(value)):
            if not isinstance(each, Mapping):
                raise Lost("must be a list of maps")
            fields = self._maker.make(
                each, {"properties": rules, "requires": ["roleRef"]}, place=f"properties.{name}[{at}]"
            )
            manifest = heat_types.make_manifest(
                "RoleAssignment", {**fields, rule["to"]: own}, self._scope.make_credentials()
            )
            resource = {"updatePolicy": {"replace": "CreateFirst"}, "manifest": manifest}
            self._scope.add_resource(f"{self._resource.name}-role{at or ''}", resource)

    def _put_port(self, _name: str, value: Any, _rule: Row) -> None:
        """Refer to the first port of a server."""
        server = value.get("get_resource") if isinstance(value, Mapping) and len(value) == 1 else None
        if not isinstance(server, str) or self._scope.find_resource(server).kind != "Server":
            raise Lost("is not a server of this template")
        self._fields["portRef"] = make_expression(
            f"{self._scope.resources[server].name}.spec.resource.ports[0].portRef", "string"
        )
