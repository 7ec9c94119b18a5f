#include "runtime/script/interpreter.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <lua.hpp>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* chunk = "=script";  ///< short: Lua cuts long names; ours stands in `account`
constexpr std::string_view chunk_mark = "script:", prelude_mark = "prelude:";
// SCRIPT-BOUND: every call of a script ends, within its instructions and its memory.
constexpr int stride = 1000;  ///< instructions between two looks at the bound
/// Comparing two texts is one instruction: a bound keeps it a short one.
constexpr std::size_t longest_text = std::size_t{256} << 10;

}  // namespace

struct interpreter::account {
  std::string file;
  script_limits limits;
  bool prints = false;
  lua_State* lua = nullptr;
  std::int64_t left = 0;  ///< instructions
  std::size_t used = 0;   ///< bytes
  int refused_line = 0;   ///< at the last refusal of memory
  bool refused_text = false;
  bool out_of_instructions = false;
  std::exception_ptr thrown = {};  ///< by C++ below Lua
};

namespace {

interpreter::account& account_of(lua_State* lua) {
  void* out = nullptr;
  lua_getallocf(lua, &out);
  return *static_cast<interpreter::account*>(out);
}

void* allocate(void* of, void* old, std::size_t old_size, std::size_t new_size) {
  auto& a = *static_cast<interpreter::account*>(of);
  const std::size_t had = old ? old_size : 0;
  if (new_size == 0) {
    a.used -= had;
    std::free(old);
    return nullptr;
  }
  if (new_size > had) {
    const auto grows = new_size - had;
    // For what is new, Lua says in place of the old size what it will be.
    a.refused_text = !old && old_size == LUA_TSTRING && new_size > longest_text;
    if (a.refused_text || grows > a.limits.memory || a.used > a.limits.memory - grows) {
      a.refused_line = a.lua ? script_line(a.lua) : 0;
      return nullptr;
    }
    a.left -= std::int64_t(grows / 16);
  }
  void* out = std::realloc(old, new_size);
  if (out)
    a.used += new_size - had;
  return out;
}

void on_count(lua_State* lua, lua_Debug*) {
  charge(lua, stride);
}

/// Lua calls this where the error is, before anything is unwound.
int with_position(lua_State* lua) {
  std::size_t size = 0;
  const char* text = lua_type(lua, 1) == LUA_TSTRING ? lua_tolstring(lua, 1, &size) : nullptr;
  if (!text) {
    lua_pushfstring(
        lua,
        lua_isnil(lua, 1) ? "error() without a reason" : "error() with a %s: use a text",
        luaL_typename(lua, 1));
    text = lua_tolstring(lua, -1, &size);
  }
  std::string_view rest(text, size);
  if (rest.starts_with(chunk_mark))
    return 1;
  if (rest.starts_with(prelude_mark))
    rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
  if (const int line = script_line(lua))
    lua_pushfstring(lua, "%s%d: %s", chunk_mark.data(), line, rest.data());
  else
    lua_pushstring(lua, rest.data());
  return 1;
}

int call_body(lua_State* lua) {
  const auto& body = *static_cast<const std::function<void(lua_State*)>*>(lua_touserdata(lua, 1));
  lua_settop(lua, 0);
  try {
    body(lua);
  } catch (const std::exception&) {  // Lua's own are no such
    account_of(lua).thrown = std::current_exception();
  }
  return 0;
}

}  // namespace

int script_line(lua_State* lua) {
  lua_Debug at;
  for (int level = 0; lua_getstack(lua, level, &at); ++level) {
    lua_getinfo(lua, "Sl", &at);
    if (std::strcmp(at.source, chunk) == 0 && at.currentline > 0)
      return at.currentline;
  }
  return 0;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text.substr(0, most))
    out += (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
  return text.size() > most ? out + "..." : out;
}

