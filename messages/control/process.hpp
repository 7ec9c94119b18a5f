// Messages to start processes that host ranks, and to report their ends.
//
//   supervisor -> agent   start_process     a process of this number, unless one is running
//   agent -> supervisor   process_started   its node, or why it cannot start
//                         process_died      as soon as the host knows
//                         process_may_move  another host has room for it
//
// A process has a number, which is its place in the job, and an incarnation, which increases with
// each start at that place. The death of an incarnation does not affect later ones.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <cstdint>
#include <string>

namespace troupe::messages {

struct start_process {
  runtime::generation_id generation = {};  ///< requested in this generation
  int process = 0;
  supervisor_actor supervisor = {};  ///< receives the answer, and the report of its death
  /// Start it on another host if possible: its last host is no longer trusted.
  bool elsewhere = false;
};

struct process_started {
  runtime::generation_id generation = {};
  int process = 0;
  std::uint32_t incarnation = 0;  ///< from 1
  bool lived = false;             ///< already running; may have ranks of older generations
  std::string host = {};
  std::string domain = {};  ///< failure domain of the host; empty: the host alone
  node_actor node = {};
  std::string refusal = {};        ///< cause of a failure; empty on success
  connector_actor connector = {};  ///< none: it needs no connections
  process_address where = {};      ///< for its neighbours
};

struct process_died {
  runtime::generation_id generation = {};  ///< requested in this generation
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string how = {};  ///< for example "killed by signal 9 (SIGKILL)"
};

/// Its host exceeds its slots, and another one has a free slot. If it is requested again once its
/// states are kept, it starts there.
struct process_may_move {
  runtime::generation_id generation = {};  ///< requested in this generation
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string to = {};  ///< for example "the node at 10.0.0.2:7000"; empty: no host anymore
};

}  // namespace troupe::messages
