// The two newest states of the ranks of another process, kept in memory in case that process dies.
// Outlives the keeper actor that fills it.
//
// Each rank has two slots: a new state is complete before an old one is replaced, so one complete
// state survives each crash.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/state/rank_estate.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Thread-safe.
///
///   KEPT-1  A state is kept when it is complete: it replaces the older of two.
///   KEPT-2  A generation has kept a step when each rank has given its state in that generation:
///           an earlier generation may have computed the step differently.
class kept_states {
 public:
  using state = std::shared_ptr<const rank_state>;

  /// Keeps the state after each of these iterations and takes over its arrays. Discards states of
  /// later iterations from older generations.
  void put(generation_id generation, int rank, iteration_range of, rank_state x);
  /// Extends a state to the next, skipped iteration. Does nothing if the state of the previous
  /// iteration is not kept.
  void extend(generation_id generation, int rank, std::uint64_t iteration);

  /// Discards states after that iteration of other ranks than these.
  void forget_others_after(const std::vector<int>& ranks, std::uint64_t iteration);
  /// Discards the states of other ranks than these: another process keeps them now.
  void forget_others(const std::vector<int>& ranks);

  /// Null: not kept.
  state find(int rank, std::uint64_t iteration) const;
  /// KEPT-2: true if the state of each of these ranks is kept.
  bool has(generation_id generation, const std::vector<int>& ranks, std::uint64_t iteration) const;
  /// Iterations for which the states of all these ranks are kept, from any generation; ascending.
  std::vector<std::uint64_t> iterations(const std::vector<int>& ranks) const;
  /// Ranks of which a state was kept and not discarded; ascending.
  std::vector<int> ranks() const;
  std::int64_t bytes() const;

 private:
  struct slot {
    generation_id generation = {};
    std::optional<iteration_range> of = {};  ///< nothing: the slot is empty
    state what = {};
  };
  const slot* held(int rank, std::uint64_t iteration) const;

  mutable std::mutex mutex_;
  std::map<int, std::array<slot, 2>> all_;  ///< by rank
};

}  // namespace troupe::runtime
