// Messages after a failure in a run.
//
//   supervisor -> node               end_generation   answered by generation_ended, when all its
//                                                     actors and lanes are gone
//   node, to itself                  look_again       an actor or lane of an ended generation has
//                                                     gone
//   supervisor -> replica -> stage   use_loader       a new loader: repeat open requests
//                                    use_keeper       a new keeper of your states
//                                    use_checkpointer a new checkpointer
//   supervisor -> checkpointer       use_shard_writer a new shard writer, or none
//                                    abandon          answered by abandoned
//   supervisor -> front              job_over         the job has ended
//
// A generation is the set of ranks that work together. The death of one ends it: waits are
// released, actors stopped, lanes joined. Then the supervisor forms a new generation from what is
// left (actors/supervisor/membership.hpp).

#pragma once

#include "messages/control/spawn.hpp"
#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::messages {

/// Ends this generation and all earlier ones.
struct end_generation {
  runtime::generation_id last = {};
  job_description job = {};  ///< contains the timeouts
  /// Living processes to which a connection broke: the receiver closes all connections to them
  /// before it answers. The next generation makes new ones (LINK-1).
  std::vector<int> broken_with = {};
};

/// All actors and lanes of the generation in one process are gone.
struct generation_ended {
  runtime::generation_id last = {};
  bool has_state = false;                ///< every rank of the process has a state to restart from
  std::uint64_t oldest = 0, newest = 0;  ///< all its ranks have the states of these steps
  int ranks = 0;                         ///< number of ranks that were ever there
  /// For other processes: steps for which this process keeps the states of all their ranks.
  std::map<int, std::vector<std::uint64_t>> kept = {};
  std::vector<std::string> hung = {};  ///< lanes that did not end in time and were left behind
};

struct look_again {
  runtime::generation_id last = {};
};

struct use_loader {
  runtime::generation_id generation = {};
  int process = 0;  ///< serves the ranks of this process
  loader_actor loader = {};
};

/// Send it the newest state: the previous keeper may not have kept it.
struct use_keeper {
  runtime::generation_id generation = {};
  int process = 0;  ///< keeps the states of this process's ranks
  keeper_actor keeper = {};
  /// The keeper with their initial state, because the one asked before may have died. Null: the
  /// ranks have it.
  keeper_actor holder = {};
};

struct use_checkpointer {
  runtime::generation_id generation = {};
  checkpointer_actor checkpointer = {};
};

/// Files that the previous writer has not acknowledged will not be written.
struct use_shard_writer {
  runtime::generation_id generation = {};
  int process = 0;                 ///< writes for the ranks of this process
  shard_writer_actor writer = {};  ///< none: the writer is dead
};

/// Ranks with pending snapshots are gone: drop a save with missing parts.
struct abandon {
  runtime::generation_id generation = {};  ///< the generation that ended
};

/// Complete saves were written or refused, and reported before this message; the rest is dropped.
struct abandoned {
  runtime::generation_id generation = {};
};

struct job_over {
  int exit_code = 0;
  std::string why = {};  ///< empty if the job is done
};

}  // namespace troupe::messages
