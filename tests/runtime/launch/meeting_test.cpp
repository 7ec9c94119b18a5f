#include "runtime/launch/meeting.hpp"

#include "runtime/core/error.hpp"
#include "runtime/launch/meeting_member.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using std::chrono::seconds;

namespace {

constexpr seconds patience(100);  // only a hang reaches it

bool never() {
  return false;
}

/// Two ranks for each host, of four.
launch_member member_of(int rank) {
  return {.rank = rank,
          .world = 4,
          .local_rank = rank % 2,
          .host = rank < 2 ? "a" : "b",
          .machine = "1",
          .pid = 100 + rank,
          .build = "build",
          .command = {"--lr", "1e-3"}};
}

/// A launch with credentials of its own.
class launch {
 public:
  explicit launch(int world = 4) {
    make_credentials(folder_ / "keys", "test");
    auto self = member_of(0);
    self.world = world;
    rank_0_ = std::make_unique<meeting>(self, "127.0.0.1", 0, read_credentials(folder_ / "keys"));
  }
  meeting& rank_0() { return *rank_0_; }
  meeting_member member(const launch_member& x, const char* keys = "keys") const {
    return {x, "127.0.0.1", rank_0_->port(), folder_ / keys};
  }
  void ends_with(int code) { rank_0_->end(code, "", seconds(0)); }
  void breaks() { rank_0_.reset(); }
  const troupe::tests::scratch_folder& folder() const { return folder_; }

 private:
  troupe::tests::scratch_folder folder_;
  std::unique_ptr<meeting> rank_0_;
};

std::vector<std::string> names_of(const std::vector<launch_host>& hosts) {
  std::vector<std::string> out;
  for (const auto& one : hosts)
    out.push_back(one.name);
  return out;
}

/// Answer to a process of the launch.
struct heard {
  std::optional<bool> starts_node;
  launch_end end;
};
heard take_part(meeting_member by, int rank, const std::string& failure = {}) {
  const auto joined = by.join(never);
  if (const auto* const end = std::get_if<launch_end>(&joined))
    return {{}, *end};
  const bool starts = std::get<launch_begin>(joined).starts_node;
  if (starts)
    by.report(failure.empty() ? "10.0.0.2:" + std::to_string(rank) : "", failure);
  return {starts, by.wait_for_end()};
}

std::future<heard> started(const launch& of, const launch_member& x, std::string failure = {}) {
  return std::async(std::launch::async, [&of, x, failure = std::move(failure)] {
    return take_part(of.member(x), x.rank, failure);
  });
}

void refused(const launch_member& wrong, const std::string& because) {
  INFO(because);
  launch all;
  auto first = started(all, member_of(2)), second = started(all, member_of(3)),
       last = started(all, wrong);
  CHECK_THROWS_MATCHES(all.rank_0().gather(patience, never),
                       input_error,
                       MessageMatches(ContainsSubstring(because)));
  all.ends_with(2);
  const heard told[] = {first.get(), second.get(), last.get()};
  for (const auto& one : told) {
    CHECK_FALSE(one.starts_node);
    CHECK(one.end.exit_code == 2);
    CHECK_THAT(one.end.reason, ContainsSubstring(because));
  }
  CHECK(told[0].end.first);  // of host b: says it
  CHECK_FALSE(told[1].end.first);
}

launch_member with(launch_member x, void (*change)(launch_member&)) {
  change(x);
  return x;
}

}  // namespace

TEST_CASE("MEETING-1: the first process of each host starts its node, and all hear the end",
          "[launch]") {
  launch all;
  auto second = started(all, member_of(1)), third = started(all, member_of(2)),
       last = started(all, member_of(3));
  all.rank_0().gather(patience, never);
  const auto hosts = all.rank_0().hosts();
  CHECK(names_of(hosts) == std::vector<std::string>{"a", "b"});
  CHECK(hosts[1].ranks == 2);
  CHECK(all.rank_0().nodes(patience, never) == std::vector<std::string>{"", "10.0.0.2:2"});
  all.rank_0().end(7, "");
  const heard told[] = {second.get(), third.get(), last.get()};
  CHECK(told[0].starts_node == false);
  CHECK(told[1].starts_node == true);
  CHECK(told[2].starts_node == false);
  for (const auto& one : told)
    CHECK(one.end.exit_code == 7);
}

