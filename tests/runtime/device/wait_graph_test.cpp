// Finds the hanging member from the reported waits of lanes and actors.

#include "runtime/device/wait_graph.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t start = 100 * second;
constexpr std::uint64_t quarter = second / 4;  ///< interval between looks for a timeout of 1 s

board_entry waits(std::uint64_t number,
                  const std::string& who,
                  std::vector<std::string> whom,
                  std::uint64_t since_ns = start) {
  return {.number = number,
          .who = who,
          .step = 4,
          .waits = true,
          .since_ns = since_ns,
          .what = "a vote",
          .whom = std::move(whom)};
}

board_entry works(std::uint64_t number,
                  const std::string& who,
                  std::uint64_t since_ns = start,
                  std::uint64_t cpu_ns = 0) {
  return {.number = number,
          .who = who,
          .work = "1F0",
          .step = 4,
          .since_ns = since_ns,
          .cpu_ns = cpu_ns};
}

/// The first verdict of `judge` within `looks` looks.
std::optional<hang_judge::verdict> judged(hang_judge& judge,
                                          const std::vector<board_entry>& all,
                                          int looks,
                                          int* needed = nullptr) {
  for (int i = 0; i < looks; ++i)
    if (auto found = judge.look(all, start + std::uint64_t(i) * quarter)) {
      if (needed)
        *needed = i;
      return found;
    }
  return std::nullopt;
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out;
  for (auto at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ", at + 1)) {
    const auto begin = at + 3;
    out.push_back(text.substr(begin, text.find_first_of(" \n", begin) - begin));
  }
  for (auto& x : out)
    if (x.ends_with(':'))
      x.pop_back();
  return out;
}

}  // namespace

TEST_CASE("the text of a graph starts at the root, then lists its waiters, then theirs",
          "[graph]") {
  auto unneeded = waits(8, "wire:0.1", {"stage:0.1"});
  unneeded.idle = true;
  auto lane = waits(6, "lane:1.1", {"lane:0.1"});
  lane.work = "reduce";
  lane.what = "all_reduce_sum in 'data of pipeline rank 1.0'";
  const wait_graph graph({waits(1, "supervisor", {"replica:0", "replica:1"}),
                          waits(2, "replica:0", {"stage:0.1"}),
                          waits(3, "stage:0.1", {"lane:0.1"}),
                          works(4, "lane:0.1"),
                          lane,
                          works(7, "monitor"),
                          unneeded});
  CHECK(graph.waiters_of("lane:0.1") == 5);  // the idle lane waits for work of stage:0.1
  CHECK(graph.waiters_of("monitor") == 0);
  const auto text = graph.text("lane:0.1", start + second);
  CHECK(names_in(text)
        == std::vector<std::string>{
            "lane:0.1", "lane:1.1", "stage:0.1", "replica:0", "supervisor", "monitor"});
  CHECK(text.starts_with("\n  lane:0.1 step 4 '1F0': busy for 1.00 s\n"));
  CHECK(text.find("lane:1.1 step 4 'reduce': waits for lane:0.1 for 1.00 s (all_reduce_sum in "
                  "'data of pipeline rank 1.0')")
        != std::string::npos);
}

TEST_CASE("a cycle of waits has no root, and its text is finite", "[graph]") {
  const std::vector<board_entry> ring
      = {waits(1, "a", {"b"}), waits(2, "b", {"c"}), waits(3, "c", {"a", "nobody"})};
  CHECK(wait_graph(ring).waiters_of("a") == 2);
  CHECK(names_in(wait_graph(ring).text("a", start)).size() == 3);
  hang_judge judge(1);
  CHECK_FALSE(judged(judge, ring, 100));
}

TEST_CASE("HANG-3: a cycle of waits is named, with the member that is replaced", "[graph]") {
  auto supervisor = waits(1, "supervisor", {"stage:0.0"});
  supervisor.actor = 12;
  auto idle = waits(9, "lane:0.1", {"stage:0.1"});
  idle.idle = true;
  const std::vector<board_entry> ring = {supervisor,
                                         waits(2, "stage:0.0", {"stage:0.1"}, start - second / 2),
                                         waits(3, "stage:0.1", {"lane:0.1", "stage:0.0"}),
                                         waits(4, "replica:0", {"stage:0.0"}),
                                         waits(5, "loader", {}),
                                         idle};
  hang_judge judge(1);
  int needed = -1;
  const auto found = judged(judge, ring, 100, &needed);
  REQUIRE(found);
  CHECK(needed == 8);  // twice the timeout of a hang
  CHECK(found->root.who == "stage:0.0");
  CHECK(found->ring == "stage:0.0 waits for stage:0.1, which waits for stage:0.0");
  CHECK(
      found->text.starts_with("\n  a deadlock: stage:0.0 waits for stage:0.1, which waits for "
                              "stage:0.0; stage:0.0 is replaced\n  stage:0.0 step 4: waits"));
}

