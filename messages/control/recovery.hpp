// What follows a death inside a run.
//
//   supervisor -> node               end_generation   and back, when all of it are gone:
//                                                     generation_ended
//   node, to itself                  look_again       somebody of an ended generation is gone
//   supervisor -> replica -> stage   use_loader       a new one serves: ask it for what is missing
//                                    use_keeper       a new one keeps your states
//                                    use_checkpointer a new one takes snapshots
//   supervisor -> checkpointer       use_shard_writer another one writes, or none
//                                    abandon          and back: abandoned
//   supervisor -> front              job_over         the end that was meant
//
// A generation is the set of ranks that work together. Who dies of it ends it: its waits are
// released, its actors stopped, its lanes joined; then another is formed from what is left
// (actors/supervisor/membership.hpp).

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

/// This generation and all before it.
struct end_generation {
  runtime::generation_id last = {};
  job_description job = {};  ///< how long is waited for whom
  /// Processes that live, with which a connection of the process broke: all with them are closed
  /// before it answers, and made anew for the next generation (LINK-1).
  std::vector<int> broken_with = {};

  friend bool operator==(const end_generation&, const end_generation&) = default;
};

/// Of one process: everybody of it is gone.
struct generation_ended {
  runtime::generation_id last = {};
  bool has_state = false;                ///< each rank there has one to go on from:
  std::uint64_t oldest = 0, newest = 0;  ///< the steps whose state all of them have
  int ranks = 0;                         ///< that have ever stood there
  /// Of other processes: the steps of which it keeps the states of all their ranks.
  std::map<int, std::vector<std::uint64_t>> kept = {};
  std::vector<std::string> hung = {};  ///< lanes that did not end in time, and were left behind

  friend bool operator==(const generation_ended&, const generation_ended&) = default;
};

struct look_again {
  runtime::generation_id last = {};

  friend bool operator==(const look_again&, const look_again&) = default;
};

struct use_loader {
  runtime::generation_id generation = {};
  int process = 0;  ///< whose ranks it serves
  loader_actor loader = {};

  friend bool operator==(const use_loader&, const use_loader&) = default;
};

/// Give it the newest state: the one before may not have kept it.
struct use_keeper {
  runtime::generation_id generation = {};
  int process = 0;  ///< whose ranks' states it keeps
  keeper_actor keeper = {};
  /// Who has the state that they begin with: who was asked for it may have died. None: they have
  /// it.
  keeper_actor holder = {};

  friend bool operator==(const use_keeper&, const use_keeper&) = default;
};

struct use_checkpointer {
  runtime::generation_id generation = {};
  checkpointer_actor checkpointer = {};

  friend bool operator==(const use_checkpointer&, const use_checkpointer&) = default;
};

/// What the one before has not acknowledged will not be written.
struct use_shard_writer {
  runtime::generation_id generation = {};
  int process = 0;                 ///< whose ranks it writes
  shard_writer_actor writer = {};  ///< none: it is dead

  friend bool operator==(const use_shard_writer&, const use_shard_writer&) = default;
};

/// The ranks whose snapshots were awaited are gone: forget a save whose parts are not all there.
struct abandon {
  runtime::generation_id generation = {};  ///< the one that ended

  friend bool operator==(const abandon&, const abandon&) = default;
};

/// Whatever was complete has been written or refused, and told before; the rest is forgotten.
struct abandoned {
  runtime::generation_id generation = {};

  friend bool operator==(const abandoned&, const abandoned&) = default;
};

struct job_over {
  int exit_code = 0;
  std::string why = {};  ///< empty when it is done

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
