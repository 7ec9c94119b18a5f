// The estate of a rank: what outlives its worker. The process keeps it; the worker that takes a
// dead one's place goes on from it, with the same bits.
//
// Two slots hold a state each: weights in f32 and what the optimizer keeps. An update reads the one
// and writes the other, so that the state before it stands until the next update begins. To undo is
// to go back to that slot: nothing is computed. On a device each array stands apart
// (memory_pool::allocate_apart), so that an estate keeps none of the other memory of the worker
// that made it.
//
//   begin_update ──> (written by the worker) ──> seal(n)      the other slot is state n
//   skip(n)                                                   the newest state is that of n, too
//   go_back_to(n), copied(n)                                  what a rebuilt worker begins with

#pragma once

#include "runtime/core/digested_part.hpp"
#include "runtime/core/error.hpp"
#include "runtime/layout/axis.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/schedule/plan.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The bytes of a state are no longer those that were sealed.
class damaged_state : public error {
 public:
  damaged_state(std::string rank, std::string parameter, std::uint64_t iteration);

  const std::string& rank() const { return rank_; }
  const std::string& parameter() const { return parameter_; }
  std::uint64_t iteration() const { return iteration_; }

 private:
  std::string rank_, parameter_;
  std::uint64_t iteration_;
};

/// Iterations [first, last]: a skipped step leaves the state as it was.
struct iteration_range {
  std::uint64_t first = 0, last = 0;

  bool has(std::uint64_t iteration) const { return first <= iteration && iteration <= last; }
  friend bool operator==(const iteration_range&, const iteration_range&) = default;
};

/// A state of a rank outside its estate: flat arrays, as they travel to who keeps them.
struct rank_state {
  struct part {
    std::int64_t elements = 0;  ///< of the array of weights, of which this rank owns some:
    std::vector<std::pair<std::int64_t, std::int64_t>> own_weights = {};
    std::vector<tensor> weights = {};  ///< of each of these stretches
    tensor kept = {};                  ///< what the optimizer keeps
    /// Which of these arrays the digests are of; null: nobody knows.
    std::shared_ptr<const digested_chunk> digested = {};
  };
  std::map<chunk_id, part> parts = {};
  state_digests digests = {};
};

/// Knows arrays and numbers: no group, no stream, no lane. Used by one worker at a time (ESTATE-1);
/// any other thread may ask, and copy.
class rank_estate {
 public:
  /// `rank`: how a message names it.
  explicit rank_estate(std::string rank = "this rank") : rank_(std::move(rank)) {}
  rank_estate(const rank_estate&) = delete;
  rank_estate& operator=(const rank_estate&) = delete;

  const std::string& rank() const { return rank_; }

  // Any thread.

  /// Of which iterations the newest state is the state. Nothing: none was sealed yet.
  std::optional<iteration_range> newest() const;
  bool holds(std::uint64_t iteration) const;
  /// Those that were read when the state of the iteration was sealed. ESTATE-4: it is held.
  state_digests digests(std::uint64_t iteration) const;
  /// Of both slots.
  std::int64_t bytes() const;
  /// Its arrays, not copied: they stay as they are until the second update from then on begins, or
  /// the state is gone back behind. ESTATE-4: it is held.
  rank_state state(std::uint64_t iteration) const;

  // The process, between two workers.

  /// The state of this iteration is the newest again; what came after it is forgotten, an update
  /// that was under way too. ESTATE-1: no worker uses the estate. ESTATE-4: it holds the iteration.
  void go_back_to(std::uint64_t iteration);
  /// Another estate, in the memory of the stream, whose newest state is that of the iteration: for
  /// when a worker that nobody can stop may still use this one, which waits meanwhile. Returns when
  /// the copy is complete. ESTATE-4: it holds the iteration. What other ranks own of the values is
  /// zero in the copy: worker::bring_values fetches it.
  std::shared_ptr<rank_estate> copied(std::uint64_t iteration, stream& stream) const;
  /// An estate, in the memory of the stream, whose newest state is a copy of `from`, the state of
  /// that iteration. As `copied` otherwise.
  static std::shared_ptr<rank_estate> made_of(const rank_state& from,
                                              std::uint64_t iteration,
                                              std::string rank,
                                              stream& stream);

  // The worker that uses it; see worker.hpp.

  /// What a chunk has in a slot.
  struct chunk_part {
    state_arrays arrays;
    /// See optimizer_state::own_weights.
    std::vector<std::pair<std::int64_t, std::int64_t>> own_weights;
    std::shared_ptr<const digested_chunk> digested = {};  ///< see rank_state::part
  };
  using chunks = std::map<chunk_id, chunk_part>;

  /// ESTATE-1: it is used by one worker at a time. Until `leave`.
  void enter();
  void leave();
  /// No arrays were allotted yet.
  bool is_blank() const;
  /// Of a blank one: the arrays of both slots, of which the first has the state that begins.
  void allot(chunks first, chunks second);
  /// Which of the arrays of a chunk its digests are of: for states that leave the estate.
  void describe(chunk_id chunk, std::shared_ptr<const digested_chunk> what);
  /// Of a slot, while no update is under way: 0 the newest or, while nothing is sealed, the one
  /// that has the state that begins; 1 the other.
  chunks arrays(int which) const;
  /// From now on the other slot holds no state, and may be written to. ESTATE-2: a state is sealed,
  /// and no update is under way.
  void begin_update();
  /// What was written is the state of the iteration, and the newest. ESTATE-3: the iteration
  /// follows that of the state before.
  void seal(std::uint64_t iteration, const state_digests& digests);
  /// The iteration has left the newest state as it is. ESTATE-2: no update is under way. ESTATE-3.
  void skip(std::uint64_t iteration);
  /// The newest state is written over from outside: nothing is held until it is sealed anew, as the
  /// state of any iteration.
  void begin_anew();

 private:
  struct slot {
    chunks parts;
    std::optional<iteration_range> of = {};  ///< nothing: it holds no state
    state_digests digests = {};
  };

  static rank_state state_of(const slot& from);
  const slot* find(std::uint64_t iteration) const;
  const slot& held(std::uint64_t iteration) const;

  std::string rank_;
  mutable std::mutex mutex_;
  std::array<slot, 2> slots_;
  int newest_ = 0;
  bool writing_ = false;  ///< the other slot
  bool used_ = false;
};

}  // namespace troupe::runtime
