// The state of lanes and actors, seen from another thread.

#include "runtime/device/lane_board.hpp"

#include "runtime/core/process_key.hpp"
#include "runtime/core/waiting.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

/// Waits for `holds` for at least 20 s; false is a defect.
bool comes(const std::function<bool()>& holds) {
  for (int i = 0; i < 20'000 && !holds(); ++i)
    std::this_thread::sleep_for(1ms);
  return holds();
}

board_entry only(const lane_board& board) {
  const auto all = board.all();
  REQUIRE(all.size() == 1);
  return all.front();
}

class two_missing final : public awaited {
 public:
  wait_report missing(std::uint64_t number) const override {
    return {"a meeting", {"lane:1.0", "rank " + std::to_string(number)}};
  }
};

}  // namespace

TEST_CASE("a lane works, waits for missing members, and works again", "[board]") {
  lane_board board;
  const auto place = board.add({.who = "lane:0.0", .generation = 3, .owner = "stage:0.0"});
  CHECK(only(board).idle);
  CHECK(only(board).whom == std::vector<std::string>{"stage:0.0"});
  std::mutex mutex;
  wait_condition changed;
  bool arrived = false, leave = false;
  std::thread lane([&] {
    const lane_board::place::at_work at(*place, "reduce", 7, 1);
    std::unique_lock lock(mutex);
    changed.wait(lock,
                 [&] { return arrived; },
                 {wait_reason::party::group, "", 2, std::make_shared<two_missing>()});
    changed.wait(lock, [&] { return leave; });
  });
  REQUIRE(comes([&] { return only(board).whom.size() == 2; }));
  auto seen = only(board);
  CHECK(seen.waits);
  CHECK(seen.work == "reduce");
  CHECK(seen.step == 7);
  CHECK(seen.generation == 3);
  CHECK(seen.what == "a meeting");
  CHECK(seen.whom == std::vector<std::string>{"lane:1.0", "rank 2"});
  CHECK(seen.since_ns > 1);  // time of the wait, not of the work
  const auto set = [&](bool& what) {
    const std::lock_guard lock(mutex);
    what = true;
    changed.notify_all();
  };
  set(arrived);
  REQUIRE(comes([&] { return only(board).whom.empty(); }));
  set(leave);
  lane.join();
  CHECK(only(board).work.empty());
}

TEST_CASE("a lane that waits for a tensor names the process as in the run's folder", "[board]") {
  lane_board board;
  const auto place = board.add({.who = "lane:0.0"});
  const lane_board::place::at_work at(*place, "1F0", 7, 1);
  const flagged_wait told({wait_reason::party::process, "a tensor", process_key(3, 2)});
  const auto seen = only(board);
  CHECK(seen.waits);
  CHECK(seen.what == "a tensor");
  CHECK(seen.whom == std::vector<std::string>{"node-3"});
  CHECK(seen.on_process);
}

TEST_CASE("mark_progress restarts the time of the current work", "[board]") {
  lane_board board;
  const auto place = board.add({.who = "lane:0.0"});
  const lane_board::place::at_work at(*place, "build", 1, 5, 4);
  CHECK(only(board).since_ns == 5);
  CHECK(only(board).patience == 4);
  mark_progress();
  CHECK(only(board).since_ns > 5);
  CHECK_FALSE(only(board).waits);
}

TEST_CASE("an actor is asked for its wait only while it handles no message", "[board]") {
  lane_board board;
  const auto place = board.add({.who = "replica:0"});
  int asked = 0;
  place->describe_by([&asked] {
    ++asked;
    return lane_board::place::waiting{4, {"a vote", {"stage:0.1"}}};
  });
  CHECK(only(board).whom == std::vector<std::string>{"stage:0.1"});
  CHECK(only(board).waits);
  CHECK(asked == 2);
  std::thread actor([&] {
    const lane_board::place::at_message at(*place, "run_step", 5, 1);
    std::thread([&] {
      const auto seen = only(board);
      CHECK(seen.work == "run_step");
      CHECK(seen.step == 5);
      CHECK_FALSE(seen.waits);
      CHECK(seen.whom.empty());
    }).join();
  });
  actor.join();
  CHECK(asked == 2);
}

TEST_CASE("a place left behind is hidden, and counts until it has ended", "[board]") {
  lane_board board;
  auto old = board.add({.who = "lane:0.0", .generation = 1});
  auto service = board.add({.who = "loader", .generation = 1, .service = true});
  const auto next = board.add({.who = "lane:0.0", .generation = 2});
  board.leave_behind_until(1, false);
  CHECK(board.all().size() == 2);
  CHECK(board.left_behind() == 1);
  board.leave_behind(service->number());
  CHECK(only(board).generation == 2);
  CHECK(board.left_behind() == 2);
  old.reset();
  service.reset();
  CHECK(board.left_behind() == 0);
}

TEST_CASE("progress of a device counts as progress of the lane that waits for it", "[board]") {
  struct device final : work_elsewhere {
    bool advanced = false;
    bool has_advanced() override { return std::exchange(advanced, false); }
  };
  lane_board board;
  const auto place = board.add({.who = "lane:0.0"});
  const auto work = std::make_shared<device>();
  const lane_board::place::at_work busy(*place, "1F0", 1, 5);
  follow_work(work);
  CHECK(only(board).since_ns == 5);
  work->advanced = true;
  const auto since = only(board).since_ns;
  CHECK(since > 5);
  CHECK(only(board).since_ns == since);
}
