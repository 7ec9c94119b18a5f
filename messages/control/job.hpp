// The life of a job.
//
//   stage -> replica -> supervisor   ready          built, and loaded where there was something
//   supervisor -> node               all_restored   what workers were filled from may be closed
//   signal -> supervisor             drain          finish the step, save, end
//   lane -> its stage                lane_done      one piece of work has ended; so the transport,
//                                                   when what the stage handed on was redeemed
//   supervisor, to itself            save_again     the last iteration is still not saved
//   supervisor -> monitor            conclude       and back: concluded
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
  std::int64_t parameters = 0;  ///< of the sender
  double transfer = 0;  ///< seconds that its state was on its way from a keeper; 0: it was there

  friend bool operator==(const ready&, const ready&) = default;
};

struct all_restored {
  runtime::generation_id generation = {};

  friend bool operator==(const all_restored&, const all_restored&) = default;
};

struct drain {
  std::string why;  ///< "SIGTERM"; it comes from outside the run, so of no generation

  friend bool operator==(const drain&, const drain&) = default;
};

/// From the lane's thread to the stage that owns the lane. What the work made lies where the
/// stage's submission put it. From the transport's, when nobody needs what the stage handed on.
struct lane_done {
  std::uint64_t work = 0;    ///< counts the stage's submissions
  std::string failure = {};  ///< empty: it went well
  bool cancelled = false;    ///< the failure is no fault: the generation has ended
  bool refused = false;      ///< the failure is the user's or the system's
  bool peer_lost = false;    ///< it is that of another process, which is gone

  friend bool operator==(const lane_done&, const lane_done&) = default;
};

/// The supervisor has waited long enough since the last iteration could not be saved.
struct save_again {
  runtime::generation_id generation = {};

  friend bool operator==(const save_again&, const save_again&) = default;
};

/// Supervisor -> monitor: answer when everything you were told is written.
struct conclude {
  runtime::generation_id generation = {};

  friend bool operator==(const conclude&, const conclude&) = default;
};
struct concluded {
  runtime::generation_id generation = {};

  friend bool operator==(const concluded&, const concluded&) = default;
};

/// Supervisor -> node: the job is over; stop whatever you spawned, the last one first.
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
