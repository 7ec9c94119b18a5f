// The arrangements with planted deaths, the actors and lanes of each, and the moments of death.

#pragma once

#include "runtime/job/fault_rules.hpp"
#include "tests/support/family_job.hpp"
#include "tests/support/places.hpp"
#include "tests/support/recovery_judge.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::matrix {

using tests::arrangement;
using tests::tiny_job;
using tests::watched_job;

inline runtime::training_job small_steps(const std::string& schedule, int data = 1) {
  auto job = tiny_job(2, data);
  job.training.batch = {.micro = 1, .global = 4 * data, .data_parallel = data};
  job.layout.schedule.source = schedule;
  return watched_job(job);
}

/// Prefers input gradients, so its order depends on the arrival of messages.
class eager final : public runtime::behaviour {
 public:
  std::optional<runtime::action> next(const runtime::stage_view& now) override {
    for (const auto& x : now.ready)
      if (x.kind == runtime::action_kind::input_gradients)
        return x;
    return now.ready.front();
  }
};

/// Begins with a loss scale that is too large, so some steps are skipped.
inline runtime::training_job scaled(bool distributed) {
  auto job = tiny_job(2, 2);
  job.training.precision = runtime::dtype::f16;
  job.training.scaling = {.initial = 1 << 24, .window = 2, .hysteresis = 1};
  job.reduction.distributed_optimizer = distributed;
  job.reduction.grain = 256;
  return watched_job(job);
}

inline runtime::training_job reduced(int tensor, bool distributed, bool overlap) {
  auto job = tiny_job(2, 2, tensor);
  job.layout.sequence_parallel = tensor > 1;
  job.reduction = {.distributed_optimizer = distributed,
                   .bucket_size = 4096,
                   .overlap_gradients = overlap,
                   .overlap_parameters = overlap && distributed,
                   .grain = 256};
  return watched_job(job);
}

inline runtime::training_job of_type(runtime::training_job job, runtime::dtype type) {
  job.training.precision = type;
  return job;
}

inline runtime::training_job recomputed(runtime::recompute_granularity how) {
  auto job = tiny_job(2, 1);
  job.recompute.granularity = how;
  return watched_job(job);
}

inline runtime::training_job in_turn() {
  auto job = tiny_job(2, 2);
  tests::play_in_turn(job, 2);
  return watched_job(job);
}

inline arrangement decided_in_cpp() {
  auto job = small_steps("");
  job.layout.schedule.own
      = {.name = "eager", .make = [](int, int, int, int) { return std::make_unique<eager>(); }};
  return {"behaviour in C++", job};
}

/// Resumes from iteration 1 of another run, whose checkpoint is in `folder`.
inline arrangement resumed(const tests::scratch_folder& folder) {
  auto job = watched_job(tiny_job(2, 2));
  return {"resumed", job, [&folder](const runtime::training_job& x) {
            auto first = x;
            first.watch.log_file.clear();
            first.faults.death.clear();
            first.checkpoints.save = folder / "first";
            first.exit_interval = 1;
            if (!runtime::latest_checkpoint(first.checkpoints.save).folder)
              if (const auto end = actors::run(tests::tiny_prepared(first)); end.exit_code != 0)
                throw std::runtime_error("the run to resume from failed: " + end.reason);
            return tests::going_on(x, *runtime::latest_checkpoint(first.checkpoints.save).folder);
          }};
}

/// A model of another family than GPT. For the present ones, each of the three stages has
/// trained parameters, and the stages differ in size. Replicas share experts.
inline arrangement of_family(const runtime::model_family& family) {
  return {fmt::format("{}, DP 2, PP 3", family.name()),
          watched_job(tests::family_job(family, {4, 5}, 2, 1, {.expert = 2}))};
}

/// Two replicas share experts, each with two tensor ranks, and a loss of the balance.
inline runtime::training_job experts_of_tensor_ranks() {
  auto job = tests::experts_job(1, 2, 2, {.expert = 2, .tensor = 2}, tests::make_qwen);
  job.layout.dispatcher = runtime::token_dispatcher::allgather;
  job.reduction = {.distributed_optimizer = true,
                   .bucket_size = 4096,
                   .overlap_gradients = true,
                   .overlap_parameters = true,
                   .grain = 256};
  return watched_job(job);
}

/// Two copies of the model, each with experts that two replicas share. The embedding is tied.
inline runtime::training_job experts_of_two_copies() {
  auto job = tests::experts_job(2, 2, 1, {.expert = 2});
  job.training.batch.micro = 1;
  job.layout.schedule.source = "dualpipe";
  job.reduction.distributed_optimizer = true;
  job.reduction.grain = 256;
  return watched_job(job);
}

