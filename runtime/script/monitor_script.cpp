#include "runtime/script/monitor_script.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/script/interpreter.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <lua.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;

constexpr const char* monitor_kind = "a monitor script";
constexpr int deepest_record = 64, deepest_table = 16;
/// Costs in Lua instructions: they limit the alarms and requests of one call.
constexpr std::int64_t cost_of_alarm = 10'000, cost_of_request = 1'000'000;

struct record_handler {
  std::string_view record;  ///< kind
  const char* function;
};
constexpr std::array<record_handler, 4> record_handlers = {{{"step", "on_step"},
                                                            {"validation", "on_validation"},
                                                            {"event", "on_event"},
                                                            {"end", "on_end"}}};

void push_text(lua_State* lua, std::string text) {
  charge(lua, 1 + std::int64_t(text.size() / 16));
  std::ranges::replace(text, '\0', ' ');  // SCRIPT-BOUND
  lua_pushlstring(lua, text.data(), text.size());
}

void push_value(lua_State* lua, const json& x) {
  luaL_checkstack(lua, 4, "the record");
  charge(lua, 1);
  if (x.is_boolean())
    lua_pushboolean(lua, x.get<bool>() ? 1 : 0);
  else if (const auto whole = whole_number_in(x))
    lua_pushinteger(lua, *whole);
  else if (x.is_number())
    lua_pushnumber(lua, x.get<double>());
  else if (x.is_string())
    push_text(lua, x.get<std::string>());
  else if (x.is_array()) {
    lua_newtable(lua);
    lua_Integer place = 0;
    for (const auto& one : x) {
      push_value(lua, one);
      lua_rawseti(lua, -2, ++place);
    }
  } else if (x.is_object()) {
    lua_newtable(lua);
    for (const auto& [name, one] : x.items()) {
      push_text(lua, name);
      push_value(lua, one);
      lua_rawset(lua, -3);
    }
  } else
    lua_pushnil(lua);
}

json value_at(lua_State* lua, int index, int depth);

std::string text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* const text = lua_tolstring(lua, index, &size);
  return {text, size};
}

/// The text of a table key. Must not convert the key in place: lua_next needs its original type.
std::string key_at(lua_State* lua, int index) {
  if (lua_isinteger(lua, index))
    return std::to_string(lua_tointeger(lua, index));
  if (lua_type(lua, index) != LUA_TSTRING)
    throw input_error("a table for JSON has a key of type {}; use strings",
                      luaL_typename(lua, index));
  return text_at(lua, index);
}

json table_at(lua_State* lua, int index, int depth) {
  if (depth > deepest_table)
    throw input_error("a table for JSON nests deeper than {} levels", deepest_table);
  luaL_checkstack(lua, 4, "a table for JSON");
  charge(lua, 1 + std::int64_t(memory_in_use(lua) / 256));  // lua_next visits empty slots
  const auto length = lua_rawlen(lua, index);
  json all = json::object();
  for (lua_pushnil(lua); lua_next(lua, index) != 0; lua_pop(lua, 1)) {
    charge(lua, 1);
    all[key_at(lua, -2)] = value_at(lua, lua_gettop(lua), depth + 1);
  }
  if (length == 0 || all.size() != length)
    return all;
  auto list = json::array();
  for (std::size_t i = 1; i <= length; ++i)
    list.push_back(std::move(all[std::to_string(i)]));
  return list;
}

json value_at(lua_State* lua, int index, int depth) {
  switch (lua_type(lua, index)) {
    case LUA_TNIL:
      return nullptr;
    case LUA_TBOOLEAN:
      return lua_toboolean(lua, index) != 0;
    case LUA_TNUMBER:
      if (lua_isinteger(lua, index) != 0)
        return std::int64_t(lua_tointeger(lua, index));
      return double(lua_tonumber(lua, index));
    case LUA_TSTRING:
      return text_at(lua, index);
    case LUA_TTABLE:
      return table_at(lua, index, depth);
    default:
      throw input_error("JSON has no {}", luaL_typename(lua, index));
  }
}

/// The JSON command {"command": NAME, ...} from a text, {NAME, ...} or {command = NAME, ...}.
json command_at(lua_State* lua, int index) {
  if (lua_type(lua, index) == LUA_TSTRING)
    return json{{"command", text_at(lua, index)}};
  if (lua_type(lua, index) != LUA_TTABLE)
    throw input_error("command needs a table, such as command{{\"pause\"}}");
  auto out = table_at(lua, index, 0);
  if (out.is_array() && out.size() == 1)
    return json{{"command", out[0]}};
  if (out.is_object() && out.contains("1") && !out.contains("command")) {
    out["command"] = out["1"];
    out.erase("1");
  }
  return out;
}

