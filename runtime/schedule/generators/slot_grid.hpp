// A schedule in V on squared paper: a line for each rank, a slot for each unit of time, in a slot
// one step of one micro-batch. Two chunks per rank: one on the way down the ranks, one up again.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::runtime::schedules {

/// Of one micro-batch on one rank, in the order in which they come; then W of both chunks.
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
  int number = 0;  ///< the micro-batch; of W: how many W the rank did before
};

class slot_grid {
 public:
  /// When each step of the first micro-batch is, for each rank; micro-batch k comes k `period`
  /// later. Throws broken_promise when two share a slot or one comes before what it needs.
  slot_grid(const std::vector<std::array<int, steps_of_pattern>>& pattern,
            int period,
            int microbatches);

  int ranks() const { return int(rows_.size()); }
  int microbatches() const { return microbatches_; }
  /// Of this rank; after them nothing happens.
  int slots(int rank) const { return int(rows_[std::size_t(rank)].size()); }
  int slots() const;
  const cell& at(int rank, int slot) const { return rows_[std::size_t(rank)][std::size_t(slot)]; }
  bool is_free(int rank, int slot) const { return at(rank, slot).what == step::none; }
  int slot_of(step what, int rank, int number) const {
    return slots_of_[std::size_t(what)][index(what, rank, number)];
  }

  /// The first slot after all that what stands here needs.
  int ready(int rank, int slot) const;

  /// Into a free slot from `ready` on.
  void move(int rank, int from, int to);

  /// Puts W into free slots, each as soon after its I as there is one.
  void put_weights();
  void take_out_weights();

  /// In the same order on each rank, everything as early as what it needs allows.
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
  std::array<std::vector<int>, steps_of_pattern + 1> slots_of_;  ///< of each step
  std::vector<std::vector<int>> inputs_;  ///< of each rank the slots of its I, ascending
};

constexpr bool is_forward(step x) {
  return x == step::down_forward || x == step::up_forward;
}
constexpr bool is_input_gradients(step x) {
  return x == step::up_inputs || x == step::down_inputs;
}

}  // namespace troupe::runtime::schedules
