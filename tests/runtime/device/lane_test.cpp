#include "runtime/device/lane.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

using make_lane = std::unique_ptr<lane> (*)(lane_settings);

/// "done", "cancelled", or the text of the exception.
std::string outcome(const std::exception_ptr& failure) {
  if (!failure)
    return "done";
  try {
    std::rethrow_exception(failure);
  } catch (const cancelled&) {
    return "cancelled";
  } catch (const std::exception& e) {
    return e.what();
  }
}

const lane::completion ignored = [](const std::exception_ptr&) {};

/// Waits until all earlier work is done.
void drain(lane& x) {
  std::promise<void> done;
  x.submit([](stream&) {}, [&](const std::exception_ptr&) { done.set_value(); });
  done.get_future().wait();
}

}  // namespace

TEST_CASE("work runs in order of submission; each completion precedes the next work", "[device]") {
  const make_lane make = GENERATE(&make_thread_lane, &make_inline_lane);
  const auto under_test = make({.name = "test"});
  std::vector<int> seen, expected;
  for (int i = 0; i < 1000; ++i) {
    under_test->submit([&seen, i](stream&) { seen.push_back(2 * i); },
                       [&seen, i](const std::exception_ptr&) { seen.push_back(2 * i + 1); });
    expected.insert(expected.end(), {2 * i, 2 * i + 1});
  }
  drain(*under_test);
  CHECK(seen == expected);
}

TEST_CASE("work submitted by work runs in its turn", "[device]") {
  const make_lane make = GENERATE(&make_thread_lane, &make_inline_lane);
  const auto under_test = make({.name = "test"});
  std::string seen;
  std::promise<void> done;
  under_test->submit(
      [&](stream&) {
        under_test->submit([&](stream&) { seen += "c"; }, [&](auto) { done.set_value(); });
        seen += "a";
      },
      [&](const std::exception_ptr&) { seen += "b"; });
  done.get_future().wait();
  CHECK(seen == "abc");
}

TEST_CASE("work and its completion run on the lane's own thread, with its stream", "[device]") {
  const memory_pool pool;
  const auto under_test = make_thread_lane({.name = "lane:0.1-and-more",
                                            .where = troupe::kernels::backend::reference,
                                            .threads = 3,
                                            .pool = pool});
  std::thread::id work, completion;
  std::string name(16, '\0');
  under_test->submit(
      [&](stream& stream) {
        work = std::this_thread::get_id();
        ::pthread_getname_np(::pthread_self(), name.data(), name.size());
        CHECK(stream.where() == troupe::kernels::backend::reference);
        CHECK(stream.threads() == 3);
      },
      [&](const std::exception_ptr&) { completion = std::this_thread::get_id(); });
  drain(*under_test);
  CHECK(work == completion);
  CHECK(work != std::this_thread::get_id());
  CHECK(std::string(name.c_str()) == "lane:0.1-and-mo");
}

TEST_CASE("after a failure, later work is skipped with the same error", "[device]") {
  const make_lane make = GENERATE(&make_thread_lane, &make_inline_lane);
  const bool fails_in_before_each = GENERATE(false, true);
  std::atomic<bool> broken = false;
  const auto under_test = make({.name = "test", .before_each = [&] {
                                  if (broken)
                                    throw input_error("planted");
                                }});
  std::vector<std::string> told;
  int done = 0;
  const auto submit = [&](lane::work what) {
    under_test->submit(std::move(what),
                       [&](const std::exception_ptr& e) { told.push_back(outcome(e)); });
  };
  submit([&](stream&) { ++done; });
  submit([&](stream&) {
    broken = fails_in_before_each;
    if (!fails_in_before_each)
      throw input_error("planted");
  });
  for (int i = 0; i < 3; ++i)
    submit([&](stream&) { ++done; });
  drain(*under_test);
  CHECK(done == 1);
  const auto second = fails_in_before_each ? "done" : "planted";
  const auto third = fails_in_before_each ? "planted" : "cancelled";
  CHECK(told == std::vector<std::string>{"done", second, third, "cancelled", "cancelled"});
}

TEST_CASE("closing drops waiting work without a completion, and refuses new work", "[device]") {
  const make_lane make = GENERATE(&make_thread_lane, &make_inline_lane);
  const auto under_test = make({.name = "test"});
  const auto held = std::make_shared<int>(0);
  std::promise<void> begun, go, ended;
  int dropped = 0;
  const auto second = [&] {
    under_test->submit([&, held](stream&) { ++dropped; },
                       [&](const std::exception_ptr&) { ++dropped; });
  };
  const bool inlined = make == &make_inline_lane;
  under_test->submit(
      [&](stream&) {
        begun.set_value();
        if (!inlined) {
          go.get_future().wait();
          return;
        }
        second();
        under_test->close();
      },
      [&](const std::exception_ptr& e) {
        CHECK(outcome(e) == "done");
        ended.set_value();
      });
  begun.get_future().wait();
  if (!inlined)
    second();
  under_test->close();
  CHECK(held.use_count() == 1);  // dropped work releases its captures at once
  under_test->submit([&](stream&) { ++dropped; }, [&](const std::exception_ptr&) { ++dropped; });
  go.set_value();
  ended.get_future().wait();
  under_test->close();
  CHECK(dropped == 0);
}

TEST_CASE("the end of a lane is reported once, on the lane, after its last work", "[device]") {
  const make_lane make = GENERATE(&make_thread_lane, &make_inline_lane);
  std::vector<std::string> seen;
  {
    const auto under_test
        = make({.name = "test", .at_end = [&](stream&) { seen.emplace_back("end"); }});
    under_test->submit([&](stream&) { seen.emplace_back("work"); }, ignored);
    under_test->submit([&](stream&) { throw std::runtime_error("fails"); }, ignored);
    drain(*under_test);
    under_test->close();
    under_test->close();
  }
  CHECK(seen == std::vector<std::string>{"work", "end"});
}

TEST_CASE("closing does not wait; destruction waits for the work in progress", "[device]") {
  auto under_test = make_thread_lane({.name = "test"});
  std::promise<void> begun;
  std::atomic<bool> ended = false;
  under_test->submit(
      [&](stream&) {
        begun.set_value();
        std::this_thread::sleep_for(50ms);
        ended = true;
      },
      ignored);
  begun.get_future().wait();
  under_test->close();
  CHECK(!ended);
  under_test.reset();
  CHECK(ended);
}

TEST_CASE("any thread can submit and close", "[device]") {
  const auto under_test = make_thread_lane({.name = "test"});
  int done = 0;  // not atomic: only the lane writes it
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k)
        under_test->submit([&](stream&) { ++done; }, ignored);
    });
  for (auto& t : threads)
    t.join();
  drain(*under_test);
  CHECK(done == 1500);
  threads.clear();
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      under_test->submit([&](stream&) { ++done; }, ignored);
      under_test->close();
    });
  for (auto& t : threads)
    t.join();
}
