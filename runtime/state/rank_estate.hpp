// The estate of a rank: the state that outlives its worker. The process keeps it; the replacement
// of a dead worker resumes from it, with the same bits.
//
// Each of two slots holds a state: weights in f32 and the optimizer state. An update reads one slot
// and writes the other, so the previous state stays valid until the next update begins. Undo means
// going back to that slot, without computation. On a device each array is a separate allocation
// (memory_pool::allocate_apart), so that an estate does not hold other memory of its worker.
//
//   begin_update ──> (written by the worker) ──> seal(n)      the other slot is state n
//   skip(n)                                                   the newest state is that of n, too
//   go_back_to(n), copied(n)                                  what a rebuilt worker begins with

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/layout/axis.hpp"
#include "runtime/optim/digested_part.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/state/merged_digests.hpp"

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

/// The bytes of a state differ from those that were sealed.
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

/// Iterations [first, last] with the same state: a skipped step does not change it.
struct iteration_range {
  std::uint64_t first = 0, last = 0;

  bool has(std::uint64_t iteration) const { return first <= iteration && iteration <= last; }
  friend bool operator==(const iteration_range&, const iteration_range&) = default;
};

/// A rank's state outside its estate: flat arrays, as sent to a keeper.
struct rank_state {
  struct part {
    std::int64_t elements = 0;  ///< size of the array of weights; this rank owns these stretches:
    std::vector<std::pair<std::int64_t, std::int64_t>> own_weights = {};
    std::vector<tensor> weights = {};  ///< one tensor per stretch
    tensor kept = {};                  ///< the optimizer state
    /// The arrays that the digests cover; null: unknown.
    std::shared_ptr<const digested_chunk> digested = {};
  };
  std::map<chunk_id, part> parts = {};
  state_digests digests = {};
};

/// Stores arrays and numbers only, without groups, streams and lanes. Used by one worker at a time
/// (ESTATE-1); other threads may query and copy.
class rank_estate {
 public:
  /// `rank`: the name in messages.
  explicit rank_estate(std::string rank = "this rank") : rank_(std::move(rank)) {}
  rank_estate(const rank_estate&) = delete;
  rank_estate& operator=(const rank_estate&) = delete;

  const std::string& rank() const { return rank_; }

  // Thread-safe.

  /// The iterations of the newest state. Empty if no state was sealed.
  std::optional<iteration_range> newest() const;
  bool holds(std::uint64_t iteration) const;
  /// The digests from the seal of the iteration's state. ESTATE-4: the state must be held.
  state_digests digests(std::uint64_t iteration) const;
  struct extents {
    std::int64_t weights = 0, optimizer = 0;

    std::int64_t all() const { return weights + optimizer; }
    friend bool operator==(const extents&, const extents&) = default;
  };
  extents bytes() const;  ///< memory of both slots
  /// The arrays without a copy. They are valid until the second update from now begins, or the
  /// estate goes back to an earlier state. ESTATE-4: the state must be held.
  rank_state state(std::uint64_t iteration) const;

  // Called by the process between two workers.

  /// Makes the state of this iteration the newest again; discards later states and an unfinished
  /// update. ESTATE-1: no worker uses the estate. ESTATE-4: the state must be held.
  void go_back_to(std::uint64_t iteration);
  /// Copies the iteration's state to a new estate in the memory of the stream, and blocks until
  /// complete. Used if a hung worker cannot be stopped and may still write to this estate; updates
  /// of this estate wait. The copy has zeros for values that other ranks own: worker::bring_values
  /// gathers them. ESTATE-4: the state must be held.
  std::shared_ptr<rank_estate> copied(std::uint64_t iteration, stream& stream) const;
  /// A new estate in the memory of the stream with a copy of `from`, the state of that iteration.
  /// Otherwise as `copied`.
  static std::shared_ptr<rank_estate> made_of(const rank_state& from,
                                              std::uint64_t iteration,
                                              std::string rank,
                                              stream& stream);

  // Called by the worker that uses the estate; see worker.hpp.

  /// The state of one chunk in a slot.
  struct chunk_part {
    state_arrays arrays;
    /// See optimizer_state::own_weights.
    std::vector<std::pair<std::int64_t, std::int64_t>> own_weights;
    std::shared_ptr<const digested_chunk> digested = {};  ///< see rank_state::part
  };
  using chunks = std::map<chunk_id, chunk_part>;

  /// Reserves the estate until `leave`. ESTATE-1: one worker at a time.
  void enter();
  void leave();
  /// True if no arrays were allotted yet.
  bool is_blank() const;
  /// Gives a blank estate the arrays of both slots; the first has the initial state.
  void allot(chunks first, chunks second);
  /// Records which arrays of a chunk its digests cover, for states that leave the estate.
  void describe(chunk_id chunk, std::shared_ptr<const digested_chunk> what);
  /// The arrays of a slot; call it while no update runs. 0: the newest state, or the initial state
  /// before the first seal. 1: the other slot.
  chunks arrays(int which) const;
  /// Discards the state in the other slot, which the worker may then write. ESTATE-2: a state is
  /// sealed and no update runs.
  void begin_update();
  /// Makes the written state the newest, for this iteration. ESTATE-3: it follows the iteration of
  /// the previous state.
  void seal(std::uint64_t iteration, const state_digests& digests);
  /// Extends the newest state to this skipped iteration. ESTATE-2: no update runs. ESTATE-3.
  void skip(std::uint64_t iteration);
  /// Discards all states, because the caller overwrites the newest one. The next seal may be for
  /// any iteration.
  void begin_anew();

 private:
  struct slot {
    chunks parts;
    std::optional<iteration_range> of = {};  ///< nothing: the slot holds no state
    state_digests digests = {};
  };

  static rank_state state_of(const slot& from);
  const slot* find(std::uint64_t iteration) const;
  const slot& held(std::uint64_t iteration) const;

  std::string rank_;
  mutable std::mutex mutex_;
  std::array<slot, 2> slots_;
  int newest_ = 0;
  bool writing_ = false;  ///< to the other slot
  bool used_ = false;
};

}  // namespace troupe::runtime
