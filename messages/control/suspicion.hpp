// What follows when somebody in a process hangs, or a connection of its data planes breaks.
//
//   watch, to itself     look_at_lanes   it is time to look at the board again
//   watch -> node        suspected       this one hangs: take it for dead
//   watch -> front       suspected       the same of the node, or of a supervisor
//   node -> supervisor   taken_for_dead  the same of an actor that it watches; what it says from
//                                        now on counts no more
//
// Who hangs in a handler hears no exit message, so that nobody would be told of its death. It is
// left behind; what it sends later is of a generation that is over, or the second answer to what
// another has answered.

#pragma once

#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

struct look_at_lanes {
  std::uint64_t number = 0;  ///< of the look

  friend bool operator==(const look_at_lanes&, const look_at_lanes&) = default;
};

struct suspected {
  runtime::generation_id generation = {};  ///< it belongs to
  std::string who = {};                    ///< "lane:0.1", "loader", or "connection:1.2"
  std::string why = {};
  /// Of a node or a supervisor: its number among the actors of the process.
  std::uint64_t actor = 0;

  friend bool operator==(const suspected&, const suspected&) = default;
};

struct taken_for_dead {
  runtime::generation_id generation = {};  ///< in which it was spawned
  std::string who = {};  ///< "replica:0", "loader", "keeper", "checkpointer", "connection:1.2"
  std::string why = {};  ///< with its name

  friend bool operator==(const taken_for_dead&, const taken_for_dead&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, look_at_lanes& x) {
  return f(caf::meta::type_name("look_at_lanes"), x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, suspected& x) {
  return f(caf::meta::type_name("suspected"), x.generation, x.who, x.why, x.actor);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, taken_for_dead& x) {
  return f(caf::meta::type_name("taken_for_dead"), x.generation, x.who, x.why);
}

}  // namespace troupe::messages