TEST_CASE("without local ranks, processes of one machine count together", "[launch]") {
  launch all;
  std::vector<std::future<heard>> others;
  for (int rank = 1; rank < 4; ++rank)
    others.push_back(
        started(all, with(member_of(rank), [](launch_member& x) { x.local_rank.reset(); })));
  all.rank_0().gather(patience, never);
  CHECK(names_of(all.rank_0().hosts()) == std::vector<std::string>{"a", "b"});
  all.rank_0().begin_without_nodes();
  all.rank_0().end(0, "");
  for (auto& one : others)
    CHECK(one.get().starts_node == false);
}

TEST_CASE("MEETING-1: a launch with a wrong process is refused in all of them", "[launch]") {
  refused(with(member_of(2), [](launch_member& x) { x.pid = 999; }), "two processes have rank 2");
  refused(with(member_of(1), [](launch_member& x) { x.build = "other"; }),
          "rank 1 (process 101 on a) is another build than rank 0 (process 100 on a): other, not "
          "build");
  refused(with(member_of(1), [](launch_member& x) { x.command = {"--lr"}; }),
          "another command line than rank 0 (process 100 on a): nothing more instead of '1e-3'");
  refused(with(member_of(1), [](launch_member& x) { x.world = 8; }), "counts 8 ranks");
  refused(with(member_of(1), [](launch_member& x) { x.rank = 4; }), "is not below the number");
}

TEST_CASE("a process that comes to a launch that runs is refused alone", "[launch]") {
  launch all;
  std::vector<std::future<heard>> others;
  for (int rank = 1; rank < 4; ++rank)
    others.push_back(started(all, member_of(rank)));
  all.rank_0().gather(patience, never);
  all.rank_0().begin_without_nodes();
  const auto late = started(all, with(member_of(2), [](launch_member& x) { x.pid = 999; })).get();
  CHECK(late.end.exit_code == 2);
  CHECK_THAT(late.end.reason, ContainsSubstring("this launch runs already: two processes have"));
  all.rank_0().end(0, "");
  for (auto& one : others)
    CHECK(one.get().end.exit_code == 0);
}

TEST_CASE("a host has what its own first process tells, and may have more ranks than others",
          "[launch]") {
  launch all;
  const auto alone = with(member_of(3), [](launch_member& x) {
    x.local_rank = 0;
    x.host = "c";
    x.devices = 4;
    x.cores = 16;
    x.domain = "s1";
  });
  auto second = started(all, member_of(1)), third = started(all, member_of(2)),
       last = started(all, alone);
  all.rank_0().gather(patience, never);
  const auto hosts = all.rank_0().hosts();
  CHECK(names_of(hosts) == std::vector<std::string>{"a", "b", "c"});
  CHECK(hosts[0].ranks == 2);
  CHECK(hosts[0].devices == 0);
  CHECK(hosts[2].ranks == 1);
  CHECK(hosts[2].devices == 4);
  CHECK(hosts[2].cores == 16);
  CHECK(hosts[2].domain == "s1");
  all.ends_with(0);
  for (auto* const one : {&second, &third, &last})
    CHECK(one->get().end.exit_code == 0);
}

