// A user's program, for tests: trains with its own loss, learning rate and schedule, or a model of
// its own family.
//
//   own_player HOW [PROCESSES [FOLDER]]
//   own_player families                                       prints their names
//   own_player family:NAME PROCESSES [FOLDER [CHECKPOINTS]]   resumes from its checkpoints, if any

#include "actors/job/own_program.hpp"
#include "runtime/core/log.hpp"
#include "runtime/schedule/behaviour.hpp"
#include "tests/support/family_job.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

using namespace troupe;

namespace {

constexpr std::string_view family_word = "family:";

/// Cross-entropy, doubled.
runtime::tensor doubled(runtime::tape& on,
                        runtime::variable logits,
                        const runtime::tensor& targets,
                        const runtime::tensor& mask,
                        std::int64_t vocabulary,
                        runtime::loss_average average) {
  average.scale *= 2;
  const auto once = runtime::loss_of(
      on.stream(),
      runtime::cross_entropy(on, std::move(logits), targets, mask, vocabulary, average));
  return runtime::loss_sums(on.stream(), {2 * once.total, once.tokens});
}

/// A schedule that picks any ready action and prefers input gradients.
class eager final : public runtime::behaviour {
 public:
  std::optional<runtime::action> next(const runtime::stage_view& now) override {
    std::optional<runtime::action> out;
    for (const auto& x : now.ready)
      if (!out || x.kind == runtime::action_kind::input_gradients)
        out = x;
    return out;
  }
};

runtime::training_job own_job(int processes) {
  auto job = tests::tiny_job(2, 1);
  job.training.own = {.name = "twice", .loss = doubled};
  job.training.rate_of
      = {.name = "falling", .at = [](std::int64_t n) { return 3e-3 / (1 + double(n) / 100); }};
  job.layout.schedule.own = runtime::behaviour_factory{
      "eager", [](int, int, int, int) { return std::make_unique<eager>(); }};
  job.layout.processes = processes;
  job.data.mock = true;
  job.recovery.on = true;
  job.recovery.suspicion = 5;
  return job;
}

/// Several processes are slow, so that a test can end one of them during the run.
runtime::training_job family_job(std::string_view name,
                                 int processes,
                                 const std::filesystem::path& checkpoints) {
  auto job = tests::family_job(runtime::find_family(name), {5}, 2, 1, {.expert = 2});
  job.layout.processes = processes;
  job.recovery.on = true;
  job.recovery.suspicion = 5;
  if (processes > 1)
    job.faults.lane_delay_us = 20'000;
  if (!checkpoints.empty()) {
    std::filesystem::create_directories(checkpoints);
    job.checkpoints.save = job.checkpoints.load = checkpoints;
    job.checkpoints.save_interval = 2;
  }
  return job;
}

int train(const std::string& how,
          runtime::training_job job,
          const actors::own_program& program,
          const std::string& folder) {
  if (how != "train" && !how.starts_with(family_word))
    job.train_iterations = 1'000'000;
  const auto watch = [&](caf::actor_system& system, const actors::drain_request& drain) {
    return system.spawn([&how, drain]() -> messages::viewer_actor::behavior_type {
      return {[&how, drain](const messages::committed& x) {
                std::printf("%s\n", to_string(x.report.state).c_str());
                std::fflush(stdout);
                if (how == "drain" && x.report.iteration == 5)
                  drain("the viewer has seen enough");
              },
              [](const messages::validated&) {}};
    });
  };
  const auto prepared = actors::prepare(job);
  const auto end = how == "alone" ? actors::run(prepared, {}, {watch})
                                  : actors::run(prepared, program, {}, {watch}, folder);
  std::fputs(end.reason.c_str(), stderr);
  return end.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const auto& families = tests::test_families();
  auto known = functions_of(own_job(2));
  if (how == "forgets-extension")
    known.extensions.clear();
  if (how == "forgets-rate")
    known.rates.clear();
  if (how == "forgets-schedule")
    known.behaviours.clear();
  actors::own_program program(argc, argv, known);
  if (how != "does-not-ask")
    if (const auto code = program.take_part())
      return *code;
  runtime::set_log_level(runtime::severity::error);
  if (how == "families") {
    for (const auto* family : families)
      std::printf("%s\n", std::string(family->name()).c_str());
    return 0;
  }
  try {
    const int processes = argc > 2 ? std::atoi(argv[2]) : 1;
    const auto job = how.starts_with(family_word) ? family_job(
                         how.substr(family_word.size()), processes, argc > 4 ? argv[4] : "")
                                                  : own_job(processes);
    return train(how, job, program, argc > 3 ? argv[3] : "");
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return actors::exit_code_of(failure);
  }
}
