// Processes that host ranks: who starts them, and who learns how they ended.
//
//   supervisor -> agent   start_process     one of this number, unless it lives
//   agent -> supervisor   process_started   its node; or why it cannot be
//                         process_died      as soon as the host knows
//                         process_may_move  it would stand on a host of its own
//
// A process has a number, which is its place in the job, and an incarnation, which rises with each
// that takes the place. The death of an incarnation changes nothing in a later one.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

struct start_process {
  runtime::generation_id generation = {};  ///< in which it is wanted
  int process = 0;
  supervisor_actor supervisor = {};  ///< is told, now and of its death
  /// On another host, where there is one: this one is not to be trusted with it any more.
  bool elsewhere = false;

  friend bool operator==(const start_process&, const start_process&) = default;
};

struct process_started {
  runtime::generation_id generation = {};
  int process = 0;
  std::uint32_t incarnation = 0;  ///< from 1
  bool lived = false;             ///< it was there already, and may have ranks of older generations
  std::string host = {};
  node_actor node = {};
  std::string refusal = {};  ///< why there is none; empty: there is

  friend bool operator==(const process_started&, const process_started&) = default;
};

struct process_died {
  runtime::generation_id generation = {};  ///< in which it was asked for
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string how = {};  ///< "killed by signal 9 (SIGKILL)"

  friend bool operator==(const process_died&, const process_died&) = default;
};

/// It shares its host, and another one has room. Asked for again, when its states are kept, it is
/// started there.
struct process_may_move {
  runtime::generation_id generation = {};  ///< in which it was asked for
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string to = {};  ///< "the node at 10.0.0.2:7000"; empty: no host any more

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
