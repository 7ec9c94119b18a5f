// Messages to an observer: an actor in a user's process that watches a live run
// (actors/monitor/attach.hpp).
//
//   courier -> observer     committed, validated, happened   as in messages/training/step.hpp
//                           told_record                      a record of another kind
//                           connection_changed               the connection is lost, or restored
//                           run_ended                        the last message
//   attachment -> courier   records_wait                     records for the observer wait

#pragma once

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

/// A record of docs/formats/telemetry.md. For kind `run`, `text` is the answer of /api/run.
struct told_record {
  std::string kind = {};
  std::string text = {};  ///< JSON, on one line

  friend bool operator==(const told_record&, const told_record&) = default;
};

struct connection_changed {
  std::string state = {};  ///< a sentence; empty: connected

  friend bool operator==(const connection_changed&, const connection_changed&) = default;
};

struct run_ended {
  enum class outcome : std::uint8_t {
    ended,  ///< the run has recorded its end
    died,   ///< no process of the run lives, and it recorded no end
    gone,   ///< its folder was removed
    lost    ///< it cannot be followed; `text` has the reason
  };
  outcome how = {};
  int exit_code = 0;      ///< if ended
  std::string text = {};  ///< a sentence

  friend bool operator==(const run_ended&, const run_ended&) = default;
};

struct records_wait {
  std::uint64_t number = 0;  ///< of this message, from 1

  friend bool operator==(const records_wait&, const records_wait&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, told_record& x) {
  return f(caf::meta::type_name("told_record"), x.kind, x.text);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, connection_changed& x) {
  return f(caf::meta::type_name("connection_changed"), x.state);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_ended& x) {
  return f(caf::meta::type_name("run_ended"), x.how, x.exit_code, x.text);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, records_wait& x) {
  return f(caf::meta::type_name("records_wait"), x.number);
}

}  // namespace troupe::messages
