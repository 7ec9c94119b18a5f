#include "runtime/script/lua_actions.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/csv_action.hpp"
#include "runtime/script/interpreter.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <lua.hpp>

namespace troupe::runtime {
namespace {

constexpr std::uint32_t most = 1'000'000;  ///< as in csv_action.cpp
constexpr std::string_view separators = " ,\t\r\n";
constexpr std::string_view letters = "FBIW";
constexpr action_kind kinds[] = {action_kind::forward,
                                 action_kind::backward,
                                 action_kind::input_gradients,
                                 action_kind::weight_gradients};

std::string quoted(std::string_view text) {
  return "\"" + printable(text, 40) + "\"";
}

action action_of(std::string_view text) {
  const auto read = action_from_text(text);
  const auto& x = read.what;
  if (read.names_copy || x.block != 0 || std::find(kinds, kinds + 4, x.kind) == kinds + 4)
    throw input_error(
        "a script's plan has F, B, I and W of one copy of the model; recomputation and "
        "transfers are added to it");
  return x;
}

/// A pair "(0F7;3B4)" or one action.
std::string read_cell(std::string_view cell, std::vector<action>& out) {
  try {
    if (cell.front() != '(') {
      out.push_back(action_of(cell));
      return "";
    }
    const auto middle = cell.find(';');
    if (cell.back() != ')' || middle == cell.npos)
      throw input_error("a pair is written (0F7;3B4)");
    auto first = action_of(cell.substr(1, middle - 1));
    first.with_next = true;
    const auto second = action_of(cell.substr(middle + 1, cell.size() - middle - 2));
    out.push_back(first);
    out.push_back(second);
    return "";
  } catch (const input_error& why) {
    return fmt::format("{} is not an action: {}", quoted(cell), printable(why.what(), 300));
  }
}

/// Reads a field of a table by name or position; leaves the Lua stack unchanged.
bool whole_number(lua_State* lua, int table, const char* name, int position, std::uint32_t& out) {
  if (lua_pushstring(lua, name), lua_rawget(lua, table) == LUA_TNIL) {
    lua_pop(lua, 1);
    lua_rawgeti(lua, table, position);
  }
  int whole = 0;
  const auto x = lua_tointegerx(lua, -1, &whole);
  const bool good = lua_type(lua, -1) == LUA_TNUMBER && whole && x >= 0 && x <= most;
  lua_pop(lua, 1);
  out = std::uint32_t(good ? x : 0);
  return good;
}

std::string read_table(lua_State* lua, int table, action& out) {
  if (lua_pushliteral(lua, "kind"), lua_rawget(lua, table) == LUA_TNIL) {
    lua_pop(lua, 1);
    lua_rawgeti(lua, table, 1);
  }
  std::size_t size = 0;
  const char* kind = lua_type(lua, -1) == LUA_TSTRING ? lua_tolstring(lua, -1, &size) : nullptr;
  const auto letter = kind && size == 1 ? letters.find(*kind) : letters.npos;
  const auto found = shown(lua, -1);
  lua_pop(lua, 1);
  if (letter == letters.npos)
    return fmt::format(
        "a table whose kind is {}; expected {{\"F\", stage, microbatch}} with F, B, "
        "I or W",
        found);
  std::uint32_t stage = 0, microbatch = 0;
  if (!whole_number(lua, table, "stage", 2, stage)
      || !whole_number(lua, table, "microbatch", 3, microbatch))
    return fmt::format(
        "a table of kind {} without stage and micro-batch, whole numbers from 0 to "
        "{}; expected {{\"{}\", stage, microbatch}}",
        found,
        most,
        letters[letter]);
  out = {kinds[letter], chunk_id(stage), microbatch_id(microbatch)};
  return "";
}

void set_number(lua_State* lua, const char* name, int value) {
  lua_pushinteger(lua, value);
  lua_setfield(lua, -2, name);
}

void push_ready(lua_State* lua, const action& x) {
  const char letter = letters[std::size_t(std::find(kinds, kinds + 4, x.kind) - kinds)];
  lua_createtable(lua, 0, 4);
  lua_pushlstring(lua, &letter, 1);
  lua_setfield(lua, -2, "kind");
  set_number(lua, "stage", int(value(x.chunk)));
  set_number(lua, "microbatch", int(value(x.microbatch)));
  lua_pushfstring(lua, "%d%c%d", int(value(x.chunk)), letter, int(value(x.microbatch)));
  lua_setfield(lua, -2, "text");
}

}  // namespace

std::string read_actions(std::string_view text, std::vector<action>& out) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty())
      return "";
    const auto end = std::min(text.find_first_of(separators), text.size());
    if (auto why = read_cell(text.substr(0, end), out); !why.empty())
      return why;
    text.remove_prefix(end);
  }
}

