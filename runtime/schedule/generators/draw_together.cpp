#include "runtime/schedule/generators/draw_together.hpp"

#include <algorithm>

namespace troupe::runtime::schedules {
namespace {

/// The steady state: from the first micro-batch that returns to its start, to the last one that
/// begins.
class steady_part {
 public:
  explicit steady_part(const slot_grid& x)
      : from_(x.slot_of(step::down_inputs, 0, 0)),
        to_(x.slot_of(step::down_forward, 0, x.microbatches() - 1)) {}

  bool is_before(int slot) const { return slot < from_; }
  bool is_after(int rank, int slot) const { return slot > to_ || (slot == to_ && rank > 0); }

 private:
  int from_, to_;
};

/// The state of a rank after a slot.
struct tally {
  int held = 0;     ///< micro-batches of a chunk, from F to W
  int pending = 0;  ///< W without a free slot yet; only if W have no slots of their own

  friend bool operator==(const tally&, const tally&) = default;
};

enum class weights_are { in_slots, anywhere };

/// The memory of each rank over time, updated while steps move.
class memory {
 public:
  memory(const slot_grid& x, weights_are weights)
      : grid_(x), weights_(weights), after_(std::size_t(x.ranks())) {
    for (int r = 0; r < x.ranks(); ++r) {
      tally now;
      for (int slot = 0; slot < x.slots(r); ++slot) {
        now = next(now, x.at(r, slot).what);
        limit_ = std::max(limit_, now.held);
        after_[std::size_t(r)].push_back(now);
      }
    }
  }

  /// The first free slot from `ready` on to which the step in `from` can move within the limit;
  /// `from` if there is none.
  int earliest(int rank, int from, int ready) const {
    if (weights_ == weights_are::in_slots)
      ready = first_with_room(rank, from, ready);
    for (int to = ready; to < from; ++to)
      if (grid_.is_free(rank, to) && (weights_ == weights_are::in_slots || admits(rank, from, to)))
        return to;
    return from;
  }

  /// Call it before the grid moves the step.
  void move(int rank, int from, int to) {
    auto& row = after_[std::size_t(rank)];
    if (weights_ == weights_are::in_slots) {
      const int more = next({}, grid_.at(rank, from).what).held;
      for (int slot = to; more != 0 && slot < from; ++slot)
        row[std::size_t(slot)].held += more;
      return;
    }
    replay(rank, from, to, [&](int slot, const tally& now) {
      row[std::size_t(slot)] = now;
      return true;
    });
  }

 private:
  /// If W has its own slots, an earlier forward only holds more memory in between.
  int first_with_room(int rank, int from, int ready) const {
    if (!is_forward(grid_.at(rank, from).what))
      return ready;
    const auto& row = after_[std::size_t(rank)];
    int to = from;
    while (to > ready && row[std::size_t(to - 1)].held < limit_)
      --to;
    return to;
  }

  bool admits(int rank, int from, int to) const {
    bool fits = true;
    replay(rank, from, to, [&](int, const tally& now) { return fits = now.held <= limit_; });
    return fits;
  }

  tally next(tally x, step what) const {
    x.held += is_forward(what) - (what == step::weights);
    if (weights_ == weights_are::in_slots)
      return x;
    x.pending += is_input_gradients(what);
    if (what == step::none && x.pending > 0) {
      --x.pending;
      --x.held;
    }
    return x;
  }

  /// Recomputes the tallies from `to` on, until they are unchanged.
  template <class Use>
  void replay(int rank, int from, int to, Use&& use) const {
    const auto& row = after_[std::size_t(rank)];
    tally now = to > 0 ? row[std::size_t(to - 1)] : tally{};
    for (int slot = to; slot < grid_.slots(rank); ++slot) {
      const auto what = slot == to     ? grid_.at(rank, from).what
                        : slot == from ? step::none
                                       : grid_.at(rank, slot).what;
      now = next(now, what);
      if (slot >= from && now == row[std::size_t(slot)])
        return;
      if (!use(slot, now))
        return;
    }
  }

  const slot_grid& grid_;
  weights_are weights_;
  std::vector<std::vector<tally>> after_;  ///< (rank, slot)
  int limit_ = 0;
};

/// In order of time, moves each step that `may_move` accepts to the earliest free slot that its
/// needs and the memory limit allow.
template <class MayMove>
void move_earlier(slot_grid& x, weights_are weights, MayMove&& may_move) {
  memory held(x, weights);
  const int last = x.slots();
  for (int slot = 0; slot < last; ++slot)
    for (int r = 0; r < x.ranks(); ++r) {
      if (slot >= x.slots(r) || x.is_free(r, slot) || !may_move(r, slot))
        continue;
      if (const int to = held.earliest(r, slot, x.ready(r, slot)); to < slot) {
        held.move(r, slot, to);
        x.move(r, slot, to);
      }
    }
}

}  // namespace

void draw_together(slot_grid& x) {
  x.put_weights();
  const steady_part steady(x);
  move_earlier(x, weights_are::in_slots, [&](int r, int slot) {
    return steady.is_before(slot) || steady.is_after(r, slot);
  });
  x.squeeze();
  x.take_out_weights();
}

void draw_end_together(slot_grid& x) {
  const steady_part steady(x);
  move_earlier(x, weights_are::anywhere, [&](int r, int slot) { return steady.is_after(r, slot); });
  x.put_weights();
  x.squeeze();
  x.take_out_weights();
}

}  // namespace troupe::runtime::schedules
