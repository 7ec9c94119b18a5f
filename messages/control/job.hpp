// Messages for the lifetime of a job.
//
//   stage -> replica -> supervisor   ready          built, and loaded if there is a state to load
//   supervisor -> node               all_restored   the source of initial states may be closed
//   signal -> supervisor             drain          finish the step, save, end
//   lane -> its stage                lane_done      a piece of work has ended; also from the
//                                                   transport, when a hand-off was redeemed
//   supervisor, to itself            save_again     the last iteration is still not saved
//   hub -> supervisor                commands_wait  viewers have sent commands
//   supervisor -> monitor            conclude       answered by concluded
//   supervisor -> node               shut_down      the job is over

#pragma once

#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

struct ready {
  runtime::generation_id generation = {};
  int replica = 0;
  std::int64_t parameters = 0;  ///< number of parameters of the sender
  double transfer = 0;          ///< seconds to transfer its state from a keeper; 0: local

  friend bool operator==(const ready&, const ready&) = default;
};

struct all_restored {
  runtime::generation_id generation = {};

  friend bool operator==(const all_restored&, const all_restored&) = default;
};

struct drain {
  std::string why;  ///< for example "SIGTERM"; has no generation: it comes from outside

  friend bool operator==(const drain&, const drain&) = default;
};

/// Sent by the lane's thread to its stage; results are where the stage's submission put them. Also
/// sent by the transport when a hand-off was redeemed.
struct lane_done {
  std::uint64_t work = 0;    ///< number of the stage's submission
  std::string failure = {};  ///< empty on success
  bool cancelled = false;    ///< not a fault: the generation has ended
  bool refused = false;      ///< caused by the user or the system
  bool peer_lost = false;    ///< caused by the loss of another process

  friend bool operator==(const lane_done&, const lane_done&) = default;
};

/// The supervisor's retry timer after a failed save of the last iteration.
struct save_again {
  runtime::generation_id generation = {};

  friend bool operator==(const save_again&, const save_again&) = default;
};

struct commands_wait {
  runtime::generation_id generation = {};  ///< unused
  bool by_clock = false;                   ///< sent to itself in a pause, to check the time limit

  friend bool operator==(const commands_wait&, const commands_wait&) = default;
};

/// Asks the monitor to answer once all reports are written.
struct conclude {
  runtime::generation_id generation = {};

  friend bool operator==(const conclude&, const conclude&) = default;
};
struct concluded {
  runtime::generation_id generation = {};

  friend bool operator==(const concluded&, const concluded&) = default;
};

/// The job is over: the node stops its actors, the last spawned first.
struct shut_down {
  runtime::generation_id generation = {};

  friend bool operator==(const shut_down&, const shut_down&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ready& x) {
  return f(caf::meta::type_name("ready"), x.generation, x.replica, x.parameters, x.transfer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, all_restored& x) {
  return f(caf::meta::type_name("all_restored"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, drain& x) {
  return f(caf::meta::type_name("drain"), x.why);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, lane_done& x) {
  return f(
      caf::meta::type_name("lane_done"), x.work, x.failure, x.cancelled, x.refused, x.peer_lost);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, commands_wait& x) {
  return f(caf::meta::type_name("commands_wait"), x.generation, x.by_clock);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, save_again& x) {
  return f(caf::meta::type_name("save_again"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, conclude& x) {
  return f(caf::meta::type_name("conclude"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, concluded& x) {
  return f(caf::meta::type_name("concluded"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, shut_down& x) {
  return f(caf::meta::type_name("shut_down"), x.generation);
}

}  // namespace troupe::messages