std::string read_actions(lua_State* lua, int index, std::vector<action>& out) {
  index = lua_absindex(lua, index);
  if (lua_type(lua, index) == LUA_TSTRING) {
    std::size_t size = 0;
    const char* text = lua_tolstring(lua, index, &size);
    charge(lua, 1 + std::int64_t(size / 4));
    return read_actions({text, size}, out);
  }
  if (!lua_istable(lua, index))
    return fmt::format("{} is not an action; expected \"0F3\" or {{\"F\", stage, microbatch}}",
                       shown(lua, index));
  action x;
  if (auto why = read_table(lua, index, x); !why.empty())
    return why;
  out.push_back(x);
  return "";
}

std::string read_row(lua_State* lua, int index, std::vector<action>& out) {
  index = lua_absindex(lua, index);
  const auto located = [&](const std::string& why) {
    return why.empty() ? why : fmt::format("action {}: {}", out.size() + 1, why);
  };
  if (lua_type(lua, index) == LUA_TSTRING)
    return located(read_actions(lua, index, out));
  if (!lua_istable(lua, index))
    return fmt::format(
        "it returned {}; expected a text as \"0F0 0B0\", or a list of \"0F0\" or "
        "{{\"F\", stage, microbatch}}",
        shown(lua, index));
  const auto count = lua_rawlen(lua, index);
  lua_pushnil(lua);
  if (count == 0 && lua_next(lua, index) != 0) {
    const auto key = shown(lua, -2);
    return fmt::format("it returned a table with the key {}; expected a list of actions", key);
  }
  lua_settop(lua, index);
  for (lua_Unsigned i = 1; i <= count; ++i) {
    lua_rawgeti(lua, index, lua_Integer(i));
    if (const auto why = read_actions(lua, -1, out); !why.empty())
      return located(why);
    if (out.size() > most)
      return fmt::format("it returned more than {} actions", most);
    lua_pop(lua, 1);
  }
  return "";
}

void push_state(lua_State* lua, const stage_view& now) {
  lua_createtable(lua, 0, 8);
  set_number(lua, "rank", now.rank);
  set_number(lua, "ranks", now.ranks);
  set_number(lua, "chunks", now.chunks);
  set_number(lua, "microbatches", now.microbatches);
  set_number(lua, "held", now.held);
  lua_createtable(lua, int(now.ready.size()), 0);
  for (std::size_t i = 0; i < now.ready.size(); ++i) {
    push_ready(lua, now.ready[i]);
    lua_rawseti(lua, -2, lua_Integer(i + 1));
  }
  lua_setfield(lua, -2, "ready");
  lua_createtable(lua, int(now.hosted.size()), 0);
  for (std::size_t i = 0; i < now.hosted.size(); ++i) {
    lua_pushinteger(lua, value(now.hosted[i]));
    lua_rawseti(lua, -2, lua_Integer(i + 1));
  }
  lua_setfield(lua, -2, "hosted");
  lua_createtable(lua, 0, int(now.hosted.size()));
  for (std::size_t i = 0; i < now.hosted.size(); ++i) {
    lua_createtable(lua, 0, 3);
    set_number(lua, "F", now.finished[i].forward);
    set_number(lua, "I", now.finished[i].input_gradients);
    set_number(lua, "W", now.finished[i].weight_gradients);
    lua_rawseti(lua, -2, value(now.hosted[i]));
  }
  lua_setfield(lua, -2, "done");
}

std::string shown(lua_State* lua, int index) {
  switch (lua_type(lua, index)) {
    case LUA_TNIL:
      return "nil";
    case LUA_TBOOLEAN:
      return lua_toboolean(lua, index) ? "true" : "false";
    case LUA_TNUMBER:
      return lua_isinteger(lua, index) ? fmt::format("{}", lua_tointeger(lua, index))
                                       : fmt::format("{}", lua_tonumber(lua, index));
    case LUA_TSTRING: {
      std::size_t size = 0;
      const char* text = lua_tolstring(lua, index, &size);
      return quoted({text, size});
    }
    default:
      return fmt::format("a {}", luaL_typename(lua, index));
  }
}

}  // namespace troupe::runtime
