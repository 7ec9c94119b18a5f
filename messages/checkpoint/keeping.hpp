// Messages that copy the state of each rank to a keeper in another process:
//
//   stage -> keeper        keep         after `applied`, while the next step runs; also the initial
//                                       state of a generation
//   keeper -> node -> supervisor
//                          kept         all ranks of a process have sent that step's state; a node
//                                       waits for its keeper and for the branches below
//   stage -> keeper        fetch_kept   after its process died: return the state
//   keeper -> stage        kept_state   the state, as tickets
//   keeper -> stage        keep_refused the received state is damaged: send it again
//   supervisor -> keeper   store_kept   all keepers have the step and none is writing: write it to
//                                       the local disk
//   supervisor -> node     find_stored  answered by stored_found: the states on the local disk
//
// Step n + 1 is decided only after step n is kept for all processes. Until then the arrays behind
// the tickets do not change, so no copy is made.
//
//   KEEPER-1  `kept` is sent once the keeper owns all bytes, in this generation.
//   KEEPER-2  `kept` is sent only for states whose arrays match their sealed digests. The keeper
//             computes the digests from its own bytes.
//   KEEPER-3  After processes have moved, as few states as possible are kept on their own host. A
//             state stays with its old keeper until the new keeper has it.

#pragma once

#include "messages/core/inspect.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/optim/digested_part.hpp"
#include "runtime/tensor/ticket.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::messages {

/// State of one chunk; see runtime::rank_state.
struct state_part {
  runtime::chunk_id chunk = {};
  std::int64_t elements = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> own_weights = {};
  std::vector<runtime::ticket> weights = {};
  runtime::ticket kept = {};
  runtime::digested_chunk digested = {};  ///< what the digests cover; without parts: not known
};

/// State of a rank, with the digests that sealed it.
struct state_of_rank {
  std::vector<state_part> parts = {};
  std::map<std::string, runtime::digest> own = {};
  std::multimap<std::string, runtime::digest> copies = {};
};

struct keep {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  runtime::step_id since = {};  ///< first step with this state; later steps were skipped
  int rank = 0;
  bool unchanged = false;  ///< the step was skipped; the state equals the previous one
  state_of_rank state = {};
};

/// The received arrays do not match their sealed digests: they were damaged on the way, or at the
/// sender.
struct keep_refused {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int rank = 0;
  std::string parameter = {};  ///< damaged parameter
};

/// The local disk of a keeper, or of several that report the same.
struct keeper_disk {
  /// Owners of the states: ranges [begin, end) of places, ascending.
  std::vector<std::pair<int, int>> of = {};
  runtime::step_id told_to_store = {};  ///< newest `store_kept` received
  /// Step that is being written to the local disk, or waits for it; 0: none.
  runtime::step_id storing = {};
  std::vector<std::uint64_t> stored = {};  ///< steps that this process has written there, ascending
};

struct kept {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int process = -1;  ///< of a branch: its place; -1: of a keeper
  std::vector<keeper_disk> disks = {};
};

/// All processes have kept the states of this step, and none is writing: write it.
struct store_kept {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  runtime::step_id common = {};  ///< newest step that all keepers store, which stays; 0: none
};

struct fetch_kept {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int rank = 0;
};

struct kept_state {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  bool found = false;  ///< false: this keeper was restarted and does not have it
  state_of_rank state = {};
};

/// Asks for the states of any process of the job on the local disk.
struct find_stored {
  runtime::generation_id generation = {};
};

struct stored_rank {
  int rank = 0;
  std::map<std::string, runtime::digest> own = {};  ///< digests of the parameters that it counts
};

/// Complete states of all ranks of a process.
struct stored_states {
  int process = 0;
  runtime::step_id step = {};
  std::vector<stored_rank> ranks = {};
};

struct stored_found {
  runtime::generation_id generation = {};
  std::vector<stored_states> all = {};
};

}  // namespace troupe::messages
