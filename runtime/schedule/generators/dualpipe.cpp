#include "runtime/core/error.hpp"
#include "runtime/schedule/generators/rules.hpp"
#include "runtime/schedule/generators/strand.hpp"

#include <algorithm>
#include <deque>

namespace troupe::runtime::schedules {
namespace {

/// One rank of a pipeline that is folded in the middle. Forwards enter on the near chunk, return on
/// the far one, and overlap with backwards in the other direction. DualPipe folds two pipelines
/// into each other, DualPipeV folds one onto itself.
class folded_rank {
 public:
  /// `place`: distance from the open end, below `depth`; `microbatches`: on each of the two chunks.
  folded_rank(
      std::vector<action>& row, strand near, strand far, int place, int depth, int microbatches)
      : row_(row),
        near_(near),
        far_(far),
        place_(place),
        inner_(depth - 1 - place),
        steady_(microbatches - 2 * depth + place + 1) {}

  void write() {
    fill();
    for (int k = 0; k < steady_; ++k) {
      if (k == 0 && inner_ == 0) {
        // At the fold this backward waits for the other half of this forward.
        near_.forward();
        far_.backward();
      } else {
        overlapped(row_, near_, far_);
      }
      overlapped(row_, far_, near_);
    }
    for (int k = 0; k < inner_; ++k) {
      far_.backward();
      overlapped(row_, far_, near_);
    }
    drain();
  }

 private:
  void fill() {
    for (int k = 0; k < 2 * inner_; ++k)
      near_.forward();
    for (int k = 0; k <= place_; ++k) {
      near_.forward();
      far_.forward();
    }
    for (int k = 0; k < inner_; ++k) {
      far_.input_gradients();
      far_.weight_gradients();
      far_.forward();
    }
  }

  /// Delays W near the end, so that I reaches the next rank sooner.
  void drain() {
    const int all = 2 * (place_ + 1);
    // The first delayed W is the middle one, or the next one.
    const int whole = 2 * ((place_ + 1) / 2) + (place_ % 2 == 0 ? 1 : 0);
    for (int k = 0; k < all; ++k) {
      auto& chunk = k % 2 == 0 ? far_ : near_;
      if (k < whole)
        chunk.backward();
      else
        put_off(chunk);
    }
    for (int k = 0; k < inner_; ++k) {
      catch_up();
      put_off(near_);
    }
    while (!waiting_.empty())
      catch_up();
  }

  void put_off(strand& chunk) {
    chunk.input_gradients();
    waiting_.push_back(&chunk);
  }
  void catch_up() {
    waiting_.front()->weight_gradients();
    waiting_.pop_front();
  }

  std::vector<action>& row_;
  strand near_, far_;
  int place_;
  int inner_;  ///< ranks between here and the fold
  int steady_;
  std::deque<strand*> waiting_;  ///< chunks with delayed W, oldest first
};

}  // namespace

plan dualpipe(const schedule_request& request) {
  const int p = request.ranks, m = request.microbatches;
  if (p % 2 != 0)
    throw input_error("dualpipe needs an even number of ranks; {} is odd: give {}{}",
                      p,
                      p > 1 ? std::to_string(p - 1) + " or " : "",
                      p + 1);
  if (m % 2 != 0 || m < 2 * p)
    throw input_error(
        "dualpipe on {} ranks needs an even number of micro-batches, at least {}; "
        "{} is {}: give {}",
        p,
        2 * p,
        m,
        m < 2 * p ? "fewer" : "odd",
        m < 2 * p ? std::to_string(2 * p) : fmt::format("{} or {}", m - 1, m + 1));
  auto placement = placed_in_turn(p, 1);
  for (int c = 0; c < p; ++c)
    placement.push_back(p - 1 - c);
  auto out = empty_plan(request, std::move(placement), 2);
  for (int r = 0; r < p; ++r) {
    const int place = std::min(r, p - 1 - r), near = r < p / 2 ? 0 : 1;
    auto& row = out.ranks[std::size_t(r)];
    folded_rank(row,
                strand(row, m / 2, place, near),
                strand(row, m / 2, p - 1 - place, 1 - near),
                place,
                p / 2,
                m / 2)
        .write();
  }
  return out;
}

plan dualpipe_v(const schedule_request& request) {
  const int p = request.ranks, m = request.microbatches;
  if (m < 2 * p)
    throw input_error(
        "dualpipev on {} ranks needs at least {} micro-batches; {} is fewer: give "
        "{}, or fewer ranks",
        p,
        2 * p,
        m,
        2 * p);
  auto out = empty_plan(request, placed_in_v(p));
  for (int r = 0; r < p; ++r) {
    auto& row = out.ranks[std::size_t(r)];
    folded_rank(row, strand(row, m, r), strand(row, m, 2 * p - 1 - r), r, p, m).write();
  }
  return out;
}

}  // namespace troupe::runtime::schedules
