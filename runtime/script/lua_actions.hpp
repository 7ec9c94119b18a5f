// Conversion of actions from and to Lua values.

#pragma once

#include "runtime/schedule/behaviour.hpp"

#include <string>
#include <string_view>
#include <vector>

struct lua_State;

namespace troupe::runtime {

/// Appends the actions of a text: "0F3", "0F0 0F1, 0B0", "(0F7;3B4)". Returns the error in words;
/// empty: success.
std::string read_actions(std::string_view text, std::vector<action>& out);

/// Appends the actions of the Lua value at `index`: a string, {"F", stage, microbatch}, or a table
/// with the fields kind, stage and microbatch.
std::string read_actions(lua_State* lua, int index, std::vector<action>& out);

/// Appends the actions of a row: a string, or a list of such values.
std::string read_row(lua_State* lua, int index, std::vector<action>& out);

/// Pushes the argument of next(): a table like stage_view. Raises Lua errors.
void push_state(lua_State* lua, const stage_view& now);

/// A value for messages: a short quoted string, a number, or the name of its type.
std::string shown(lua_State* lua, int index);

}  // namespace troupe::runtime
