// A schedule that is decided while it runs: for each stage a behaviour, which is asked what to do
// whenever something has arrived or has been done.
//
// What it answers is one of the actions that could be carried out now, so it can break nothing but
// its own progress. Every answer is recorded; the record is a plan.

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

/// Where a stage stands in its step.
struct stage_view {
  int rank = 0, ranks = 0;
  int chunks = 0;                ///< of the model
  int microbatches = 0;          ///< of the step
  std::vector<chunk_id> hosted;  ///< of this rank, ascending
  /// What could be carried out now: of each hosted chunk, ascending, at most one F (the next
  /// micro-batch, if its input is here), one I (the next whose gradient is here) and one W (the
  /// next whose I is done): micro-batches ascend, so that the bits are those of every single-copy
  /// schedule. Nothing whose result has no credit: the next stage has yet to take those before.
  std::vector<action> ready;
  struct done {
    int forward = 0, input_gradients = 0, weight_gradients = 0;
  };
  std::vector<done> finished;  ///< of each hosted chunk, what was chosen so far
  int held = 0;  ///< micro-batches, each chunk's counted, whose F was chosen and whose I was not
};

/// Used by one thread.
class behaviour {
 public:
  virtual ~behaviour() = default;
  /// One of `now.ready`, of which there is at least one; nothing: wait for what comes. Whatever it
  /// throws ends the run.
  virtual std::optional<action> next(const stage_view& now) = 0;
};

/// What makes the behaviour of each rank; each step has new ones. Any thread.
struct behaviour_factory {
  std::string name;
  std::function<std::unique_ptr<behaviour>(int rank, int ranks, int chunks, int microbatches)> make;
  std::function<std::vector<int>(int ranks, int chunks)> placement = {};  ///< empty: in turn
  int chunks_per_rank = 1;
};

/// What of a rank's chunks could be carried out, by what was chosen and what has arrived. The book
/// that both the rehearsal and the stage actor keep. CHOICE-READY: only what could be carried out
/// now is offered, and micro-batches ascending.
class stage_book {
 public:
  stage_book(const plan& frame, int rank);

  /// From now on results for other ranks are lent these credits, when they are chosen.
  void bound(const handoff_credits& all);
  /// Of the result of a hosted chunk: its receiver has taken it; or it is out already.
  void give_back(chunk_id maker, bool gradient) { lend(maker, gradient, -1); }
  void lend(chunk_id maker, bool gradient) { lend(maker, gradient, 1); }
  /// From another rank, for a hosted chunk: its input, the gradient of its output. Between
  /// neighbours on this rank nothing arrives: they have it when it was chosen.
  void arrive_activation(chunk_id c, microbatch_id m);
  void arrive_gradient(chunk_id c, microbatch_id m);
  /// For the next question.
  const stage_view& view();
  /// Throws input_error, with the behaviour's name, for what is not ready.
  void choose(const action& x, const std::string& by);
  bool is_complete() const;
  /// The actions of other ranks whose results could come next, if those chose them: of each hosted
  /// chunk the first F and the first I. None, and not complete: only this rank can go on.
  std::vector<action> awaited() const;

 private:
  struct hosted {
    chunk_id id = {};
    bool first = false, last = false;            ///< of the model
    bool after_own = false, before_own = false;  ///< its neighbour is on this rank
    stage_view::done done;
    std::vector<char> activations, gradients;  ///< by micro-batch: has arrived
    std::optional<int> room[2] = {};           ///< for activations, gradients; nothing: any
  };
  hosted& at(chunk_id c);
  void lend(chunk_id maker, bool gradient, int count);
  /// Why it is not ready, in words; empty: it is.
  std::string objection(const action& x) const;
  std::string missing(const hosted& of, const action& x) const;

  stage_view view_;
  bool training_ = true;
  std::vector<hosted> chunks_;
};

/// Plays all ranks with these costs and records what they decide. Throws input_error: a behaviour
/// failed, chose what is not ready, or everybody waits (who has what ready is named). `credits`: of
/// each hand-off; 0: no bound.
plan rehearse(const behaviour_factory& factory,
              int ranks,
              int microbatches,
              const cost_model& by = {},
              int credits = 0);

/// What the call returns; whatever else than an error of ours it throws becomes an input_error that
/// names the behaviour and the rank.
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
