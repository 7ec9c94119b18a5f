// When a process counts as still.

#include "runtime/device/stillness.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t start = 100 * second;
constexpr std::uint64_t quarter = second / 4;  ///< between looks, at a suspicion of a second

board_entry waits(const std::string& who,
                  std::vector<std::string> whom,
                  std::uint64_t since_ns = start) {
  return {.who = who, .waits = true, .since_ns = since_ns, .whom = std::move(whom)};
}

/// A lane that waits for a tensor of another process.
board_entry receives() {
  auto out = waits("lane:0.1", {"node-0"});
  out.on_process = true;
  return out;
}

board_entry works(const std::string& who) {
  return {.who = who, .work = "1F0", .since_ns = start};
}

/// Seconds after `start` at which it is told first, of at most 20; 0: never.
double told_after(stillness& by,
                  const std::vector<board_entry>& all,
                  std::uint64_t bytes_each = 0,
                  const std::vector<std::string>& without = {}) {
  for (std::uint64_t i = 0; i <= 80; ++i)
    if (by.look(all, i * bytes_each, start + i * quarter, without))
      return double(i * quarter) / 1e9;
  return 0;
}

}  // namespace

TEST_CASE("HANG-5: a process whose members all wait is still after twice the suspicion",
          "[device]") {
  stillness by(1);
  CHECK(told_after(by, {waits("stage:0.0", {"stage:0.1"}), waits("loader", {})}) == 2);
}

TEST_CASE("HANG-5: a process with a member that works is not still", "[device]") {
  stillness by(1);
  CHECK(told_after(by, {waits("stage:0.0", {"lane:0.0"}), works("lane:0.0")}) == 0);
}

TEST_CASE("HANG-5: the newest wait counts", "[device]") {
  stillness by(1);
  CHECK(told_after(by, {waits("stage:0.0", {"stage:0.1"}), waits("keeper", {}, start + 3 * second)})
        == 5);
}

TEST_CASE("HANG-5: members that the looks keep busy do not count", "[device]") {
  stillness by(1);
  CHECK(told_after(by, {waits("replica:0", {"supervisor"}), works("node")}, 0, {"node"}) == 2);
}

TEST_CASE("HANG-5: bytes that arrive are motion", "[device]") {
  stillness by(1);
  CHECK(told_after(by, {receives()}, 1) == 0);
}

TEST_CASE("HANG-5: a process that waits for a tensor is still after four times the suspicion",
          "[device]") {
  stillness by(1);
  CHECK(told_after(by, {receives()}) == 4);
}

TEST_CASE("HANG-5: after looks that came late the time starts anew", "[device]") {
  stillness by(1);
  const std::vector<board_entry> all{waits("stage:0.0", {"stage:0.1"})};
  CHECK_FALSE(by.look(all, 0, start));
  CHECK_FALSE(by.look(all, 0, start + 100 * second));  // the machine slept
  CHECK_FALSE(by.look(all, 0, start + 100 * second + quarter));
  for (std::uint64_t i = 2; i < 8; ++i)
    CHECK_FALSE(by.look(all, 0, start + 100 * second + i * quarter));
  CHECK(by.look(all, 0, start + 102 * second));
}
