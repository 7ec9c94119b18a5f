// Jobs with experts: verification of passes where replicas share experts, and losses over replicas
// that survive deaths. Their layouts:
// tests/matrix/experts.hpp; deaths: tests/matrix/mortals.hpp; checkpoints: reshard_test.cpp.

#include "runtime/core/log.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "tests/support/experts_job.hpp"
#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fmt/format.h>
#include <mutex>
#include <string>

using namespace troupe;

namespace {

/// Pairs of replicas share experts: one group of two replicas, two of four.
runtime::training_job pairs(int pipeline, int data) {
  auto job = tests::experts_job(pipeline, data, 1, {.expert = 2});
  job.training.batch.micro = 1;
  return job;
}

/// Each copy needs as many micro-batches as there are ranks.
void make_two_copies(runtime::training_job& job) {
  job.layout.schedule.source = "dualpipe";
  job.training.batch.global = 4 * job.training.batch.data_parallel;
}

/// Two replicas share experts and have a loss over replicas, in four micro-batches.
runtime::training_job globally_balanced() {
  auto job = tests::watched_job(tests::experts_job(2, 2, 1, {.expert = 2}, tests::make_qwen));
  job.training.batch.micro = 1;
  return job;
}

/// Takes the log in place of the console, for its lifetime.
class taken_log final : public runtime::log_reader {
 public:
  taken_log() { runtime::give_log_to(this); }
  ~taken_log() override { runtime::give_log_to(nullptr); }
  taken_log(const taken_log&) = delete;
  taken_log& operator=(const taken_log&) = delete;

  void take(runtime::severity, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    text_ += text;
  }
  void take_status_line(std::string_view) override {}
  int status_line_columns() const override { return 0; }
  bool output_is_terminal() const override { return false; }

