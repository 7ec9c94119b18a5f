// Messages after a hang in a process, or a broken connection of its data planes.
//
//   watch, to itself     look_at_lanes   time to check the board again
//   watch -> node        suspected       this actor or lane hangs: treat it as dead
//   watch -> front       suspected       the same for the node or a supervisor
//   node -> supervisor   taken_for_dead  the same for an actor that the supervisor watches; its
//                                        later messages are ignored
//
// An actor that hangs in a handler does not see exit messages, so its death would not be reported.
// It is left behind. Its later messages belong to an ended generation, or repeat an answer that its
// replacement gave.

#pragma once

#include "messages/core/inspect.hpp"
#include "runtime/core/ids.hpp"

#include <cstdint>
#include <string>

namespace troupe::messages {

struct look_at_lanes {
  std::uint64_t number = 0;  ///< number of the check
};

struct suspected {
  runtime::generation_id generation = {};  ///< generation of the suspect
  std::string who = {};                    ///< "lane:0.1", "loader", or "connection:1.2"
  std::string why = {};
  /// For a node or a supervisor: its actor number in the process.
  std::uint64_t actor = 0;
};

struct taken_for_dead {
  runtime::generation_id generation = {};  ///< spawned in this generation
  std::string who = {};  ///< "replica:0", "loader", "keeper", "checkpointer", "connection:1.2"
  std::string why = {};  ///< includes its name
};

}  // namespace troupe::messages
