#include "runtime/telemetry/recorder.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <future>
#include <mutex>
#include <vector>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

/// What a sink got; shared with it, because it may outlive the test's recorder.
struct got {
  std::mutex mutex;
  std::vector<std::uint64_t> iterations;
  bool finished = false;
  std::promise<void> gate;  ///< the sink waits for it before each record
  std::shared_future<void> opened = gate.get_future().share();

  std::vector<std::uint64_t> taken() {
    const std::lock_guard lock(mutex);
    return iterations;
  }
};

class sink final : public record_sink {
 public:
  explicit sink(std::shared_ptr<got> to, std::uint64_t fails_at = 0)
      : to_(std::move(to)), fails_at_(fails_at) {}
  void write(const step_report& x) override {
    to_->opened.wait();
    if (x.iteration == fails_at_)
      throw io_error("the disk is full");
    const std::lock_guard lock(to_->mutex);
    to_->iterations.push_back(x.iteration);
  }
  void write(const validation_report& x) override { write(step_report{.iteration = x.iteration}); }
  void finish() override { to_->finished = true; }

 private:
  std::shared_ptr<got> to_;
  std::uint64_t fails_at_;
};

step_report step(std::uint64_t iteration) {
  return {.iteration = iteration};
}

constexpr auto long_enough = 20s;  // never reached unless broken

}  // namespace

TEST_CASE("everything that is recorded is written, in its order, before the end", "[recorder]") {
  const auto to = std::make_shared<got>();
  to->gate.set_value();
  recorder by([to] { return std::make_unique<sink>(to); });
  std::vector<std::uint64_t> expected;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    by.record(step(i));
    expected.push_back(i);
  }
  by.record(validation_report{1000, 2.0});
  expected.push_back(1000);
  CHECK(by.finish(long_enough));
  CHECK(to->taken() == expected);
  CHECK(to->finished);
  CHECK(by.dropped() == 0);
}

TEST_CASE("a sink that hangs costs nothing but the oldest records", "[recorder]") {
  const auto to = std::make_shared<got>();
  {
    recorder by([to] { return std::make_unique<sink>(to); }, 4);
    by.record(step(1));
    while (by.waiting() > 0)  // until the sink has it, and hangs
      std::this_thread::yield();
    for (std::uint64_t i = 2; i <= 10; ++i)
      by.record(step(i));  // does not wait
    CHECK(by.waiting() == 4);
    CHECK(by.dropped() == 5);
    CHECK_FALSE(by.finish(1ms));
    CHECK_NOTHROW(by.check());
    to->gate.set_value();
    CHECK(by.finish(long_enough));
  }
  CHECK(to->taken() == std::vector<std::uint64_t>{1, 7, 8, 9, 10});
}

TEST_CASE("a file that cannot even be opened hangs its own thread alone", "[recorder]") {
  const auto to = std::make_shared<got>();
  recorder by([to] {
    to->opened.wait();
    return std::make_unique<sink>(to);
  });
  by.record(step(1));
  CHECK_FALSE(by.finish(1ms));
  to->gate.set_value();
  CHECK(by.finish(long_enough));
  CHECK(to->taken() == std::vector<std::uint64_t>{1});
}

TEST_CASE("what a sink throws is found by the next look, and nothing more is written",
          "[recorder]") {
  const auto to = std::make_shared<got>();
  to->gate.set_value();
  recorder by([to] { return std::make_unique<sink>(to, 2); });
  for (std::uint64_t i = 1; i < 4; ++i)
    by.record(step(i));
  CHECK(by.finish(long_enough));
  CHECK(to->taken() == std::vector<std::uint64_t>{1});
  CHECK_FALSE(to->finished);
  CHECK_THROWS_AS(by.check(), io_error);
  CHECK_THROWS_WITH(by.check(), "the disk is full");
}
