#include "runtime/script/interpreter.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <lua.hpp>
#include <map>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

/// short, because Lua cuts long names; the file name is in `account`
constexpr const char* chunk = "=script";
constexpr std::string_view chunk_mark = "script:", prelude_mark = "prelude:";
// SCRIPT-BOUND: each call of a script ends within its bounds of instructions and memory.
constexpr int stride = 1000;  ///< instructions between two checks of the bound
// One instruction may compare two long strings, or copy all arguments of a function. So while long
// strings or many values exist, each instruction costs as many as that work, and both sizes are
// bounded.
constexpr std::size_t longest_text = std::size_t{256} << 10;
constexpr std::size_t long_text = 256;  ///< bytes compared in the time of one instruction
constexpr std::size_t most_stack = std::size_t{1} << 18;  ///< bytes, 16 per value
constexpr std::size_t small_stack = most_stack / 64, stack_an_instruction = 2048;
/// At each `and`, the parser goes through all jumps of an expression again.
constexpr std::size_t longest_source = std::size_t{64} << 10;

/// The address of a block of Lua's memory; 0: none. A number, because freed pointers may not be
/// compared.
using address = std::uintptr_t;

address address_of(const void* block) {
  return reinterpret_cast<address>(block);
}

}  // namespace

struct interpreter::account {
  std::string file;
  std::string kind;
  script_limits limits;
  bool prints = false;
  lua_State* lua = nullptr;
  std::int64_t left = 0;  ///< instructions
  std::size_t used = 0;   ///< bytes
  int refused_line = 0;   ///< at the last refusal of memory
  bool refused_text = false, refused_stack = false;
  std::map<address, std::size_t> long_texts = {};  ///< living long strings: their sizes in bytes
  std::size_t longest = 0;                         ///< of these, since the last check
  address stack = 0;                               ///< Lua's block with the values of all functions
  /// bytes; now, and the maximum since the last check
  std::size_t stack_size = 0, largest_stack = 0;
  address newest = 0;  ///< newest block without a kind
  std::size_t newest_size = 0;
  bool out_of_instructions = false;
  std::exception_ptr thrown = {};  ///< by C++ code below Lua
};

namespace {

interpreter::account& account_of(lua_State* lua) {
  void* out = nullptr;
  lua_getallocf(lua, &out);
  return *static_cast<interpreter::account*>(out);
}

/// Charges for `grows` more bytes of a string or another object. True if they exceed a bound.
bool refuses(interpreter::account& a, int kind, std::size_t size, std::size_t grows) {
  a.refused_text = kind == LUA_TSTRING && size > longest_text;
  const bool full = grows > a.limits.memory || a.used > a.limits.memory - grows;
  // Lua now collects garbage over all its memory and asks again.
  a.left -= std::int64_t(full ? a.used / 32 : grows / 16);
  if (!a.refused_text && !full && a.left >= 0)
    return false;
  if (!a.out_of_instructions)
    a.refused_line = a.lua ? script_line(a.lua) : 0;
  a.out_of_instructions |= a.left < 0;
  return true;
}

void note_stack(interpreter::account& a, address where, std::size_t size) {
  a.stack = where;
  a.stack_size = size;
  a.largest_stack = std::max(a.largest_stack, size);
  if (size <= most_stack)
    return;
  a.refused_stack = true;
  a.left = -1;  // ends at the next allocation or charge
}

/// Records that block `old` became `now`; either may be 0. A growing stack is either the same
/// block, or a new block, after which the old one is freed.
void note(interpreter::account& a, address old, address now, int kind, std::size_t size) {
  if (!old && kind == 0) {
    a.newest = now;
    a.newest_size = size;
  }
  if (old && old == a.stack)
    now ? note_stack(a, now, size) : note_stack(a, a.newest, a.newest_size);
  if (old && !now && !a.long_texts.empty())
    a.long_texts.erase(old);
  if (kind == LUA_TSTRING && size > long_text) {
    a.long_texts.emplace(now, size);
    a.longest = std::max(a.longest, size);
  }
}

void* allocate(void* of, void* old, std::size_t old_size, std::size_t new_size) noexcept {
  auto& a = *static_cast<interpreter::account*>(of);
  const address was = address_of(old);
  const std::size_t had = old ? old_size : 0;
  const int kind = old ? LUA_TNONE : int(old_size);  // Lua passes the kind of a new block here
  if (new_size == 0) {
    a.used -= had;
    note(a, was, 0, kind, 0);
    std::free(old);
    return nullptr;
  }
  if (new_size > had && refuses(a, kind, new_size, new_size - had))
    return nullptr;
  void* out = std::realloc(old, new_size);
  if (out) {
    a.used += new_size - had;
    note(a, was, address_of(out), kind, new_size);
  }
  return out;
}

void on_count(lua_State* lua, lua_Debug*) {
  auto& a = account_of(lua);
  std::size_t each = 1 + a.longest / long_text;
  if (a.largest_stack > small_stack)
    each += a.largest_stack / stack_an_instruction;
  a.longest = 0;
  for (const auto& [where, size] : a.long_texts)
    a.longest = std::max(a.longest, size);
  a.largest_stack = a.stack_size;
  charge(lua, stride * std::int64_t(each));
}

/// Finds Lua's stack: the block that grows when more stack is requested.
void find_stack(lua_State* lua, interpreter::account& a) {
  a.newest = 0;
  lua_checkstack(lua, 200);
  note_stack(a, a.newest, a.newest_size);
}

/// True if a string of the script has a byte 0: Lua compares such strings piece by piece.
bool writes_zero(std::string_view code) {
  const auto is_zero = [](std::string_view digits, std::string_view these, std::size_t most) {
    const auto end = std::min({digits.find_first_not_of(these), digits.size(), most});
    return end > 0 && digits.substr(0, end).find_first_not_of('0') == digits.npos;
  };
  for (std::size_t i = 0; i + 1 < code.size(); ++i) {
    if (code[i] != '\\')
      continue;
    const auto after = code.substr(++i);
    if (is_zero(after, "0123456789", 3)
        || (after.front() == 'x' && is_zero(after.substr(1), "0123456789abcdefABCDEF", 2))
        || (after.starts_with("u{") && is_zero(after.substr(2), "0123456789abcdefABCDEF", 65536)))
      return true;
  }
  return code.find('\0') != code.npos;
}

/// Checks a script before Lua reads it.
void check_source(const std::string& file, const std::string& kind, std::string_view code) {
  if (code.size() > longest_source)
    throw input_error(
        "{}: has {} bytes; {} has at most {}{}",
        file,
        code.size(),
        kind,
        longest_source,
        kind == "a schedule script" ? ": give a list of actions as a plan, FILE.csv" : "");
  if (writes_zero(code))
    throw input_error(
        "{}: has a byte 0, or writes one in a text (\\0); texts of {} have none", file, kind);
}

/// Called by Lua at the place of the error, before unwinding.
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
  } catch (const std::exception&) {  // Lua's own exceptions are not of this type
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
  if (!a.out_of_instructions)
    a.refused_line = script_line(lua);
  a.out_of_instructions = true;
  lua_pushliteral(lua, "out of instructions");
  lua_error(lua);
}

