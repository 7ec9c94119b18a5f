// A V schedule on a grid: one line per rank, one slot per unit of time, one step of a micro-batch
// per slot. Two chunks per rank: one on the way down the ranks, one on the way up.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::runtime::schedules {

/// The steps of one micro-batch on one rank, in order; then W of both chunks.
enum class step : std::int8_t {
  down_forward,
  up_forward,
  up_inputs,
  down_inputs,
  weights,
  none = -1
};
constexpr std::size_t steps_of_pattern = 4;

struct cell {
  step what = step::none;
  int number = 0;  ///< the micro-batch; for W: the number of earlier W of the rank
};

class slot_grid {
 public:
  /// `pattern`: the slot of each step of the first micro-batch, for each rank; micro-batch k is k
  /// `period` later. Throws broken_promise if two steps share a slot or a step comes before what it
  /// needs.
  slot_grid(const std::vector<std::array<int, steps_of_pattern>>& pattern,
            int period,
            int microbatches);

  int ranks() const { return int(rows_.size()); }
  int microbatches() const { return microbatches_; }
  /// Slots of this rank up to its last action.
  int slots(int rank) const { return int(rows_[std::size_t(rank)].size()); }
  int slots() const;
  const cell& at(int rank, int slot) const { return rows_[std::size_t(rank)][std::size_t(slot)]; }
  bool is_free(int rank, int slot) const { return at(rank, slot).what == step::none; }
  int slot_of(step what, int rank, int number) const {
    return slots_of_[std::size_t(what)][index(what, rank, number)];
  }

  /// The first slot after everything that this cell needs.
  int ready(int rank, int slot) const;

  /// Moves a cell to a free slot, not before `ready`.
  void move(int rank, int from, int to);

  /// Puts each W into the first free slot after its I.
  void put_weights();
  void take_out_weights();

  /// Moves all cells as early as their needs allow; keeps the order on each rank.
  void squeeze();

 private:
  std::size_t index(step what, int rank, int number) const {
    const auto each = std::size_t(microbatches_) * (what == step::weights ? 2 : 1);
    return std::size_t(rank) * each + std::size_t(number);
  }
  int ready(int rank, const cell& x) const;
  void put(int rank, int slot, const cell& x);

  int microbatches_;
  std::vector<std::vector<cell>> rows_;
  std::array<std::vector<int>, steps_of_pattern + 1> slots_of_;  ///< by step
  std::vector<std::vector<int>> inputs_;  ///< by rank: the slots of its I, ascending
};

constexpr bool is_forward(step x) {
  return x == step::down_forward || x == step::up_forward;
}
constexpr bool is_input_gradients(step x) {
  return x == step::up_inputs || x == step::down_inputs;
}

}  // namespace troupe::runtime::schedules
