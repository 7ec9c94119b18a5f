// A slow receiver: the plan's credits limit the results that wait for it.

#include "tests/support/counting_transport.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <thread>

using namespace troupe;

namespace {

struct seen {
  int exit_code = 0, most = 0, credits = 0;
  std::size_t leased = 0;
};

constexpr int microbatches = 16;

/// Runs all forwards before any gradient: only credits can stop stage 0 from finishing its forwards
/// early. Stage 1 starts once `enough` results wait, and some time later.
seen with_slow_receiver(bool wired, int told, int enough) {
  using namespace std::chrono_literals;
  auto job = tests::tiny_job(2, 1);
  job.transport = wired ? runtime::transports::ucx : runtime::transports::tickets;
  job.training.batch = {.micro = 2, .global = 2 * microbatches, .data_parallel = 1};
  job.layout.schedule.source = "gpipe";
  job.layout.schedule.credits = told;
  job.train_iterations = 2;
  const auto prepared = tests::tiny_prepared(job);
  auto& node = *prepared->node;
  const auto counting = std::make_shared<tests::counting_transport>(node.transport);
  node.transport = counting;
  seen out;
  out.credits
      = prepared->opened().pipeline.schedule->training_credits(microbatches)->activations.front();
  node.env.make_lane = [&](runtime::lane_settings settings) {
    if (settings.name == "lane 0.1")
      settings.before_each = [&, once = false]() mutable {
        if (counting->held() == 0 || std::exchange(once, true))
          return;
        for (int i = 0; i < 5000 && counting->held() < enough; ++i)
          std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(50ms);
      };
    return runtime::make_thread_lane(std::move(settings));
  };
  out.exit_code = actors::run(prepared).exit_code;
  out.most = counting->most();
  out.leased = counting->leased();
  return out;
}

}  // namespace

TEST_CASE("PLAN-6: the results that wait for a slow receiver are at most the plan's credits",
          "[scenario]") {
  const bool wired = GENERATE(false, true);
  const int told = GENERATE(0, 1, 3);
  CAPTURE(wired, told);
  const int expected = told > 0 ? told : 2 + runtime::credits_in_transit;
  const auto held = with_slow_receiver(wired, told, expected);
  CHECK(held.exit_code == 0);
  CHECK(held.credits == expected);
  CHECK(held.most == expected);
  CHECK(held.leased == 0);
}
