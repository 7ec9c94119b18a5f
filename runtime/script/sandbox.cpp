#include "runtime/script/interpreter.hpp"

#include <lua.hpp>

namespace troupe::runtime {
namespace {

// Written in Lua where that is shorter; its instructions count as the script's. Omitted or
// replaced:
//   SCRIPT-BOUND   patterns, table.move and string.rep of "" run unbounded inside one instruction;
//                  a byte 0 makes comparisons of strings slow; pcall would catch the bound; a
//                  finaliser (setmetatable) runs without it
//   SCRIPT-SAME    the order of pairs, the pivots of table.sort, the addresses in tostring and
//                  math.random change from run to run
//   isolation      files, processes, clocks, code from strings
constexpr const char* prelude = R"lua(
local charged, print_line, charge_table, kind = ...
local error, ipairs, select, tostring, type, next = error, ipairs, select, tostring, type, next
local string, table, math = string, table, math

local function refused(name, why)
  return function() error(name .. " is not for " .. kind .. ": " .. why, 2) end
end
local function refused_table(name, why)
  local function use(_, key) error(name .. "." .. tostring(key) .. " is not for " .. kind .. ": " .. why, 2) end
  return setmetatable({}, { __index = use, __newindex = use })
end
local function some(of, names)
  local out = {}
  for _, name in ipairs(names) do out[name] = charged(of[name]) end
  return out
end

local function text_of(x)
  local kind = type(x)
  return (kind == "table" or kind == "function") and kind or tostring(x)
end

local function sort(t, before)
  if type(t) ~= "table" then error("table.sort needs a table, not a " .. type(t), 2) end
  before = before or function(a, b) return a < b end
  local n, width, from, to = #t, 1, t, {}
  while width < n do
    for left = 1, n, 2 * width do
      local i, middle = left, math.min(left + width, n + 1)
      local j, last = middle, math.min(left + 2 * width, n + 1)
      for k = left, last - 1 do
        if i < middle and (j >= last or not before(from[j], from[i])) then
          to[k] = from[i]
          i = i + 1
        else
          to[k] = from[j]
          j = j + 1
        end
      end
    end
    from, to, width = to, from, 2 * width
  end
  if from ~= t then
    for k = 1, n do t[k] = from[k] end
  end
end

local place_of = { number = 1, string = 2, boolean = 3 }
local function key_before(a, b)
  local x, y = place_of[type(a)], place_of[type(b)]
  if x ~= y then return x < y end
  if x == 3 then return a and not b end
  return a < b
end
local function sorted_pairs(t)
  if type(t) ~= "table" then error("pairs needs a table, not a " .. type(t), 2) end
  charge_table()
  local keys = {}
  for key in next, t do
    if not place_of[type(key)] then
      error("pairs goes through keys that are numbers, texts or booleans, in this order; here is a " .. type(key), 2)
    end
    keys[#keys + 1] = key
  end
  sort(keys, key_before)
  local i = 0
  return function()
    while true do
      i = i + 1
      local key = keys[i]
      if key == nil then return nil end
      local value = t[key]
      if value ~= nil then return key, value end
    end
  end
end

local texts = some(string, { "byte", "char", "format", "len", "lower", "reverse", "sub", "upper" })
local repeated = string.rep
function texts.rep(s, n, between)
  local each = #s + #(between or "")
  if each == 0 then return "" end
  if n > 300000 / each then error("string.rep makes a text of more than 256 KiB", 2) end
  return repeated(s, n, between)
end
local format, char, find, gsub = texts.format, texts.char, charged(string.find), charged(string.gsub)
local function without_zero(s)
  if find(s, "\0", 1, true) then error("texts of schedules have no byte 0", 3) end
  return s
end
function texts.char(...) return without_zero(char(...)) end
function texts.format(fmt, ...)
  if find((gsub(fmt, "%%%%", "")), "%%[-+ #0-9.]*p") then error("string.format has no %p: addresses change from run to run", 2) end
  for i = 1, select("#", ...) do
    local kind = type((select(i, ...)))
    if kind == "table" or kind == "function" then error("string.format cannot write a " .. kind, 2) end
  end
  return without_zero(format(fmt, ...))
end
for _, name in ipairs { "find", "gmatch", "gsub", "match" } do
  texts[name] = refused("string." .. name, "a pattern can run on without a bound")
end

local tables = some(table, { "concat", "insert", "pack", "remove", "unpack" })
tables.sort = sort
tables.move = refused("table.move", "write a loop")

local numbers = {}
for name, value in next, math do numbers[name] = value end
local same = "a schedule is the same for the same arguments"
numbers.random = refused("math.random", same)
numbers.randomseed = numbers.random
numbers.max, numbers.min = charged(math.max), charged(math.min)

local seen = {
  _VERSION = _VERSION, assert = charged(assert), error = error, ipairs = ipairs, pairs = sorted_pairs,
  select = charged(select), tonumber = charged(tonumber), tostring = text_of, type = type,
  string = texts, table = tables, math = numbers,
  io = refused_table("io", "it has no files"),
  os = refused_table("os", "it has no clock, no files and no processes"),
  debug = refused_table("debug", "it stays in its sandbox"),
  package = refused_table("package", "it is one file"),
  coroutine = refused_table("coroutine", "it is called for each decision, and its own variables stay"),
  utf8 = refused_table("utf8", "schedules need no letters"),
  collectgarbage = refused("collectgarbage", "its memory is bounded already"),
}
function seen.print(...)
  local out = {}
  for i = 1, select("#", ...) do out[i] = text_of((select(i, ...))) end
  print_line(table.concat(out, " "))
end
for _, name in ipairs { "dofile", "load", "loadfile", "loadstring", "require" } do
  seen[name] = refused(name, "it is one file, and loads no code")
end
for _, name in ipairs { "pcall", "xpcall" } do
  seen[name] = refused(name, "its errors are the user's to see")
end
for _, name in ipairs { "getmetatable", "rawequal", "rawget", "rawlen", "rawset", "setmetatable" } do
  seen[name] = refused(name, "there are no metatables")
end

getmetatable("").__index = texts
local all = _G
for name in next, all do all[name] = nil end
for name, value in next, seen do all[name] = value end
all._G = all
)lua";

/// Calls the wrapped function after charging for its arguments.
int call_charged(lua_State* lua) {
  const int count = lua_gettop(lua);
  std::int64_t cost = 1 + count;
  for (int i = 1; i <= count; ++i)
    if (const auto size = std::int64_t(lua_rawlen(lua, i)); lua_type(lua, i) == LUA_TSTRING)
      cost += size / 16;
    else
      cost += size;
  charge(lua, cost);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, count, LUA_MULTRET);
  const int results = lua_gettop(lua);
  charge(lua, results);
  return results;
}

int make_charged(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TFUNCTION);
  lua_settop(lua, 1);
  lua_pushcclosure(lua, call_charged, 1);
  return 1;
}

/// Traversing a table also visits empty slots; their number is bounded by the memory in use.
int charge_table(lua_State* lua) {
  charge(lua, std::int64_t(memory_in_use(lua) / 256));
  return 0;
}

int print_text(lua_State* lua) {
  print_line(lua, luaL_checkstring(lua, 1));
  return 0;
}

}  // namespace

void open_sandbox(lua_State* lua) {
  luaL_requiref(lua, "_G", luaopen_base, 1);
  luaL_requiref(lua, "string", luaopen_string, 1);
  luaL_requiref(lua, "table", luaopen_table, 1);
  luaL_requiref(lua, "math", luaopen_math, 1);
  lua_settop(lua, 0);
  if (luaL_loadbufferx(lua, prelude, std::char_traits<char>::length(prelude), "=prelude", "t")
      != LUA_OK)
    lua_error(lua);
  lua_pushcfunction(lua, make_charged);
  lua_pushcfunction(lua, print_text);
  lua_pushcfunction(lua, charge_table);
  lua_pushstring(lua, script_kind(lua).c_str());
  lua_call(lua, 4, 0);
}

}  // namespace troupe::runtime
