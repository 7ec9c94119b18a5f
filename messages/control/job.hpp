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
//
// With several processes, `ready` and `all_restored` go along their tree
// (messages/training/step.hpp).

#pragma once

#include "messages/core/inspect.hpp"
#include "runtime/core/ids.hpp"

#include <cstdint>
#include <string>

namespace troupe::messages {

struct ready {
  runtime::generation_id generation = {};
  int replica = 0;      ///< of a branch: unused
  double transfer = 0;  ///< seconds of the slowest transfer of a state from a keeper; 0: all local
  int replicas = 1;     ///< of a branch: the number of replicas below it
};

struct all_restored {
  runtime::generation_id generation = {};
};

struct drain {
  std::string why;  ///< for example "SIGTERM"; has no generation: it comes from outside
};

/// Sent by the lane's thread to its stage; results are where the stage's submission put them. Also
/// sent by the transport when a hand-off was redeemed.
struct lane_done {
  std::uint64_t work = 0;    ///< number of the stage's submission
  std::string failure = {};  ///< empty on success
  bool cancelled = false;    ///< not a fault: the generation has ended
  bool refused = false;      ///< caused by the user or the system
  bool peer_lost = false;    ///< caused by the loss of another process
};

/// The supervisor's retry timer after a failed save of the last iteration.
struct save_again {
  runtime::generation_id generation = {};
};

struct commands_wait {
  runtime::generation_id generation = {};  ///< unused
  bool by_clock = false;                   ///< sent to itself in a pause, to check the time limit
};

/// Asks the monitor to answer once all reports are written.
struct conclude {
  runtime::generation_id generation = {};
};
struct concluded {
  runtime::generation_id generation = {};
};

/// The job is over: the node stops its actors, the last spawned first.
struct shut_down {
  runtime::generation_id generation = {};
};

}  // namespace troupe::messages