  bool says(std::string_view what) const {
    const std::lock_guard lock(mutex_);
    return text_.find(what) != std::string::npos;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace

TEST_CASE("VERIFY-4: a wrong pass is found where replicas share experts", "[scenario][recovery]") {
  const std::string at = GENERATE("lane:1.0@4:forward",
                                  "lane:0.1@4:forward",
                                  "lane:1.1@3:input-gradient",
                                  "lane:0.0@4:weight-gradient");
  const int data = GENERATE(2, 4);
  const bool copies = GENERATE(false, true);
  CAPTURE(at, data, copies);
  tests::arrangement what{fmt::format("experts, DP {}", data), tests::watched_job(pairs(2, data))};
  if (copies) {
    make_two_copies(what.job);
    what.name += ", two copies";
  }
  const auto calm = tests::undisturbed(what);
  what.job.recovery.verify_fraction = 1;
  const auto x = tests::live(what, at + ":wrong-bits");
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  CHECK(x.restarts == 1);
  REQUIRE(x.events.size() == 2);
  CHECK(std::string(x.events[0]["why"]).find("VERIFY-2") != std::string::npos);
  CHECK(x.events[1]["verdict"] == "transient");
  CHECK(x.events[1]["who"] == "stage" + at.substr(4, 4));
}

TEST_CASE("VERIFY-4: verification does not change the bits of experts",
          "[scenario][recovery][unsanitized]") {
  const int data = GENERATE(2, 4);
  const double fraction = GENERATE(0.3, 1.0);
  CAPTURE(data, fraction);
  tests::arrangement what{fmt::format("experts, DP {}", data), tests::watched_job(pairs(2, data))};
  const auto calm = tests::undisturbed(what);
  what.job.recovery.verify_fraction = fraction;
  what.job.layout.dispatcher = runtime::token_dispatcher::allgather;  // changes none either
  const auto x = tests::live(what);
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  CHECK(x.events.empty());
}

TEST_CASE("copies of the model share experts with the bits of as many replicas",
          "[scenario][unsanitized]") {
  const int expert = GENERATE(1, 2, 4);
  const bool over_replicas = GENERATE(false, true);  // its loss
  CAPTURE(expert, over_replicas);
  auto* const make = over_replicas ? &tests::make_qwen : &tests::make_deepseek;
  auto job = tests::watched_job(tests::experts_job(2, 4, 1, {.expert = expert}, make));
  job.training.batch = {.micro = 1, .global = 16, .data_parallel = 4};
  job.layout.schedule.source = "dualpipe";
  job.reduction.distributed_optimizer = expert == 2;
  job.reduction.grain = 256;
  const auto x = tests::live({"copies with experts", job});
  CHECK(tests::look_at_whole(x, job) == tests::sentences{});
  job.layout.expert = 1;  // SUMS-1
  const auto expected = tests::by_reference_trainer(job);
  REQUIRE(x.steps.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(x.state(i) == to_string(expected[i].state));
    CHECK(double(x.steps[i]["grad_norm"]) == expected[i].grad_norm);
  }
}

TEST_CASE("a loss over replicas has the same bits with recomputation and after deaths",
          "[scenario][recovery]") {
  auto job = globally_balanced();
  if (GENERATE(false, true))
    make_two_copies(job);
  const auto calm
      = tests::undisturbed({"a loss over replicas, " + job.layout.schedule.source, job});
  const std::string death = GENERATE("", "lane:1.0@4:forward", "stage:0.1@3:forward");
  CAPTURE(death, job.layout.schedule.source);
  job.recompute = {.granularity = runtime::recompute_granularity::selective,
                   .core_attention = false,
                   .experts = true};
  const auto x = tests::live({"recomputed", job}, death);
  CHECK(tests::look_at_whole(x, job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  CHECK(x.restarts == std::size_t(death.empty() ? 0 : 1));
}

TEST_CASE("a loss over replicas has the same bits with several chunks for each worker",
          "[scenario]") {
  auto job = globally_balanced();
  const auto plain = tests::undisturbed({"a loss over replicas", job});
  job.layout.schedule.source = GENERATE("interleaved", "zb-v");
  CAPTURE(job.layout.schedule.source);
  const auto x = tests::live({"chunks", job});
  CHECK(tests::look_at_whole(x, job) == tests::sentences{});
  CHECK(tests::look_at_same(x, plain) == tests::sentences{});
}

TEST_CASE("a run warns if all its replicas verify their own passes", "[scenario]") {
  const int data = GENERATE(1, 2, 4);
  CAPTURE(data);
  auto job = data == 1 ? tests::experts_job(1, 1, 1, {}) : pairs(1, data);
  job.train_iterations = 1;
  job.recovery.verify_fraction = 0.5;
  const taken_log log;
  CHECK(actors::run(tests::tiny_prepared(job)).reason == "");
  CHECK(log.says("there is one replica") == (data == 1));
  CHECK(log.says("all replicas exchange rows of experts") == (data == 2));
  CHECK(log.says("computed again in the same place") == (data < 4));
}

TEST_CASE("the memory of passes that replicas with shared experts compute again is forecast",
          "[scenario]") {
  const double fraction = GENERATE(0.4, 1.0);
  const int data = GENERATE(2, 4);
  CAPTURE(fraction, data);
  auto job = tests::experts_job(1, data, 1, {.expert = 2}, tests::make_mixtral);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.sequence = m.positions = 64;
  m.experts.forced_balance = true;  // each rank gets as many rows
  job.training.batch = {.micro = 2, .global = 16 * data, .data_parallel = data};
  job.train_iterations = 3;
  job.recovery.verify_fraction = fraction;
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).reason == "");
  for (const auto& [rank, peak] : prepared->node->pools->peaks()) {
    CAPTURE(rank, peak);
    const auto expected = runtime::forecast_memory(
        job, prepared->opened().pipeline, prepared->opened().seats.at(rank));
    CHECK(expected.verified > 0);
    CHECK(double(peak)
          > double(expected.peak() - expected.left_by_others - expected.verified) * 0.95);
    CHECK(double(peak) < double(expected.peak()) * 1.05);
  }
}