void charge(lua_State* lua, std::int64_t instructions) {
  auto& a = account_of(lua);
  a.left -= instructions;
  if (a.left >= 0)
    return;
  a.out_of_instructions = true;
  lua_pushliteral(lua, "out of instructions");
  lua_error(lua);
}

void print_line(lua_State* lua, const std::string& text) {
  const auto& a = account_of(lua);
  charge(lua, 1 + std::int64_t(a.limits.instructions / 1000));  // a thousand lines are enough
  if (a.prints)
    log_line(severity::warning,
             fmt::format("{}:{}: {}", a.file, script_line(lua), printable(text, 1000)));
}

interpreter::interpreter(const std::string& file,
                         const std::string& text,
                         const script_limits& limits,
                         bool prints)
    : account_(std::make_unique<account>()) {
  account_->file = file;
  account_->limits = limits;
  account_->prints = prints;
  const std::string what = "the script itself";
  account_->left = std::int64_t(limits.instructions);
  lua_ = lua_newstate(allocate, account_.get());
  if (!lua_)
    complain(what, LUA_ERRMEM);
  account_->lua = lua_;
  try {
    run("its sandbox", open_sandbox);
    lua_sethook(lua_, on_count, LUA_MASKCOUNT, stride);
    run(what, [&](lua_State* lua) {
      std::string_view code = text;
      if (code.starts_with("\xEF\xBB\xBF"))
        code.remove_prefix(3);
      if (code.starts_with('#'))  // as lua does with "#!"; the line's end stays, and is counted
        code.remove_prefix(std::min(code.find('\n'), code.size()));
      if (luaL_loadbufferx(lua, code.data(), code.size(), chunk, "t") != LUA_OK)
        lua_error(lua);
      lua_call(lua, 0, 0);
    });
  } catch (...) {
    lua_close(lua_);
    throw;
  }
}

interpreter::~interpreter() {
  lua_close(lua_);
}

void interpreter::run(const std::string& what, const std::function<void(lua_State*)>& body) {
  account_->left = std::int64_t(account_->limits.instructions);
  account_->out_of_instructions = false;
  lua_settop(lua_, 0);
  lua_pushcfunction(lua_, with_position);
  lua_pushcfunction(lua_, call_body);
  // The casts only take const away; call_body puts it back.
  lua_pushlightuserdata(lua_, const_cast<std::function<void(lua_State*)>*>(&body));
  const int status = lua_pcall(lua_, 1, 0, 1);
  if (auto thrown = std::exchange(account_->thrown, nullptr))
    std::rethrow_exception(thrown);
  if (status != LUA_OK)
    complain(what, status);
}

void interpreter::complain(const std::string& what, int status) {
  const auto& a = *account_;
  const auto at = [&](int line) { return line > 0 ? fmt::format("{}:{}", a.file, line) : a.file; };
  if (status == LUA_ERRMEM && a.refused_text)
    throw input_error("{}: {} makes a text of more than {} KiB; a long row is better a list",
                      at(a.refused_line),
                      what,
                      longest_text >> 10);
  if (status == LUA_ERRMEM)
    throw input_error("{}: {} needs more than the {} KiB of memory that a schedule script has",
                      at(a.refused_line),
                      what,
                      a.limits.memory >> 10);
  std::string message = lua_type(lua_, -1) == LUA_TSTRING ? lua_tostring(lua_, -1) : "an error";
  std::string place = a.file;
  if (message.starts_with(chunk_mark)) {
    const auto end = message.find(':', chunk_mark.size());
    place = a.file + ":" + message.substr(chunk_mark.size(), end - chunk_mark.size());
    message.erase(0, end == message.npos ? end : end + 2);
  }
  if (a.out_of_instructions)
    throw input_error(
        "{}: {} was stopped after the {} instructions that a call has: does a loop "
        "never end?",
        place,
        what,
        a.limits.instructions);
  throw input_error("{}: {}", place, printable(message, 500));
}

}  // namespace troupe::runtime