/// `folder` must outlive the result.
inline std::vector<arrangement> mortal_arrangements(const tests::scratch_folder& folder) {
  using enum runtime::dtype;
  using enum runtime::recompute_granularity;
  const auto script = tests::source_dir() + "/examples/schedules/reactive.lua";
  std::vector<arrangement> out{
      {"DP 2, PP 2", watched_job(tiny_job(2, 2))},
      {"DP 2, PP 2, TP 2", watched_job(tiny_job(2, 2, 2))},
      {"TP 2, distributed, overlapped, bf16", of_type(reduced(2, true, true), bf16)},
      {"distributed", reduced(1, true, false)},
      {"distributed, overlapped", reduced(1, true, true)},
      {"whole, overlapped", reduced(1, false, true)},
      {"bf16", of_type(reduced(1, false, false), bf16)},
      {"fp16 with scaling", scaled(false)},
      {"fp16 with scaling, distributed", scaled(true)},
      {"zb-h1", small_steps("zb-h1")},
      {"zb-v, DP 2", small_steps("zb-v", 2)},
      {"interleaved", small_steps("interleaved")},
      {"dualpipe", small_steps("dualpipe")},
      {"dualpipe, DP 2", small_steps("dualpipe", 2)},
      {"behaviour in Lua, DP 2", small_steps(script, 2)},
      decided_in_cpp(),
      {"replicas in turn", in_turn()},
      {"recompute full", recomputed(full)},
      {"recompute selective", recomputed(selective)},
      {"DP 2, PP 2, EP 2", watched_job(tests::experts_job(2, 2, 1, {.expert = 2}))},
      {"DP 2, TP 2, EP 2, ETP 2, distributed, overlapped", experts_of_tensor_ranks()},
      {"dualpipe, DP 2, EP 2, distributed", experts_of_two_copies()},
      resumed(folder)};
  for (const auto* family : tests::test_families())
    out.push_back(of_family(*family));
  return out;
}

/// The names of all actors, lanes and wires of a job.
inline std::vector<std::string> mortals(const runtime::training_job& job) {
  std::vector<std::string> out{"supervisor", "node", "loader:0", "checkpointer:0", "monitor:0"};
  const auto replicas
      = int(job.training.batch.data_parallel / std::max(1, job.layout.replicas_per_worker));
  for (int r = 0; r < replicas; ++r) {
    out.push_back(fmt::format("replica:{}", r));
    for (const auto* kind : {"stage", "lane", "wire"})
      for (int p = 0; p < job.layout.pipeline; ++p)
        for (int t = 0; t < job.layout.tensor; ++t)
          if (kind != std::string_view("wire") || (job.reduction.overlap_gradients && replicas > 1))
            out.push_back(fmt::format("{}:{}.{}.{}", kind, r, p, t));
  }
  return out;
}

/// ACTOR@STEP:MOMENT[:HOW], at a step in which the moment occurs: step 4 is saved, a validation
/// follows step 3, and only step `first` begins with building. The checkpoint of step 2 is written
/// during the training, so an actor that dies at its next action still has work.
inline std::string death_of(std::string_view who,
                            std::string_view moment,
                            std::string_view how,
                            std::uint64_t first) {
  const std::uint64_t step = moment == "validate"  ? 3
                             : moment == "restore" ? first
                             : moment == "save"    ? 2
                                                   : 4;
  return fmt::format(
      "{}@{}:{}{}", who, step, moment, how == "throw" ? "" : fmt::format(":{}", how));
}

/// Whether this death can be planted in the job.
inline bool may_die(runtime::training_job job, const std::string& death) {
  job.faults.death = death;
  job.checkpoints.save = "checkpoints";  // as in `live`
  return validate_faults(job).empty();
}

/// Whether the selection contains cell (who, moment) of this arrangement. The selection is a
/// diagonal, shifted in each arrangement: each actor dies once, and each moment occurs.
inline bool is_selected(std::size_t number, std::size_t whos, std::size_t who, std::size_t moment) {
  const auto moments = runtime::moment_names().size();
  for (std::size_t i = 0; i < std::max(whos, moments); ++i)
    if (i % whos == who && (i + 5 * number) % moments == moment)
      return true;
  return false;
}

/// Runs an arrangement once undisturbed, then with each requested death.
class mortal_run {
 public:
  explicit mortal_run(arrangement what) : what_(std::move(what)), calm_(tests::live(what_)) {}

  const arrangement& what() const { return what_; }
  std::uint64_t first() const { return calm_.iterations.empty() ? 1 : calm_.iterations.front(); }

  /// Complaints about the undisturbed run.
  tests::sentences look() const {
    auto out = tests::look_at_whole(calm_, what_.job);
    if (!calm_.events.empty() || calm_.restarts > 0)
      out.push_back("the undisturbed run has deaths");
    return out;
  }

  /// Complaints about a run with this death.
  tests::sentences look(const std::string& death) const {
    auto what = what_;
    const auto planted = runtime::planted_death_from(death);
    if (planted.how == runtime::death_kind::by_hanging)
      tests::make_time_for(planted, what.job);
    const auto x = tests::live(what, death);
    auto out = tests::look_at_whole(x, what.job);
    for (auto& one : tests::look_at_same(x, calm_))
      out.push_back(std::move(one));
    for (auto& one : tests::look_at_event(x, planted, first()))
      out.push_back(std::move(one));
    return out;
  }

 private:
  arrangement what_;
  tests::lived calm_;
};

}  // namespace troupe::matrix
