// A Lua interpreter in a sandbox. The bounds are instructions and bytes instead of seconds: a
// script ends at the same instruction on all machines.
//
// Uses Debian's build of Lua as C++ (lua5.4-c++), in which errors are exceptions that unwind C++
// frames.

#pragma once

#include "runtime/script/schedule_script.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct lua_State;

namespace troupe::runtime {

/// A Lua interpreter, for one thread at a time.
class interpreter {
 public:
  /// Runs `text` once. Throws input_error with the name `file`. `prints`: false ignores print().
  /// `kind`: names the script in messages, such as "a schedule script". `extend`: adds globals
  /// before the text runs.
  interpreter(const std::string& file,
              const std::string& text,
              const script_limits& limits,
              bool prints = true,
              const std::string& kind = "a schedule script",
              const std::function<void(lua_State*)>& extend = {});
  ~interpreter();

  /// Calls `body` with a fresh instruction bound. Lua functions may throw in it; their errors
  /// become an input_error with file, line and reason. `what` names the call if a bound is
  /// exceeded: "plan() for rank 0". C++ exceptions of `body` pass through.
  void run(const std::string& what, const std::function<void(lua_State*)>& body);

  struct account;

 private:
  [[noreturn]] void complain(const std::string& what, int status);

  std::unique_ptr<account> account_;
  lua_State* lua_ = nullptr;
};

/// Installs the globals of a script: the Lua functions that end in bounded time and give the same
/// result everywhere. Call it where Lua may throw.
void open_sandbox(lua_State* lua);

/// Charges for C functions that cost more than one instruction; throws a Lua error at the bound.
void charge(lua_State* lua, std::int64_t instructions);

/// Bytes that the script uses now.
std::size_t memory_in_use(lua_State* lua);

/// The `kind` of the interpreter.
const std::string& script_kind(lua_State* lua);

/// The innermost line of the script that is running; 0: none.
int script_line(lua_State* lua);

/// One line without control characters, cut to `most` bytes.
std::string printable(std::string_view text, std::size_t most);

/// Outputs a line of print().
void print_line(lua_State* lua, const std::string& text);

}  // namespace troupe::runtime
