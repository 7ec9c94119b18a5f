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

#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

struct start_process {
  runtime::generation_id generation = {};  ///< requested in this generation
  int process = 0;
  supervisor_actor supervisor = {};  ///< receives the answer, and the report of its death
  /// Start it on another host if possible: its last host is no longer trusted.
  bool elsewhere = false;

  friend bool operator==(const start_process&, const start_process&) = default;
};

struct process_started {
  runtime::generation_id generation = {};
  int process = 0;
  std::uint32_t incarnation = 0;  ///< from 1
  bool lived = false;             ///< already running; may have ranks of older generations
  std::string host = {};
  node_actor node = {};
  std::string refusal = {};  ///< cause of a failure; empty on success

  friend bool operator==(const process_started&, const process_started&) = default;
};

struct process_died {
  runtime::generation_id generation = {};  ///< requested in this generation
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string how = {};  ///< for example "killed by signal 9 (SIGKILL)"

  friend bool operator==(const process_died&, const process_died&) = default;
};

/// The process shares its host, and another host has room. If it is requested again once its states
/// are kept, it starts there.
struct process_may_move {
  runtime::generation_id generation = {};  ///< requested in this generation
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string to = {};  ///< for example "the node at 10.0.0.2:7000"; empty: no host anymore

  friend bool operator==(const process_may_move&, const process_may_move&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, start_process& x) {
  return f(
      caf::meta::type_name("start_process"), x.generation, x.process, x.supervisor, x.elsewhere);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, process_started& x) {
  return f(caf::meta::type_name("process_started"),
           x.generation,
           x.process,
           x.incarnation,
           x.lived,
           x.host,
           x.node,
           x.refusal);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, process_died& x) {
  return f(caf::meta::type_name("process_died"), x.generation, x.process, x.incarnation, x.how);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, process_may_move& x) {
  return f(caf::meta::type_name("process_may_move"), x.generation, x.process, x.incarnation, x.to);
}

}  // namespace troupe::messages
