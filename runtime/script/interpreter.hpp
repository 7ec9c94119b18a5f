// A Lua interpreter in a sandbox. What it bounds are instructions and bytes, not seconds: the same
// script ends at the same instruction everywhere.
//
// Lua is Debian's build as C++ (lua5.4-c++): its errors are exceptions, so that what stands between
// them and their handler is destroyed.

#pragma once

#include "runtime/script/schedule_script.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct lua_State;

namespace troupe::runtime {

/// One thread at a time.
class interpreter {
 public:
  /// Runs `text` once. Throws input_error; `file` stands in messages. `prints`: whether print() is
  /// heard.
  interpreter(const std::string& file,
              const std::string& text,
              const script_limits& limits,
              bool prints = true);
  ~interpreter();

  /// Calls `body` with a fresh bound of instructions, where Lua's functions may throw. What they
  /// throw becomes an input_error with file, line and reason; `what` is said where a bound was met,
  /// "plan() for rank 0". What `body` itself throws passes.
  void run(const std::string& what, const std::function<void(lua_State*)>& body);

  struct account;

 private:
  [[noreturn]] void complain(const std::string& what, int status);

  std::unique_ptr<account> account_;
  lua_State* lua_ = nullptr;
};

/// The names that a script finds: those of Lua that end in bounded time and give the same answer
/// everywhere. Called where Lua may throw.
void open_sandbox(lua_State* lua);

/// For C functions that do more than their instruction: throws as Lua does when nothing is left.
void charge(lua_State* lua, std::int64_t instructions);

/// Bytes of memory that the script has now.
std::size_t memory_in_use(lua_State* lua);

/// Of the innermost line of the script that is being carried out; 0: none is.
int script_line(lua_State* lua);

/// On one line, without what steers a terminal, and cut to `most` bytes.
std::string printable(std::string_view text, std::size_t most);

/// A line of print().
void print_line(lua_State* lua, const std::string& text);

}  // namespace troupe::runtime
