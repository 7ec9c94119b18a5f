// A schedule that is decided at run time: each stage asks a behaviour for the next action whenever
// something has arrived or finished.
//
// A behaviour chooses one of the ready actions, so it can only stop its own progress. All choices
// are recorded; the record is a plan.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/schedule/credits.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The progress of a stage in its step.
struct stage_view {
  int rank = 0, ranks = 0;
  int chunks = 0;                ///< of the model
  int microbatches = 0;          ///< of the step
  std::vector<chunk_id> hosted;  ///< of this rank, ascending
  /// The ready actions. For each hosted chunk, ascending: at most one F (the next micro-batch, if
  /// its input has arrived), one I (the next, if its gradient has arrived) and one W (the next, if
  /// its I is done). Micro-batches ascend, so the bits equal those of all single-copy schedules.
  /// Actions without a credit are not ready: the next stage must first take earlier results.
  std::vector<action> ready;
  struct done {
    int forward = 0, input_gradients = 0, weight_gradients = 0;
  };
  std::vector<done> finished;  ///< for each hosted chunk, the actions chosen so far
  int held = 0;                ///< micro-batches with F chosen and I not, summed over chunks
};

/// Used by one thread.
class behaviour {
 public:
  virtual ~behaviour() = default;
  /// Returns one of `now.ready`, which has at least one action, or nothing to wait for the next
  /// arrival. An exception ends the run.
  virtual std::optional<action> next(const stage_view& now) = 0;
};

/// Creates the behaviours of all ranks, anew for each step. Thread-safe.
struct behaviour_factory {
  std::string name;
  std::function<std::unique_ptr<behaviour>(int rank, int ranks, int chunks, int microbatches)> make;
  std::function<std::vector<int>(int ranks, int chunks)> placement = {};  ///< empty: in turn
  int chunks_per_rank = 1;
};

/// Tracks which actions of a rank's chunks are ready, from choices and arrivals. Used by the
/// rehearsal and by the stage actor. CHOICE-READY: it offers only ready actions, with micro-batches
/// in ascending order.
class stage_book {
 public:
  stage_book(const plan& frame, int rank);

  /// Requires one of these credits for each later choice with a result for another rank.
  void bound(const handoff_credits& all);
  /// For a result of a hosted chunk: returns a credit when the receiver has taken the result; takes
  /// one when the result is in transit.
  void give_back(chunk_id maker, bool gradient) { lend(maker, gradient, -1); }
  void lend(chunk_id maker, bool gradient) { lend(maker, gradient, 1); }
  /// An input, or the gradient of an output, arrived from another rank for a hosted chunk.
  /// Neighbours on the same rank need no call: their results are available when chosen.
  void arrive_activation(chunk_id c, microbatch_id m);
  void arrive_gradient(chunk_id c, microbatch_id m);
  /// The state that the behaviour sees at its next call.
  const stage_view& view();
  /// Throws input_error with the name of the behaviour if the action is not ready.
  void choose(const action& x, const std::string& by);
  bool is_complete() const;
  /// Actions of other ranks with results that may arrive next: for each hosted chunk the first F
  /// and the first I. If there are none and the book is not complete, only this rank can proceed.
  std::vector<action> awaited() const;

 private:
  struct hosted {
    chunk_id id = {};
    bool first = false, last = false;            ///< of the model
    bool after_own = false, before_own = false;  ///< its neighbour is on this rank
    stage_view::done done;
    std::vector<char> activations, gradients;  ///< by micro-batch: has arrived
    /// Credits left for activations, gradients; empty: unlimited.
    std::optional<int> room[2] = {};
  };
  hosted& at(chunk_id c);
  void lend(chunk_id maker, bool gradient, int count);
  /// The reason why the action is not ready; empty: it is ready.
  std::string objection(const action& x) const;
  std::string missing(const hosted& of, const action& x) const;

  stage_view view_;
  bool training_ = true;
  std::vector<hosted> chunks_;
};

/// Simulates all ranks with these costs and records their choices. Throws input_error if a
/// behaviour fails, chooses an action that is not ready, or if all ranks wait; the message lists
/// the ready actions. `credits`: of each hand-off; 0: unlimited.
plan rehearse(const behaviour_factory& factory,
              int ranks,
              int microbatches,
              const cost_model& by = {},
              int credits = 0);

/// Returns the result of the call. Converts exceptions other than troupe's own into an input_error
/// with the behaviour's name and the rank.
template <class Call>
auto ask_behaviour(const std::string& name, int rank, int ranks, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const error&) {
    throw;
  } catch (const std::exception& e) {
    throw input_error("{}: on rank {} of {}: {}", name, rank, ranks, e.what());
  }
}

}  // namespace troupe::runtime
