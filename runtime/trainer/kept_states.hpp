// What a process keeps of the ranks of another one: their two newest states, for the case that that
// process dies. It outlives the actor that fills it.
//
// Two slots for each rank, so that a new state is complete before the one before it goes: whoever
// dies meanwhile, one whole state is left.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/trainer/rank_estate.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Any thread.
///
///   KEPT-1  A state is kept when all of it is there: it takes the place of the older of two.
///   KEPT-2  A generation has kept a step when each rank has given that state in that generation:
///           what was given before may be of a step that was computed otherwise.
class kept_states {
 public:
  using state = std::shared_ptr<const rank_state>;

  /// The state after each of these iterations; the arrays are the keeper's own from now on. What an
  /// older generation gave of later ones is forgotten.
  void put(generation_id generation, int rank, iteration_range of, rank_state x);
  /// The iteration has left the state of the one before as it is. Without that this does nothing,
  /// and the rank has not kept the iteration.
  void extend(generation_id generation, int rank, std::uint64_t iteration);

  /// Of other ranks than [first, end) nothing later than that iteration is of use any more.
  void forget_others_after(int first, int end, std::uint64_t iteration);
  /// Nothing of them is: somebody else has kept it since.
  void forget_others(int first, int end);

  /// Null: it is not kept.
  state find(int rank, std::uint64_t iteration) const;
  /// KEPT-2: all of the ranks [first, end) have.
  bool has(generation_id generation, int first, int end, std::uint64_t iteration) const;
  /// Iterations of which the state of each of these ranks is kept, whenever it was given;
  /// ascending.
  std::vector<std::uint64_t> iterations(int first, int end) const;
  std::int64_t bytes() const;

 private:
  struct slot {
    generation_id generation = {};
    std::optional<iteration_range> of = {};  ///< nothing: it is empty
    state what = {};
  };
  const slot* held(int rank, std::uint64_t iteration) const;

  mutable std::mutex mutex_;
  std::map<int, std::array<slot, 2>> all_;  ///< by rank
};

}  // namespace troupe::runtime
