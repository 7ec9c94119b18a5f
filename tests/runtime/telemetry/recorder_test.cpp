#include "runtime/telemetry/recorder.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

/// Records of the sink; shared, because the sink can outlive the test's recorder.
struct got {
  std::mutex mutex;
  std::vector<std::uint64_t> iterations;
  std::atomic<std::uint64_t> fails_at = 0;  ///< iteration with a failing write
  std::atomic<int> tries = 0;               ///< number of failed writes
  std::promise<void> gate;                  ///< the sink waits for it before each record
  std::shared_future<void> opened = gate.get_future().share();

  std::vector<std::uint64_t> taken() {
    const std::lock_guard lock(mutex);
    return iterations;
  }
};

class sink final : public record_sink {
 public:
  explicit sink(std::shared_ptr<got> to) : to_(std::move(to)) {}
  void write(const step_report& x) override {
    to_->opened.wait();
    if (x.iteration == to_->fails_at) {
      ++to_->tries;
      throw io_error("the disk is full");
    }
    const std::lock_guard lock(to_->mutex);
    to_->iterations.push_back(x.iteration);
  }
  void write(const validation_report& x) override { write(step_report{.iteration = x.iteration}); }

 private:
  std::shared_ptr<got> to_;
};

step_report step(std::uint64_t iteration) {
  return {.iteration = iteration};
}

constexpr auto long_enough = 20s;  // reached only by a defect

}  // namespace

TEST_CASE("every record is written, in order, before the end", "[recorder]") {
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
  CHECK(by.dropped() == 0);
}

TEST_CASE("a sink that hangs loses only the oldest records and does not block", "[recorder]") {
  const auto to = std::make_shared<got>();
  {
    recorder by([to] { return std::make_unique<sink>(to); }, 4);
    by.record(step(1));
    while (by.waiting() > 0)  // until the sink has it and hangs
      std::this_thread::yield();
    for (std::uint64_t i = 2; i <= 10; ++i)
      by.record(step(i));  // does not block
    CHECK(by.waiting() == 4);
    CHECK(by.dropped() == 5);
    CHECK_FALSE(by.finish(1ms));
    CHECK_FALSE(by.trouble().has_value());
    to->gate.set_value();
    CHECK(by.finish(long_enough));
  }
  CHECK(to->taken() == std::vector<std::uint64_t>{1, 7, 8, 9, 10});
}

TEST_CASE("a file that hangs while it is opened blocks only the recorder's thread", "[recorder]") {
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

TEST_CASE("a failed write is reported once, retried, and finally written", "[recorder]") {
  const auto to = std::make_shared<got>();
  to->gate.set_value();
  to->fails_at = 2;
  recorder by([to] { return std::make_unique<sink>(to); }, 4096, 1ms);
  for (std::uint64_t i = 1; i < 4; ++i)
    by.record(step(i));
  std::optional<std::string> trouble;
  while (!(trouble = by.trouble()))
    std::this_thread::yield();
  CHECK(*trouble == "the disk is full");
  while (to->tries < 4)
    std::this_thread::yield();
  CHECK_FALSE(by.trouble().has_value());
  to->fails_at = 0;
  while (to->taken().size() < 3)  // an attempt that started earlier can still fail
    std::this_thread::yield();
  CHECK(by.finish(long_enough));
  CHECK(to->taken() == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("records that cannot be written until the end are counted", "[recorder]") {
  const auto to = std::make_shared<got>();
  to->gate.set_value();
  to->fails_at = 2;
  recorder by([to] { return std::make_unique<sink>(to); }, 4096, 1h);
  for (std::uint64_t i = 1; i < 5; ++i)
    by.record(step(i));
  CHECK_FALSE(by.finish(long_enough));
  CHECK(by.waiting() == 3);
  CHECK(to->taken() == std::vector<std::uint64_t>{1});
  CHECK(by.trouble() == "the disk is full");
}

TEST_CASE("opening a file is retried", "[recorder]") {
  const auto to = std::make_shared<got>();
  to->gate.set_value();
  int tries = 0;
  recorder by(
      [&]() -> std::unique_ptr<record_sink> {
        if (++tries < 3)
          throw io_error("not yet");
        return std::make_unique<sink>(to);
      },
      4096,
      1ms);
  by.record(step(1));
  while (to->taken().empty())
    std::this_thread::yield();
  CHECK(by.finish(long_enough));
  CHECK(tries == 3);
}
