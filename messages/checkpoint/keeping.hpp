// How the state of each rank comes to stand in another process, too:
//
//   stage -> keeper        keep         right after `applied`, while the next step runs; and of the
//                                       state that a generation begins with
//   keeper -> supervisor   kept         all ranks of a process have given that step's
//   stage -> keeper        fetch_kept   after its process died: give it back
//   keeper -> stage        kept_state   as tickets
//   keeper -> stage        keep_refused what came is not what was sealed: give it again
//   supervisor -> keeper   store_kept   all have that step and none is writing: to the local disk
//   supervisor -> node     find_stored  and back, stored_found: what is on the local disk
//
// Nobody decides step n + 1 before step n is kept of all processes; until then the arrays that the
// tickets stand for stay as they are, so nothing is copied for it.
//
//   KEEPER-1  `kept` is said when the keeper owns all the bytes, in this generation.
//   KEEPER-2  `kept` is said of states whose arrays have the digests that they were sealed with,
//             which the keeper has taken of what it has.
//   KEEPER-3  When processes have moved, no more are kept on their own host than have to be, and
//             what was kept stays with who has it until another has kept it.

#pragma once

#include "runtime/core/digested_part.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/tensor/ticket.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::messages {

/// Of one chunk: see runtime::rank_state.
struct state_part {
  runtime::chunk_id chunk = {};
  std::int64_t elements = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> own_weights = {};
  std::vector<runtime::ticket> weights = {};
  runtime::ticket kept = {};
  runtime::digested_chunk digested = {};  ///< of what the digests are; without parts: untold

  friend bool operator==(const state_part&, const state_part&) = default;
};

/// Of a rank; the digests of its state are those that it sealed it with.
struct state_of_rank {
  std::vector<state_part> parts = {};
  std::map<std::string, runtime::digest> own = {}, copies = {};

  friend bool operator==(const state_of_rank&, const state_of_rank&) = default;
};

struct keep {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  runtime::step_id since = {};  ///< the first that ended in this state: later ones were left out
  int rank = 0;
  bool unchanged = false;  ///< the step was left out: its state is that of the one before
  state_of_rank state = {};

  friend bool operator==(const keep&, const keep&) = default;
};

/// The arrays that came are not those that were sealed: on the way, or where they lie.
struct keep_refused {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int rank = 0;
  std::string parameter = {};  ///< of which they are not

  friend bool operator==(const keep_refused&, const keep_refused&) = default;
};

struct kept {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int process = 0;                      ///< whose ranks' states they are
  runtime::step_id told_to_store = {};  ///< the newest `store_kept` that it has heard
  /// Is being written to the local disk, or waits for that; 0: none.
  runtime::step_id storing = {};
  std::vector<std::uint64_t> stored = {};  ///< steps that are there, by this process: ascending

  friend bool operator==(const kept&, const kept&) = default;
};

/// All processes have kept the states after this step, and none is writing others: write it.
struct store_kept {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  runtime::step_id common = {};  ///< the newest that all have there, which stays; 0: none is known

  friend bool operator==(const store_kept&, const store_kept&) = default;
};

struct fetch_kept {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int rank = 0;

  friend bool operator==(const fetch_kept&, const fetch_kept&) = default;
};

struct kept_state {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  bool found = false;  ///< else the keeper has lost it: it is not who said that it had it
  state_of_rank state = {};

  friend bool operator==(const kept_state&, const kept_state&) = default;
};

/// What does this process find on the local disk, of any process of the job?
struct find_stored {
  runtime::generation_id generation = {};

  friend bool operator==(const find_stored&, const find_stored&) = default;
};

struct stored_rank {
  int rank = 0;
  std::map<std::string, runtime::digest> own = {};  ///< what it answers for

  friend bool operator==(const stored_rank&, const stored_rank&) = default;
};

/// The states of all ranks of a process, complete.
struct stored_states {
  int process = 0;
  runtime::step_id step = {};
  std::vector<stored_rank> ranks = {};

  friend bool operator==(const stored_states&, const stored_states&) = default;
};

struct stored_found {
  runtime::generation_id generation = {};
  std::vector<stored_states> all = {};

  friend bool operator==(const stored_found&, const stored_found&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, state_part& x) {
  return f(caf::meta::type_name("state_part"),
           x.chunk,
           x.elements,
           x.own_weights,
           x.weights,
           x.kept,
           x.digested);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, keep_refused& x) {
  return f(caf::meta::type_name("keep_refused"), x.generation, x.step, x.rank, x.parameter);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, find_stored& x) {
  return f(caf::meta::type_name("find_stored"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stored_rank& x) {
  return f(caf::meta::type_name("stored_rank"), x.rank, x.own);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stored_states& x) {
  return f(caf::meta::type_name("stored_states"), x.process, x.step, x.ranks);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stored_found& x) {
  return f(caf::meta::type_name("stored_found"), x.generation, x.all);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, state_of_rank& x) {
  return f(caf::meta::type_name("state_of_rank"), x.parts, x.own, x.copies);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, keep& x) {
  return f(
      caf::meta::type_name("keep"), x.generation, x.step, x.since, x.rank, x.unchanged, x.state);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, kept& x) {
  return f(caf::meta::type_name("kept"),
           x.generation,
           x.step,
           x.process,
           x.told_to_store,
           x.storing,
           x.stored);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, store_kept& x) {
  return f(caf::meta::type_name("store_kept"), x.generation, x.step, x.common);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, fetch_kept& x) {
  return f(caf::meta::type_name("fetch_kept"), x.generation, x.step, x.rank);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, kept_state& x) {
  return f(caf::meta::type_name("kept_state"), x.generation, x.step, x.found, x.state);
}

}  // namespace troupe::messages