TEST_CASE("HANG-3: in a cycle with the supervisor another member is replaced", "[graph]") {
  auto supervisor = waits(1, "supervisor", {"replica:0"}, start - second);
  supervisor.actor = 12;
  hang_judge judge(1);
  const auto found = judged(judge, {supervisor, waits(2, "replica:0", {"supervisor"})}, 100);
  REQUIRE(found);
  CHECK(found->root.who == "replica:0");
}

TEST_CASE("a wait for a thread that can still run is not a deadlock", "[graph]") {
  const auto other = GENERATE(works(3, "lane:0.1", start + 1000 * second),  // started just now
                              waits(3, "lane:0.1", {}),
                              waits(3, "elsewhere", {}));
  // A replica is built while another one waits: each names the other.
  hang_judge judge(1);
  CHECK_FALSE(judged(judge,
                     {waits(1, "supervisor", {"replica:0", "lane:0.1"}),
                      waits(2, "replica:0", {"supervisor"}),
                      other},
                     100));
}

TEST_CASE("a wait for a process is no wait for the member of that name", "[graph]") {
  auto lane = waits(2, "lane:0.0", {"supervisor"});
  lane.on_process = true;
  const std::vector<board_entry> all = {waits(1, "supervisor", {"lane:0.0"}), lane};
  hang_judge judge(1);
  CHECK_FALSE(judged(judge, all, 100));
  CHECK(wait_graph(all).waiters_of("supervisor") == 0);
  CHECK(wait_graph(all).waiters_of("lane:0.0") == 1);
}

TEST_CASE("HANG-1: a late thread that works while others wait for it is the root", "[graph]") {
  hang_judge judge(1);
  int needed = -1;
  const auto found = judged(judge,
                            {works(1, "monitor", start - second),  // no thread waits for it
                             works(2, "lane:0.1"),
                             waits(3, "stage:0.1", {"lane:0.1"}, start - 50 * second)},
                            20,
                            &needed);
  REQUIRE(found);
  CHECK(found->root.who == "lane:0.1");
  CHECK(found->root.number == 2);
  CHECK(needed == 4);  // 1 s after the first look, where the time starts
  CHECK(found->seconds == 1.0);
}

TEST_CASE("waiting and idle threads are not suspected", "[graph]") {
  hang_judge judge(1);
  CHECK_FALSE(judged(judge, {waits(1, "loader", {}), waits(2, "stage:0.1", {"loader"})}, 100));
}

TEST_CASE("the timeout grows with the patience of the current work", "[graph]") {
  hang_judge judge(1);
  auto loader = works(1, "loader");
  loader.patience = 4;
  int needed = -1;
  REQUIRE(judged(judge, {loader}, 100, &needed));
  CHECK(needed == 16);
}

TEST_CASE("on a slow machine threads that compute get more time", "[graph]") {
  hang_judge judge(1);
  std::optional<hang_judge::verdict> found;
  int looks = 0;
  for (; looks < 100 && !found; ++looks) {
    // Each gets 2 % of a processor.
    const auto used = std::uint64_t(looks) * quarter / 50;
    found = judge.look({works(1, "lane:0.0", start, used), works(2, "lane:0.1", start, used)},
                       start + std::uint64_t(looks) * quarter);
  }
  REQUIRE(found);  // the extra time is limited
  CHECK(looks - 1 == 16);
}

TEST_CASE("a thread with new work or progress is not late", "[graph]") {
  hang_judge judge(1);
  for (int i = 0; i < 100; ++i) {
    const auto now = start + std::uint64_t(i) * quarter;
    CHECK_FALSE(judge.look({works(1, "lane:0.0", now - 3 * quarter)}, now));
  }
}

TEST_CASE("after a late look, as after SIGCONT, all times start again", "[graph]") {
  hang_judge judge(1);
  auto now = start;
  const auto look = [&](std::uint64_t after) {
    now += after;
    return judge.look({works(1, "lane:0.0")}, now);
  };
  for (int i = 0; i < 4; ++i)
    CHECK_FALSE(look(quarter));
  CHECK_FALSE(look(60 * second));  // the process was stopped
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(look(quarter));
  CHECK(look(quarter));
}
