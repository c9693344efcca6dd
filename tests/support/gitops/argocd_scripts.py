"""Runs the Lua scripts of `manifests/argocd/argocd-cm.yaml` as Argo CD does: Lua 5.1, `os` with two functions, no library.

Source: argo-cd, `util/lua/lua.go`: SkipOpenLibs, the globals, and how a returned object is merged with the live one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import yaml
from lupa import lua51

from hearth.model import names
from hearth.model.child import Object
from support import repository

FILE: Final = repository.MANIFESTS / "argocd" / "argocd-cm.yaml"
PREFIX: Final = "resource.customizations"
SETUP: Final = """
local text, object = ...
local chunk = assert(loadstring(text, "=script"))
local environment = {
  obj = object, os = {time = os.time, date = os.date}, table = table,
  ipairs = ipairs, pairs = pairs, next = next, select = select, type = type, tostring = tostring, tonumber = tonumber,
  error = error, assert = assert, pcall = pcall, unpack = unpack, rawget = rawget, rawset = rawset,
  setmetatable = setmetatable, getmetatable = getmetatable,
}
-- Without the library of strings, they have no methods either.
getmetatable("").__index = nil
return setfenv(chunk, environment)()
"""


@functools.cache
def load_settings() -> Mapping[str, str]:
    """Return the keys of the patch of Argo CD's ConfigMap."""
    return dict(yaml.safe_load(FILE.read_text())["data"])


def assess(raw: Object, *, kind: str = "") -> tuple[str, str]:
    """Return health and message of an object of Hearth. kind: the kind whose script is run; "" for its own."""
    found = run(load_settings()[f"{PREFIX}.health.{names.GROUP}_{kind or raw['kind']}"], raw)
    return str(found["status"]), str(found.get("message", ""))


def discover(raw: Object) -> dict[str, bool]:
    """Return whether each action is offered for the object."""
    found = run(load_actions(raw["kind"])["discovery.lua"], raw)
    return {name: not action.get("disabled", False) for name, action in found.items()}


def act(raw: Object, action: str) -> Any:
    """Run the action; return the changed object, or the list of other objects that it writes."""
    definitions = {each["name"]: each["action.lua"] for each in load_actions(raw["kind"])["definitions"]}
    return merge(run(definitions[action], raw), raw)


def load_actions(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(load_settings()[f"{PREFIX}.actions.{names.GROUP}_{kind}"])
    return loaded


def run(text: str, raw: Object) -> Any:
    """Return the result of a script. Raises `lupa.LuaError`."""
    lua = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    return to_python(lua.execute(SETUP, text, to_lua(lua, raw)))


def to_lua(lua: lua51.LuaRuntime, value: Any) -> Any:
    """Return the value as Lua tables."""
    if isinstance(value, Mapping):
        return lua.table_from({key: to_lua(lua, inner) for key, inner in value.items() if inner is not None})
    if isinstance(value, list):
        return lua.table_from([to_lua(lua, inner) for inner in value])
    return value


def to_python(value: Any) -> Any:
    """Return a Lua value as JSON would have it: an empty table is a list."""
    if lua51.lua_type(value) != "table":
        return value
    keys = list(value.keys())
    if keys == list(range(1, len(keys) + 1)):
        return [to_python(inner) for inner in value.values()]
    return {str(key): to_python(inner) for key, inner in value.items()}


def merge(found: Any, live: Any) -> Any:
    """Return the object as Argo CD merges it: if a map became empty, the live map is kept."""
    if found == [] and isinstance(live, Mapping):
        return live
    if isinstance(found, dict) and isinstance(live, Mapping):
        return {key: merge(inner, live.get(key)) for key, inner in found.items()}
    if isinstance(found, list) and isinstance(live, list):
        return [merge(inner, old) for inner, old in zip(found, live, strict=False)] + found[len(live) :]
    return found