const std::string& script_kind(lua_State* lua) {
  return account_of(lua).kind;
}

std::size_t memory_in_use(lua_State* lua) {
  return account_of(lua).used;
}

void print_line(lua_State* lua, const std::string& text) {
  const auto& a = account_of(lua);
  charge(lua, 1 + std::int64_t(a.limits.instructions / 1000));  // allows about a thousand lines
  if (a.prints)
    log_line(severity::warning,
             fmt::format("{}:{}: {}", a.file, script_line(lua), printable(text, 1000)));
}

interpreter::interpreter(const std::string& file,
                         const std::string& text,
                         const script_limits& limits,
                         bool prints,
                         const std::string& kind,
                         const std::function<void(lua_State*)>& extend)
    : account_(std::make_unique<account>()) {
  account_->file = file;
  account_->kind = kind;
  account_->limits = limits;
  account_->prints = prints;
  const std::string what = "the script itself";
  account_->left = std::int64_t(limits.instructions);
  lua_ = lua_newstate(allocate, account_.get());
  if (!lua_)
    complain(what, LUA_ERRMEM);
  account_->lua = lua_;
  try {
    find_stack(lua_, *account_);
    check_source(file, kind, text);
    run("its sandbox", open_sandbox);
    if (extend)
      run("its sandbox", extend);
    lua_sethook(lua_, on_count, LUA_MASKCOUNT, stride);
    run(what, [&](lua_State* lua) {
      std::string_view code = text;
      if (code.starts_with("\xEF\xBB\xBF"))
        code.remove_prefix(3);
      if (code.starts_with('#'))  // as lua does for "#!"; the line end stays, so line numbers stay
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
  account_->out_of_instructions = account_->refused_text = account_->refused_stack = false;
  lua_settop(lua_, 0);
  lua_pushcfunction(lua_, with_position);
  lua_pushcfunction(lua_, call_body);
  // Removes only const; call_body restores it.
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
  const auto stopped = [&](const std::string& place) {
    if (a.refused_stack)
      return input_error(
          "{}: {} has too many values at once: arguments, or functions called within "
          "functions; pass a long list as a table",
          place,
          what);
    return input_error(
        "{}: {} was stopped after the {} instructions that a call may execute: "
        "look for an endless loop",
        place,
        what,
        a.limits.instructions);
  };
  if (status == LUA_ERRMEM && a.refused_text)
    throw input_error("{}: {} makes a text of more than {} KiB; return a long row as a list",
                      at(a.refused_line),
                      what,
                      longest_text >> 10);
  if (status == LUA_ERRMEM && a.out_of_instructions)
    throw stopped(at(a.refused_line));
  if (status == LUA_ERRMEM)
    throw input_error("{}: {} needs more than the {} KiB of memory that {} has",
                      at(a.refused_line),
                      what,
                      a.limits.memory >> 10,
                      a.kind);
  std::string message = lua_type(lua_, -1) == LUA_TSTRING ? lua_tostring(lua_, -1) : "an error";
  std::string place = a.file;
  if (message.starts_with(chunk_mark)) {
    const auto end = message.find(':', chunk_mark.size());
    place = a.file + ":" + message.substr(chunk_mark.size(), end - chunk_mark.size());
    message.erase(0, end == message.npos ? end : end + 2);
  }
  if (a.out_of_instructions)
    throw stopped(place);
  throw input_error("{}: {}", place, printable(message, 500));
}

}  // namespace troupe::runtime