TEST_CASE("MEETING-2: a process that is started again takes its rank, and learns its node",
          "[launch]") {
  launch all;
  const auto lost = member_of(2), again = with(lost, [](launch_member&x) { x.pid = 999; });
  auto second = started(all, member_of(1)), last = started(all, member_of(3));
  auto third = std::async(std::launch::async, [&] {
    auto by = all.member(lost);
    static_cast<void>(by.join(never));
    by.report("10.0.0.2:7000");
  });
  all.rank_0().gather(patience, never);
  CHECK(all.rank_0().nodes(patience, never) == std::vector<std::string>{"", "10.0.0.2:7000"});
  third.get();
  for (;;) {  // until the meeting has seen the connection close
    const auto joined = all.member(again).join(never);
    if (const auto* const end = std::get_if<launch_end>(&joined)) {
      CHECK_THAT(end->reason, ContainsSubstring("this launch runs already"));
      continue;
    }
    CHECK(std::get<launch_begin>(joined).starts_node);
    CHECK(std::get<launch_begin>(joined).node == "10.0.0.2:7000");
    break;
  }
  all.ends_with(0);
  CHECK(second.get().end.exit_code == 0);
  CHECK(last.get().end.exit_code == 0);
}

TEST_CASE("MEETING-1: missing ranks are named", "[launch]") {
  launch all;
  auto other = started(all, member_of(2));
  CHECK_THROWS_MATCHES(
      all.rank_0().gather(std::chrono::milliseconds(200), never),
      input_error,
      MessageMatches(ContainsSubstring("rank") && ContainsSubstring("did not come within 0 s")));
  all.ends_with(2);
  CHECK(other.get().end.exit_code == 2);
}

TEST_CASE("a host whose node does not start ends the launch", "[launch]") {
  launch all;
  auto second = started(all, member_of(1)), third = started(all, member_of(2), "no port is free"),
       last = started(all, member_of(3));
  all.rank_0().gather(patience, never);
  CHECK_THROWS_MATCHES(all.rank_0().nodes(patience, never),
                       input_error,
                       MessageMatches(ContainsSubstring(
                           "rank 2 (process 102 on b) cannot start its node: no port is free")));
  all.rank_0().end(2, "no node");
  for (auto* const one : {&second, &third, &last})
    CHECK(one->get().end.reason == "no node");
}

TEST_CASE("a process with other credentials is refused, and so is one without TLS", "[launch]") {
  launch all;
  make_credentials(all.folder() / "others", "another launch");
  CHECK_THROWS_AS(all.member(member_of(1), "others").join(never), io_error);
  CHECK_THROWS_AS(meeting_member(member_of(1), "127.0.0.1", all.rank_0().port(), {}).join(never),
                  io_error);
}

TEST_CASE("without credentials a launch meets in the clear", "[launch]") {
  auto self = member_of(0), other = member_of(1);
  self.world = other.world = 2;
  meeting rank_0(self, "127.0.0.1", 0, std::nullopt);
  auto told = std::async(std::launch::async, [&] {
    return take_part(meeting_member(other, "127.0.0.1", rank_0.port(), {}), 1);
  });
  rank_0.gather(patience, never);
  rank_0.begin_without_nodes();
  rank_0.end(3, "");
  CHECK(told.get().end.exit_code == 3);
}

TEST_CASE("the first request to end of another rank reaches the run, at any time", "[launch]") {
  launch all;
  const auto by = all.member(member_of(1));
  by.ask_to_end("SIGUSR1");
  by.ask_to_end("SIGTERM");
  std::vector<std::string> heard;
  all.rank_0().give_requests_to([&](const std::string& why) { heard.push_back(why); });
  CHECK(heard == std::vector<std::string>{"SIGUSR1"});
  CHECK_THROWS_AS(all.rank_0().gather(patience, never), cancelled);
  all.rank_0().give_requests_to({});
}

TEST_CASE("a wait for a launch ends at a signal", "[launch]") {
  launch all;
  CHECK_THROWS_AS(all.rank_0().gather(patience, [] { return true; }), cancelled);
  CHECK_THROWS_AS(all.member(member_of(1)).join([] { return true; }), cancelled);
}

TEST_CASE("a process whose rank 0 is gone does not wait", "[launch]") {
  launch all;
  auto other
      = std::async(std::launch::async, [&] { return take_part(all.member(member_of(2)), 2); });
  while (all.rank_0().hosts().size() < 2) {
  }
  all.breaks();
  CHECK_THROWS_AS(other.get(), io_error);
}
