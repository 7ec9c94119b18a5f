// Actions as scripts write and read them.

#pragma once

#include "runtime/schedule/behaviour.hpp"

#include <string>
#include <string_view>
#include <vector>

struct lua_State;

namespace troupe::runtime {

/// Appends what a text names: "0F3", "0F0 0F1, 0B0", "(0F7;3B4)". What is wrong, in words; empty:
/// nothing.
std::string read_actions(std::string_view text, std::vector<action>& out);

/// Likewise of the value at `index`: a text, {"F", stage, microbatch} or what has the fields kind,
/// stage and microbatch.
std::string read_actions(lua_State* lua, int index, std::vector<action>& out);

/// Likewise of a row: a text, or a list of such values.
std::string read_row(lua_State* lua, int index, std::vector<action>& out);

/// What next() is asked with: a table like stage_view. Raises Lua's errors.
void push_state(lua_State* lua, const stage_view& now);

/// A value in messages: a short text in quotes, a number, or what kind of thing it is.
std::string shown(lua_State* lua, int index);

}  // namespace troupe::runtime