/// Turns a C++ exception into a Lua error, which names the line of the script.
template <class Work>
int as_lua_errors(lua_State* lua, const Work& work) {
  std::string why;
  try {
    return work(*static_cast<const monitor_actions*>(lua_touserdata(lua, lua_upvalueindex(1))));
  } catch (const std::exception& failure) {  // Lua's own exceptions have another type
    why = failure.what();
  }
  lua_pushlstring(lua, why.data(), why.size());
  return lua_error(lua);
}

int push_answer(lua_State* lua, const action_answer& x) {
  if (!x.done)
    lua_pushnil(lua);
  push_text(lua, x.text);
  return x.done ? 1 : 2;
}

int lua_alarm(lua_State* lua) {
  charge(lua, cost_of_alarm);
  const std::string_view text = luaL_checkstring(lua, 1);
  return as_lua_errors(lua, [&](const monitor_actions& by) {
    constexpr std::size_t most = 1000;
    by.alarm(printable(text, most));
    return 0;
  });
}

int lua_command(lua_State* lua) {
  charge(lua, cost_of_request);
  return as_lua_errors(lua, [&](const monitor_actions& by) {
    if (!by.command)
      throw input_error(
          "command needs the run's control token: name the run by its folder instead of HOST:PORT");
    return push_answer(lua, by.command(json_text_replacing(command_at(lua, 1))));
  });
}

int lua_post(lua_State* lua) {
  charge(lua, cost_of_request);
  const std::string url = luaL_checkstring(lua, 1);
  luaL_checktype(lua, 2, LUA_TTABLE);
  return as_lua_errors(lua, [&](const monitor_actions& by) {
    return push_answer(lua, by.post(url, json_text_replacing(table_at(lua, 2, 0))));
  });
}

void add_actions(lua_State* lua, const monitor_actions& actions) {
  constexpr std::array<std::pair<const char*, lua_CFunction>, 3> all
      = {{{"alarm", lua_alarm}, {"command", lua_command}, {"post", lua_post}}};
  for (const auto& [name, function] : all) {
    // Lua takes a pointer to non-const; as_lua_errors adds const again.
    lua_pushlightuserdata(lua, const_cast<monitor_actions*>(&actions));
    lua_pushcclosure(lua, function, 1);
    lua_setglobal(lua, name);
  }
}

bool has_function(lua_State* lua, const char* name, const std::string& file) {
  const int type = lua_getglobal(lua, name);
  if (type != LUA_TNIL && type != LUA_TFUNCTION)
    throw input_error(
        "{}: '{}' is a {}; it must be a function", file, name, luaL_typename(lua, -1));
  lua_pop(lua, 1);
  return type == LUA_TFUNCTION;
}

}  // namespace

struct monitor_script::state {
  state(const std::string& file,
        const std::string& text,
        monitor_actions by,
        const script_limits& limits)
      : actions(std::move(by)), lua(file, text, limits, true, monitor_kind, [this](lua_State* to) {
          add_actions(to, actions);
        }) {
    lua.run("the script itself", [&](lua_State* of) {
      for (const auto& one : record_handlers)
        if (has_function(of, one.function, file))
          defined.insert(one.function);
    });
    if (defined.empty())
      throw input_error(
          "{}: defines none of on_step(step), on_validation(x), on_event(event) and on_end(x), so "
          "it would watch nothing",
          file);
  }

  const monitor_actions actions;
  interpreter lua;
  std::set<std::string> defined;
};

monitor_script::monitor_script(const std::string& file,
                               const std::string& text,
                               monitor_actions actions,
                               const script_limits& limits)
    : state_(std::make_unique<state>(file, text, std::move(actions), limits)) {}
monitor_script::~monitor_script() = default;

void monitor_script::take(std::string_view record, bool past) {
  if (json_depth(record) > deepest_record)
    return;
  auto x = json_value_or_discarded(record);
  const auto found = x.is_object() ? x.find("kind") : x.end();
  if (!x.is_object() || found == x.end() || !found->is_string())
    return;
  const auto known = std::ranges::find(record_handlers,
                                       std::string_view(found->get_ref<const std::string&>()),
                                       &record_handler::record);
  if (known == record_handlers.end() || !state_->defined.contains(known->function))
    return;
  x["past"] = past;
  state_->lua.run(std::string(known->function) + "()", [&](lua_State* lua) {
    lua_getglobal(lua, known->function);
    push_value(lua, x);
    lua_call(lua, 1, 0);
  });
}

}  // namespace troupe::runtime
