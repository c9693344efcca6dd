"""Runs health scripts in Lua, in the format of Argo CD, with limits on steps and memory.

Used only in an evaluator process. A script gets the object as the global `obj` and returns a table with `status` and
`message`. It cannot access Python, files, modules, other runs, or functions that compile code or catch errors. Some
work does not count as steps, for example backtracking in a pattern or a loop in C. The CPU limit of the process stops
it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from lupa import lua54

from hearth.model import limits

SETUP: Final = """
local sethook, setupvalue, string_meta = debug.sethook, debug.setupvalue, getmetatable("")
local load, error, steps = load, error, ...

-- Tables are new in every run, so that no script changes them for the next one.
local function make_environment(object)
  local text = {}
  for _, name in ipairs({
    "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "reverse", "sub", "upper",
  }) do
    text[name] = string[name]
  end
  string_meta.__index = text
  local numbers = {}
  for name, value in pairs(math) do
    if name ~= "random" and name ~= "randomseed" then numbers[name] = value end
  end
  return {
    obj = object, string = text, math = numbers,
    table = {
      concat = table.concat, insert = table.insert, remove = table.remove, sort = table.sort, unpack = table.unpack,
      getn = function(list) return #list end,
    },
    -- A verdict depends only on the object, so there is no time.
    os = {time = function() return 0 end},
    ipairs = ipairs, pairs = pairs, next = next, select = select, type = type,
    tostring = tostring, tonumber = tonumber, error = error,
  }
end

local function compile(text)
  local chunk, problem = load(text, "=script", "t", {})
  if chunk == nil then error(problem, 0) end
  return chunk
end

local function run(chunk, object)
  -- The only upvalue of a chunk is its environment.
  setupvalue(chunk, 1, make_environment(object))
  sethook(function() sethook(); error("takes more than " .. steps .. " steps", 0) end, "", steps)
  local verdict = chunk()
  sethook()
  if type(verdict) ~= "table" then return type(verdict) end
  local state, message = verdict.status, verdict.message
  if type(state) ~= "string" then state = "" end
  if type(message) ~= "string" then message = "" end
  return "verdict", state, message
end

return compile, run, sethook
"""
SHORTENED: Final = 4096
"""Maximum characters of a returned status or message."""


class ScriptFailure(Exception):
    """The script returned no verdict; the message is Lua's own."""


class Runtime:
    """Runs scripts. Each script is compiled once, and each run has a new environment."""

    def __init__(self) -> None:
        self._lua = lua54.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_filter=refuse_attribute,
            max_memory=limits.SCRIPT_MEMORY,
        )
        compile_, self._run, self._count_no_steps = self._lua.execute(SETUP, limits.SCRIPT_STEPS)
        self._compile = functools.lru_cache(maxsize=limits.SCRIPTS_COMPILED)(compile_)

    def judge(self, text: str, obj: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return status and message of the script's verdict, or None if it gives none. Raises ScriptFailure."""
        try:
            kind, *verdict = self._run_with_space(text, obj)
        except lua54.LuaMemoryError:
            raise ScriptFailure(f"takes more than {limits.SCRIPT_MEMORY // 2**20} MiB") from None
        except (lua54.LuaError, UnicodeDecodeError, OverflowError, RecursionError) as error:
            raise ScriptFailure(describe(error)) from None
        if kind == "nil":
            return None
        if kind != "verdict":
            raise ScriptFailure(f"returns a {kind}, not a table with status and message")
        status, message = verdict
        return status[:SHORTENED], message[:SHORTENED]

    def _run_with_space(self, text: str, obj: Mapping[str, Any]) -> tuple[str, ...]:
        """Run the script. If memory runs out, drop all compiled scripts and try once more."""
        try:
            return self._run_once(text, obj)
        except lua54.LuaMemoryError:
            self._compile.cache_clear()
            return self._run_once(text, obj)

    def _run_once(self, text: str, obj: Mapping[str, Any]) -> tuple[str, ...]:
        # A script that raised an error leaves its hook in place. Its remaining steps would count for this script.
        self._count_no_steps()
        return self._convert_to_tables(self._run(self._compile(text), self._convert(obj)))

    @staticmethod
    def _convert_to_tables(found: Any) -> tuple[str, ...]:
        return found if isinstance(found, tuple) else (found,)

    def _convert(self, value: Any) -> Any:
        """Return the value as plain Lua tables, without nulls."""
        if isinstance(value, dict):
            return self._lua.table_from(
                {key: self._convert(inner) for key, inner in value.items() if inner is not None}
            )
        if isinstance(value, list):
            return self._lua.table_from([self._convert(inner) for inner in value if inner is not None])
        return float(value) if isinstance(value, int) and abs(value) > MAX_INTEGER else value


MAX_INTEGER: Final = 2**63 - 1


def describe(error: BaseException) -> str:
    """Return Lua's message of an error, without the stack trace."""
    # If the error has no text, nothing precedes the trace, not even a line break.
    text = f"\n{error}".partition("\nstack traceback:")[0]
    return text.strip()[:SHORTENED] or "raises an error without a message"


def refuse_attribute(_object: object, name: object, _is_setting: bool) -> str:
    """Deny all access to attributes of Python objects. A script receives no Python objects."""
    raise AttributeError(name)


@functools.cache
def get_runtime() -> Runtime:
    """Return the runtime of this process. The first call creates it."""
    return Runtime()
