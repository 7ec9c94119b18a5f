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
#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

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

  friend bool operator==(const end_generation&, const end_generation&) = default;
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

  friend bool operator==(const generation_ended&, const generation_ended&) = default;
};

struct look_again {
  runtime::generation_id last = {};

  friend bool operator==(const look_again&, const look_again&) = default;
};

struct use_loader {
  runtime::generation_id generation = {};
  int process = 0;  ///< serves the ranks of this process
  loader_actor loader = {};

  friend bool operator==(const use_loader&, const use_loader&) = default;
};

/// Send it the newest state: the previous keeper may not have kept it.
struct use_keeper {
  runtime::generation_id generation = {};
  int process = 0;  ///< keeps the states of this process's ranks
  keeper_actor keeper = {};
  /// The keeper with their initial state, because the one asked before may have died. Null: the
  /// ranks have it.
  keeper_actor holder = {};

  friend bool operator==(const use_keeper&, const use_keeper&) = default;
};

struct use_checkpointer {
  runtime::generation_id generation = {};
  checkpointer_actor checkpointer = {};

  friend bool operator==(const use_checkpointer&, const use_checkpointer&) = default;
};

/// Files that the previous writer has not acknowledged will not be written.
struct use_shard_writer {
  runtime::generation_id generation = {};
  int process = 0;                 ///< writes for the ranks of this process
  shard_writer_actor writer = {};  ///< none: the writer is dead

  friend bool operator==(const use_shard_writer&, const use_shard_writer&) = default;
};

/// Ranks with pending snapshots are gone: drop a save with missing parts.
struct abandon {
  runtime::generation_id generation = {};  ///< the generation that ended

  friend bool operator==(const abandon&, const abandon&) = default;
};

/// Complete saves were written or refused, and reported before this message; the rest is dropped.
struct abandoned {
  runtime::generation_id generation = {};

  friend bool operator==(const abandoned&, const abandoned&) = default;
};

struct job_over {
  int exit_code = 0;
  std::string why = {};  ///< empty if the job is done

  friend bool operator==(const job_over&, const job_over&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, end_generation& x) {
  return f(caf::meta::type_name("end_generation"), x.last, x.job, x.broken_with);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, generation_ended& x) {
  return f(caf::meta::type_name("generation_ended"),
           x.last,
           x.has_state,
           x.oldest,
           x.newest,
           x.ranks,
           x.kept,
           x.hung);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, look_again& x) {
  return f(caf::meta::type_name("look_again"), x.last);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, use_loader& x) {
  return f(caf::meta::type_name("use_loader"), x.generation, x.process, x.loader);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, use_keeper& x) {
  return f(caf::meta::type_name("use_keeper"), x.generation, x.process, x.keeper, x.holder);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, use_checkpointer& x) {
  return f(caf::meta::type_name("use_checkpointer"), x.generation, x.checkpointer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, use_shard_writer& x) {
  return f(caf::meta::type_name("use_shard_writer"), x.generation, x.process, x.writer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, abandon& x) {
  return f(caf::meta::type_name("abandon"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, abandoned& x) {
  return f(caf::meta::type_name("abandoned"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, job_over& x) {
  return f(caf::meta::type_name("job_over"), x.exit_code, x.why);
}

}  // namespace troupe::messages
