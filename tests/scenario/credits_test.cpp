// A slow receiver: the plan's credits limit the results that wait for it.

#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

using namespace troupe;

namespace {

/// Wraps a transport and records the maximum of hand-offs held that need a credit.
class counting_transport final : public runtime::transport {
 public:
  explicit counting_transport(std::shared_ptr<runtime::transport> to) : to_(std::move(to)) {}

  runtime::ticket deposit(runtime::tensor x,
                          runtime::generation_id generation,
                          std::shared_ptr<const void> until_taken) override {
    if (until_taken) {
      const auto* const which = until_taken.get();
      const std::lock_guard lock(*mutex_);
      ++(*held_)[which];
      most_ = std::max(most_.load(), int(held_->size()));
      until_taken = std::shared_ptr<const void>(
          which, [held = held_, mutex = mutex_, until_taken](const void* key) {
            const std::lock_guard inner(*mutex);
            if (--(*held)[key] == 0)
              held->erase(key);
          });
    }
    return to_->deposit(std::move(x), generation, std::move(until_taken));
  }
  std::vector<runtime::tensor> redeem_all(std::span<const runtime::ticket> tickets,
                                          const runtime::redeemer& by) override {
    return to_->redeem_all(tickets, by);
  }
  void take_back(std::span<const runtime::ticket> tickets) override { to_->take_back(tickets); }
  void end_generation(runtime::generation_id last) override { to_->end_generation(last); }
  std::size_t leased() const override { return to_->leased(); }
  const runtime::transport_counters& counters() const override { return to_->counters(); }

  int held() const {
    const std::lock_guard lock(*mutex_);
    return int(held_->size());
  }
  int most() const { return most_; }

 private:
  std::shared_ptr<runtime::transport> to_;
  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::shared_ptr<std::map<const void*, int>> held_
      = std::make_shared<std::map<const void*, int>>();
  std::atomic<int> most_ = 0;
};

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
  const auto counting = std::make_shared<counting_transport>(node.transport);
  node.transport = counting;
  seen out;
  out.credits
      = prepared->opened().pipeline.schedule->training_credits(microbatches)->activations.front();
  node.make_lane = [&](runtime::lane_settings settings) {
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
