// Messages to an observer: an actor in a user's process that watches a live run
// (actors/monitor/attach.hpp).
//
//   courier -> observer     committed, validated, happened   as in messages/training/step.hpp
//                           told_record                      a record of another kind
//                           connection_changed               the connection is lost, or restored
//                           run_ended                        the last message
//   attachment -> courier   records_wait                     records for the observer wait

#pragma once

#include "messages/core/inspect.hpp"

#include <cstdint>
#include <string>

namespace troupe::messages {

/// A record of docs/formats/telemetry.md. For kind `run`, `text` is the answer of /api/run.
struct told_record {
  std::string kind = {};
  std::string text = {};  ///< JSON, on one line
};

struct connection_changed {
  std::string state = {};  ///< a sentence; empty: connected
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
};

struct records_wait {
  std::uint64_t number = 0;  ///< of this message, from 1
};

}  // namespace troupe::messages
