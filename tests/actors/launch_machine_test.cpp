// What becomes of processes that are started, event by event.

#include "actors/process/launch_machine.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::actors;
using Catch::Matchers::ContainsSubstring;
using messages::process_name;

namespace {

constexpr process_name home{-1, 1};

runtime::generation_id in(std::uint64_t epoch, std::uint64_t number = 1) {
  return runtime::make_generation(epoch, number);
}

/// Those of one kind among the actions.
template <class Action>
std::vector<Action> of(const launch_actions& all) {
  std::vector<Action> out;
  for (const auto& one : all)
    if (const auto* const x = std::get_if<Action>(&one))
      out.push_back(*x);
  return out;
}

/// The test plays supervisor, host agent, and processes.
struct launching {
  launch_machine machine{{0, 0}, home};
  std::uint64_t starts = 0;  ///< of the agent's

  /// The agent has started what it was asked for; its number of it.
  std::uint64_t start(const launch_actions& asked, std::int64_t pid) {
    const auto what = of<launch_action::start>(asked);
    REQUIRE(what.size() == 1);
    machine.started(what[0].request, ++starts, pid);
    return starts;
  }
  /// Everybody answers that he is connected.
  launch_actions connect(const launch_actions& asked) {
    launch_actions out;
    for (const auto& x : of<launch_action::connect>(asked))
      for (auto& one : machine.connected(x.by, x.other, ""))
        out.push_back(std::move(one));
    return out;
  }
  /// From the order to its answer.
  std::uint64_t stand(int process, std::uint32_t incarnation = 1, std::uint64_t epoch = 1) {
    const std::int64_t pid = 100 * (process + 1) + incarnation;
    const auto which = start(machine.wanted(process, in(epoch)), pid);
    come({process, incarnation}, pid);
    return which;
  }
  void come(process_name who, std::int64_t pid) {
    REQUIRE(machine.joins(who, pid).empty());
    REQUIRE(of<launch_action::tell_started>(connect(machine.present(who))).size() == 1);
  }
};

}  // namespace

TEST_CASE("PROCESS-1: an older incarnation that comes late takes no part", "[actors]") {
  launching it;
  const auto first = it.start(it.machine.wanted(0, in(1)), 101);
  const auto again = it.machine.died(0, first, "killed by SIGKILL");
  REQUIRE(of<launch_action::start>(again).size() == 1);
  CHECK(of<launch_action::start>(again)[0].who == process_name{0, 2});
  CHECK_THAT(it.machine.joins({0, 1}, 101), ContainsSubstring("PROCESS-1"));
  CHECK(it.machine.present({0, 1}).empty());
  CHECK(it.machine.here().empty());
  it.start(again, 102);
  it.come({0, 2}, 102);
  CHECK_THAT(it.machine.joins({0, 1}, 101), ContainsSubstring("PROCESS-1"));
  CHECK(it.machine.present({0, 1}).empty());
  CHECK(it.machine.connected({0, 1}, home, "").empty());
  CHECK(it.machine.withdrawn({0, 1}, "it does not matter").empty());
  CHECK(it.machine.here() == std::vector<process_name>{{0, 2}});
}

TEST_CASE("PROCESS-1: nobody joins for another or from outside the job", "[actors]") {
  launching it;
  const auto asked = it.machine.wanted(0, in(1));
  CHECK_FALSE(it.machine.joins({1, 1}, 7).empty());
  CHECK_FALSE(it.machine.joins({2, 1}, 7).empty());
  CHECK_FALSE(it.machine.joins({-1, 1}, 7).empty());
  CHECK_FALSE(it.machine.joins({0, 2}, 7).empty());
  it.start(asked, 101);
  CHECK_THAT(it.machine.joins({0, 1}, 99), ContainsSubstring("PROCESS-1"));  // another pid
  CHECK(it.machine.joins({0, 1}, 101).empty());
  CHECK(it.machine.joins({0, 1}, 101).empty());  // the answer came too late for it
  CHECK_THAT(it.machine.joins({0, 1}, 102), ContainsSubstring("PROCESS-1"));
  it.machine.present({0, 1});
  CHECK_THAT(it.machine.joins({0, 1}, 101), ContainsSubstring("PROCESS-1"));
}

TEST_CASE("who comes before the agent has said whom it started is held against that", "[actors]") {
  launching it;
  const auto asked = of<launch_action::start>(it.machine.wanted(0, in(1)));
  CHECK(it.machine.joins({0, 1}, 99).empty());
  const auto kills = of<launch_action::kill>(it.machine.started(asked[0].request, 5, 101));
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].which == 5);
  CHECK(it.machine.present({0, 1}).empty());
}

TEST_CASE("PROCESS-2: a start is told when all connectors have answered", "[actors]") {
  launching it;
  it.stand(0);
  it.start(it.machine.wanted(1, in(1)), 201);
  REQUIRE(it.machine.joins({1, 1}, 201).empty());
  const auto asked = of<launch_action::connect>(it.machine.present({1, 1}));
  REQUIRE(asked.size() == 4);  // with home, and with the other; both ways
  std::size_t answered = 0;
  for (const auto& x : asked) {
    const auto told = it.machine.connected(x.by, x.other, "");
    CHECK(it.machine.connected(x.by, x.other, "").empty());  // twice counts once
    CHECK(of<launch_action::tell_started>(told).size() == (++answered == asked.size() ? 1 : 0));
  }
}

TEST_CASE("PROCESS-2: one who has not answered is asked again, and his death is an answer",
          "[actors]") {
  launching it;
  const auto which = it.stand(0);
  it.start(it.machine.wanted(1, in(1)), 201);
  REQUIRE(it.machine.joins({1, 1}, 201).empty());
  launch_actions told;
  for (const auto& x : of<launch_action::connect>(it.machine.present({1, 1})))
    if (x.by == process_name{0, 1} || x.other == process_name{0, 1}) {
      const auto again = of<launch_action::connect>(it.machine.unanswered(x.by, x.other));
      REQUIRE(again.size() == 1);
      CHECK(again[0].by == x.by);
      CHECK(again[0].other == x.other);
      CHECK(again[0].calls == x.calls);
    } else {
      CHECK(of<launch_action::tell_started>(it.machine.connected(x.by, x.other, "")).empty());
    }
  const auto after = it.machine.died(0, which, "killed by SIGKILL");
  REQUIRE(of<launch_action::tell_started>(after).size() == 1);
  CHECK(of<launch_action::tell_started>(after)[0].who == process_name{1, 1});
  CHECK(of<launch_action::forget>(after).size() == 1);
  REQUIRE(of<launch_action::tell_died>(after).size() == 1);
  CHECK(of<launch_action::tell_died>(after)[0].how == "killed by SIGKILL");
}

TEST_CASE("a process that dies before it stands is started three times, then refused", "[actors]") {
  launching it;
  auto asked = it.machine.wanted(0, in(1));
  for (int n = 1; n <= most_failed_starts; ++n) {
    const auto which = it.start(asked, 100 + n);
    asked = it.machine.died(0, which, "exit code 7");
    CHECK(of<launch_action::start>(asked).size() == (n < most_failed_starts ? 1 : 0));
    CHECK(of<launch_action::tell_died>(asked).empty());
  }
  const auto refusals = of<launch_action::refuse>(asked);
  REQUIRE(refusals.size() == 1);
  CHECK_THAT(refusals[0].why, ContainsSubstring("3 times") && ContainsSubstring("exit code 7"));
}

TEST_CASE("who stood once may fail three times anew", "[actors]") {
  launching it;
  const auto failed = it.start(it.machine.wanted(0, in(1)), 101);
  it.start(it.machine.died(0, failed, "exit code 7"), 102);
  it.come({0, 2}, 102);
  it.machine.died(0, it.starts, "killed by SIGKILL");
  auto asked = it.machine.wanted(0, in(1));
  for (int n = 1; n < most_failed_starts; ++n)
    asked = it.machine.died(0, it.start(asked, 110 + n), "exit code 7");
  CHECK(of<launch_action::refuse>(asked).empty());
  CHECK(of<launch_action::start>(asked).size() == 1);
}

TEST_CASE("who cannot be connected is killed and started again", "[actors]") {
  launching it;
  auto asked = it.machine.wanted(0, in(1));
  for (std::uint32_t n = 1; n <= most_failed_starts; ++n) {
    const auto which = it.start(asked, 100 + n);
    REQUIRE(it.machine.joins({0, n}, 100 + n).empty());
    const auto connects = of<launch_action::connect>(it.machine.present({0, n}));
    const auto fails
        = [&] { return it.machine.connected(connects[0].by, connects[0].other, "no route"); };
    for (int call = 1; call < most_failed_calls; ++call) {
      const auto again = of<launch_action::connect>(fails());
      REQUIRE(again.size() == 1);
      CHECK(again[0].by == connects[0].by);
      CHECK(again[0].other == connects[0].other);
      CHECK(again[0].calls == connects[0].calls);
    }
    const auto after = fails();
    CHECK(of<launch_action::kill>(after).size() == 1);
    CHECK(of<launch_action::refuse>(after).size() == (n == most_failed_starts ? 1 : 0));
    asked = it.machine.died(0, which, "killed by SIGKILL");
  }
  CHECK(of<launch_action::start>(asked).empty());
  CHECK(of<launch_action::refuse>(asked).empty());  // told once
}

TEST_CASE("who withdraws is refused with its words, and not started again", "[actors]") {
  launching it;
  const auto which = it.start(it.machine.wanted(0, in(1)), 101);
  REQUIRE(it.machine.joins({0, 1}, 101).empty());
  const auto refusals = of<launch_action::refuse>(it.machine.withdrawn({0, 1}, "other bits"));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].why == "other bits");
  const auto after = it.machine.died(0, which, "exit code 2");
  CHECK(of<launch_action::start>(after).empty());
  CHECK(of<launch_action::refuse>(after).empty());
}

TEST_CASE("a supervisor that asks again gets another process, and the old one is killed",
          "[actors]") {
  launching it;
  const auto which = it.stand(0);
  const auto asked = it.machine.wanted(0, in(1, 2));
  const auto kills = of<launch_action::kill>(asked);
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].which == which);
  CHECK(of<launch_action::start>(asked).empty());  // its name is taken until it has ended
  it.machine.signalled(kills[0].request);
  const auto after = it.machine.died(0, which, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(after).empty());  // no cause of anything
  REQUIRE(of<launch_action::start>(after).size() == 1);
  CHECK(of<launch_action::start>(after)[0].who == process_name{0, 2});
}

TEST_CASE("one who had died before it could be killed tells of what", "[actors]") {
  launching it;
  const auto which = it.stand(0);
  const auto kills = of<launch_action::kill>(it.machine.wanted(0, in(1, 2)));
  REQUIRE(kills.size() == 1);
  const auto refused = it.machine.refused(kills[0].request, "it has ended");
  CHECK(of<launch_action::refuse>(refused).empty());
  const auto after = it.machine.died(0, which, "killed by SIGSEGV");
  REQUIRE(of<launch_action::tell_died>(after).size() == 1);
  CHECK(of<launch_action::tell_died>(after)[0].how == "killed by SIGSEGV");
  CHECK(of<launch_action::start>(after).size() == 1);
}

TEST_CASE("a successor gets the process that lives, and who is older is not heard", "[actors]") {
  launching it;
  it.stand(0);
  const auto told = of<launch_action::tell_started>(it.machine.wanted(0, in(2)));
  REQUIRE(told.size() == 1);
  CHECK(told[0].lived);
  CHECK(told[0].who == process_name{0, 1});
  CHECK(it.machine.wanted(0, in(1, 9)).empty());
  CHECK(it.machine.wanted(5, in(2)).empty());
}

TEST_CASE("who has outlived a launcher comes again as one that lived and has not to be started",
          "[actors]") {
  launching it;
  const auto taken = it.machine.take_over({.who = {0, 4}, .which = 7, .pid = 104, .watched = true});
  REQUIRE(of<launch_action::expect>(taken).size() == 1);
  CHECK(of<launch_action::start>(taken).empty());
  CHECK(it.machine.wanted(0, in(2)).empty());  // it is awaited
  CHECK_THAT(it.machine.joins({0, 3}, 103), ContainsSubstring("PROCESS-1"));
  CHECK_THAT(it.machine.joins({0, 4}, 999), ContainsSubstring("PROCESS-1"));
  REQUIRE(it.machine.joins({0, 4}, 104).empty());
  const auto told = of<launch_action::tell_started>(it.connect(it.machine.present({0, 4})));
  REQUIRE(told.size() == 1);
  CHECK(told[0].lived);
  // The next one of its place is a new one.
  const auto died = it.machine.died(0, 7, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(died).size() == 1);
  const auto again = of<launch_action::start>(it.machine.wanted(0, in(2, 2)));
  REQUIRE(again.size() == 1);
  CHECK(again[0].who == process_name{0, 5});
}

TEST_CASE("who has outlived a launcher is adopted when the agent dies before it comes again",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.machine.take_over({.who = {0, 4}, .which = 7, .pid = 104, .start_time = 9, .watched = true});
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  CHECK(of<launch_action::start>(gone).empty());
  const auto adopted = of<launch_action::adopt>(gone);
  REQUIRE(adopted.size() == 1);
  CHECK(adopted[0].which == 7);
  CHECK(adopted[0].pid == 104);
  CHECK(adopted[0].start_time == 9);
  REQUIRE(it.machine.joins({0, 4}, 104).empty());
  CHECK(it.machine.joins({0, 4}, 104).empty());  // its answer came too late, and it asks again
}

TEST_CASE(
    "who has not outlived a launcher or does not come again is started as the next of its place",
    "[actors]") {
  launching it;
  CHECK(it.machine.take_over({.who = {0, 4}}).empty());
  const auto first = of<launch_action::start>(it.machine.wanted(0, in(2)));
  REQUIRE(first.size() == 1);
  CHECK(first[0].who == process_name{0, 5});
  it.machine.take_over({.who = {1, 2}, .which = 3, .pid = 201, .watched = true});
  it.machine.wanted(1, in(2));
  const auto late = it.machine.late({1, 2}, "it has not come");
  REQUIRE(of<launch_action::kill>(late).size() == 1);
  CHECK(of<launch_action::kill>(late)[0].which == 3);
  const auto again = of<launch_action::start>(it.machine.died(1, 3, "killed by SIGKILL"));
  REQUIRE(again.size() == 1);
  CHECK(again[0].who == process_name{1, 3});
}

TEST_CASE("with the host agent everybody is gone, and the next order starts another", "[actors]") {
  launching it;
  it.stand(0);
  it.stand(1);
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 2);
  CHECK(of<launch_action::forget>(gone).size() == 2);
  CHECK(it.machine.here().empty());
  CHECK(of<launch_action::start>(it.machine.wanted(0, in(1, 2))).size() == 1);
}

TEST_CASE("where processes outlive their agent the next one adopts them, and nobody is lost",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  const auto asked = of<launch_action::start>(it.machine.wanted(1, in(1)));
  it.machine.started(asked.at(0).request, 7, 201, 77);
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  const auto adopt = of<launch_action::adopt>(gone);
  REQUIRE(adopt.size() == 2);
  CHECK(gone.size() == 2);
  CHECK(adopt[1].process == 1);
  CHECK(adopt[1].which == 7);
  CHECK(adopt[1].pid == 201);
  CHECK(adopt[1].start_time == 77);
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  CHECK(it.machine.started(adopt[0].request, adopt[0].which, adopt[0].pid).empty());
  CHECK(it.machine.started(adopt[1].request, 7, 201, 77).empty());
  it.come({1, 1}, 201);  // it had begun before
  CHECK(of<launch_action::tell_died>(it.machine.died(1, 7, "killed by SIGKILL")).size() == 1);
}

TEST_CASE("an adoption that is refused is a death", "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  it.stand(1);
  const auto adopt = of<launch_action::adopt>(it.machine.agent_gone(0, "the agent is gone"));
  REQUIRE(adopt.size() == 2);
  const auto refused = it.machine.refused(adopt[1].request, "it has ended");
  REQUIRE(of<launch_action::tell_died>(refused).size() == 1);
  CHECK(of<launch_action::tell_died>(refused)[0].who == process_name{1, 1});
  CHECK(of<launch_action::start>(it.machine.wanted(1, in(1, 2))).size() == 1);
}

TEST_CASE("who was being killed when the agent died is killed by the next one", "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  REQUIRE(of<launch_action::kill>(it.machine.wanted(0, in(1, 2))).size() == 1);
  const auto adopt = of<launch_action::adopt>(it.machine.agent_gone(0, "the agent is gone"));
  REQUIRE(adopt.size() == 1);
  const auto adopted = it.machine.started(adopt[0].request, adopt[0].which, adopt[0].pid);
  REQUIRE(of<launch_action::kill>(adopted).size() == 1);
  it.machine.signalled(of<launch_action::kill>(adopted)[0].request);
  const auto after = it.machine.died(0, adopt[0].which, "it has ended");
  CHECK(of<launch_action::tell_died>(after).empty());
  CHECK(of<launch_action::start>(after).size() == 1);
}

TEST_CASE("who has joined before its agent could say that it was started is adopted, too",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.machine.wanted(0, in(1));
  it.machine.wanted(1, in(1));
  REQUIRE(it.machine.joins({0, 1}, 101, 55).empty());
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  const auto adopt = of<launch_action::adopt>(gone);
  REQUIRE(adopt.size() == 1);
  CHECK(adopt[0].pid == 101);
  CHECK(adopt[0].start_time == 55);
  // Of the other one nothing is known: should it come, it is refused.
  REQUIRE(of<launch_action::start>(gone).size() == 1);
  CHECK(of<launch_action::start>(gone)[0].who == process_name{1, 2});
  CHECK_THAT(it.machine.joins({1, 1}, 201), ContainsSubstring("PROCESS-1"));
}

TEST_CASE("an agent that dies at the end of the run is followed by one that ends the others",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  it.machine.over();
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  const auto adopt = of<launch_action::adopt>(gone);
  REQUIRE(adopt.size() == 1);
  CHECK(of<launch_action::quit>(gone).empty());
  it.machine.started(adopt[0].request, adopt[0].which, adopt[0].pid);
  CHECK(of<launch_action::kill>(it.machine.over()).size() == 1);
  const auto died = it.machine.died(0, adopt[0].which, "it has ended");
  CHECK(of<launch_action::end_agent>(died).size() == 1);
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).size() == 1);
}

TEST_CASE("whoever is wanted while the agent ends waits for the next one", "[actors]") {
  launching it;
  const auto which = it.stand(0);
  it.machine.agent_ends(0);
  it.machine.died(0, which, "killed by SIGKILL");
  CHECK(it.machine.wanted(0, in(1, 2)).empty());
  const auto after = of<launch_action::start>(it.machine.agent_gone(0, "it has ended"));
  REQUIRE(after.size() == 1);
  CHECK(after[0].who.process == 0);
}

TEST_CASE("a process that does not come in time is killed and started again", "[actors]") {
  launching it;
  const auto which = it.start(it.machine.wanted(0, in(1)), 101);
  CHECK(of<launch_action::kill>(it.machine.late({0, 1}, "nothing was heard")).size() == 1);
  CHECK(of<launch_action::start>(it.machine.died(0, which, "killed by SIGKILL")).size() == 1);
}

TEST_CASE("an agent that has started nobody in time is killed", "[actors]") {
  launching it;
  it.machine.wanted(0, in(1));
  for (int time = 1; time <= most_failed_starts; ++time) {
    const auto after = it.machine.late({0, 1}, "nothing was heard");
    CHECK(of<launch_action::kill_agent>(after).size() == 1);
    CHECK(of<launch_action::expect>(after).size() == (time < most_failed_starts ? 1 : 0));
    CHECK(of<launch_action::refuse>(after).size() == (time < most_failed_starts ? 0 : 1));
  }
  CHECK(it.machine.late({0, 1}, "nothing was heard").empty());  // told once
}

TEST_CASE("the second word of the end kills processes, the third the agent", "[actors]") {
  launching it;
  const auto which = it.stand(0);
  const auto first = it.machine.over();
  CHECK(of<launch_action::kill>(first).empty());
  CHECK(of<launch_action::end_agent>(first).empty());
  CHECK(it.machine.wanted(1, in(1)).empty());
  CHECK(of<launch_action::kill>(it.machine.over()).size() == 1);
  CHECK(of<launch_action::kill_agent>(it.machine.over()).size() == 1);
  const auto after = it.machine.died(0, which, "killed by SIGKILL");
  CHECK(of<launch_action::end_agent>(after).size() == 1);
  CHECK(of<launch_action::start>(after).empty());
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).size() == 1);
}

TEST_CASE("who has just been started when the run ends is killed as soon as it is known",
          "[actors]") {
  launching it;
  const auto asked = of<launch_action::start>(it.machine.wanted(0, in(1)));
  CHECK(of<launch_action::end_agent>(it.machine.over()).empty());
  CHECK(of<launch_action::kill>(it.machine.started(asked[0].request, 1, 101)).size() == 1);
  CHECK(of<launch_action::end_agent>(it.machine.died(0, 1, "killed by SIGKILL")).size() == 1);
}

TEST_CASE("with one agent for each place the end of one is that of its place alone", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  const auto gone = it.machine.agent_gone(1, "the agent is gone");
  REQUIRE(of<launch_action::tell_died>(gone).size() == 1);
  CHECK(of<launch_action::tell_died>(gone)[0].who == process_name{1, 1});
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  CHECK(of<launch_action::start>(it.machine.wanted(1, in(1, 2))).size() == 1);
}

TEST_CASE("when its host is gone a place goes on on the first spare that lives", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 2}};
  it.stand(0);
  it.stand(1);
  CHECK(it.machine.host_gone(2, "the first spare is gone").empty());
  const auto gone = it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 1);
  REQUIRE(of<launch_action::abandon>(gone).size() == 1);  // it may live, beyond a cut
  CHECK(of<launch_action::abandon>(gone)[0].who == process_name{1, 1});
  CHECK(it.machine.host_gone(1, "and again").empty());
  const auto asked = it.machine.wanted(1, in(1, 2));
  const auto moves = of<launch_action::relocate>(asked);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].from == 1);
  CHECK(moves[0].to == 3);
  CHECK(moves[0].beside.empty());
  CHECK(moves[0].why == "the node is gone");
  REQUIRE(of<launch_action::start>(asked).size() == 1);
  CHECK(of<launch_action::start>(asked)[0].agent == 3);
  CHECK(of<launch_action::start>(asked)[0].who == process_name{1, 2});
  const auto which = it.start(asked, 302);
  it.come({1, 2}, 302);
  // A death there is mended there.
  it.machine.died(1, which, "killed by SIGKILL");
  const auto again = it.machine.wanted(1, in(1, 3));
  CHECK(of<launch_action::relocate>(again).empty());
  CHECK(of<launch_action::start>(again)[0].agent == 3);
}

TEST_CASE("PROCESS-1: who lives on a host that is cut off takes no part any more", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  const auto which = it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK_FALSE(it.machine.joins({1, 1}, 201).empty());
  CHECK(it.machine.present({1, 1}).empty());
  CHECK(it.machine.died(1, which + 10, "it was ended").empty());
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  it.start(asked, 302);
  it.come({1, 2}, 302);
  CHECK(it.machine.withdrawn({1, 1}, "it does not matter").empty());
}

TEST_CASE("where no spare is left a place stands beside another one", "[actors]") {
  launching it{.machine = launch_machine{{0, 1, 2}, home}};
  for (const int p : {0, 1, 2})
    it.stand(p);
  it.machine.host_gone(2, "the node is gone");
  const auto asked = it.machine.wanted(2, in(1, 2));
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 0);
  CHECK(of<launch_action::relocate>(asked)[0].beside == std::vector{0});
  it.start(asked, 302);
  it.come({2, 2}, 302);
  // Another host is gone: the one that has fewest takes it.
  it.machine.host_gone(1, "this node is gone, too");
  const auto last = it.machine.wanted(1, in(1, 3));
  CHECK(of<launch_action::relocate>(last)[0].beside == std::vector{0, 2});
  // With an agent everybody dies whom it has started.
  it.start(last, 202);
  it.come({1, 2}, 202);
  CHECK(of<launch_action::tell_died>(it.machine.agent_gone(0, "the agent is gone")).size() == 3);
}

TEST_CASE("a place rather stands where neither its keeper is nor whose states it keeps",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 1, 2, 3}, home}};
  for (const int p : {0, 1, 2, 3})
    it.stand(p);
  it.machine.kept_in({1, 0, 3, 2});
  it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::relocate>(it.machine.wanted(1, in(1, 2)))[0].to == 2);
}

TEST_CASE("with the last host the run ends, for each successor", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(0, "the first is gone");
  it.start(it.machine.wanted(0, in(1, 2)), 102);
  it.come({0, 2}, 102);
  const auto gone = it.machine.host_gone(1, "the second is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 2);
  for (const std::uint64_t number : {2, 3}) {
    const auto asked = it.machine.wanted(1, in(number));
    CHECK(of<launch_action::start>(asked).empty());
    REQUIRE(of<launch_action::refuse>(asked).size() == 1);
    CHECK(of<launch_action::refuse>(asked)[0].why == "the second is gone");
  }
}

TEST_CASE("a host that comes back takes a place that shares one", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  it.start(it.machine.wanted(1, in(1, 2)), 202);
  it.come({1, 2}, 202);
  const auto offers = of<launch_action::offer_move>(it.machine.host_back(1));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].who == process_name{1, 2});
  CHECK(offers[0].to == 1);
  // The supervisor asks for it when its states are kept.
  const auto kills = of<launch_action::kill>(it.machine.wanted(1, in(1, 3)));
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].agent == 0);
  it.machine.signalled(kills[0].request);
  const auto after = it.machine.died(1, kills[0].which, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(after).empty());
  REQUIRE(of<launch_action::start>(after).size() == 1);
  CHECK(of<launch_action::start>(after)[0].agent == 1);
  CHECK(of<launch_action::relocate>(after)[0].to == 1);
  it.start(after, 203);
  it.come({1, 3}, 203);
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());  // nobody shares
}

TEST_CASE("a move is offered when everybody stands and to each supervisor", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());
  it.start(asked, 202);
  REQUIRE(it.machine.joins({1, 2}, 202).empty());
  CHECK(of<launch_action::offer_move>(it.connect(it.machine.present({1, 2}))).size() == 1);
  CHECK(of<launch_action::offer_move>(it.machine.wanted(0, in(2))).empty());
  CHECK(of<launch_action::offer_move>(it.machine.wanted(1, in(2))).size() == 1);
}

TEST_CASE("a host that comes back is as good as a spare", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  it.start(it.machine.wanted(1, in(1, 2)), 202);
  it.come({1, 2}, 202);
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());
  it.machine.host_gone(0, "this one is gone");
  const auto asked = it.machine.wanted(0, in(1, 3));
  CHECK(of<launch_action::relocate>(asked)[0].to == 1);
  CHECK(of<launch_action::relocate>(asked)[0].beside.empty());
}

TEST_CASE("where both hosts refuse before anybody has stood the launcher ends", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.machine.wanted(0, in(1));
  it.machine.wanted(1, in(1));
  CHECK(of<launch_action::refuse>(it.machine.host_refuses(0, "another build")).size() == 2);
  CHECK(it.machine.host_refuses(1, "another build").empty());
  CHECK(of<launch_action::quit>(it.machine.over()).size() == 1);
}

TEST_CASE("a host on which a place cannot stand is left for another one", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 2}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  // The first spare has not the data.
  auto asked = it.machine.wanted(1, in(1, 2));
  auto which = it.start(asked, 202);
  REQUIRE(it.machine.joins({1, 2}, 202).empty());
  const auto withdrawn = it.machine.withdrawn({1, 2}, "no data set there");
  CHECK(of<launch_action::refuse>(withdrawn).empty());
  const auto killed = of<launch_action::kill>(withdrawn);
  REQUIRE(killed.size() == 1);
  it.machine.signalled(killed[0].request);
  asked = it.machine.died(1, which, "exit code 2");
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 3);
  CHECK(of<launch_action::relocate>(asked)[0].why == "no data set there");
  // On the second it dies again and again.
  for (int n = 1; n <= most_failed_starts; ++n)
    asked = it.machine.died(1, it.start(asked, 202 + n), "exit code 7");
  CHECK(of<launch_action::refuse>(asked).empty());
  CHECK(of<launch_action::relocate>(asked)[0].beside == std::vector{0});
  // The agent of the last refuses: nobody is left to be tried.
  const auto refusals = of<launch_action::refuse>(
      it.machine.refused(of<launch_action::start>(asked)[0].request, "no memory"));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].why == "no memory");
}

TEST_CASE("a place that computed wrong bits goes to another host and does not come back",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  const auto which = it.stand(1);
  const auto killed = of<launch_action::kill>(it.machine.wanted(1, in(1, 2), true));
  REQUIRE(killed.size() == 1);
  it.machine.signalled(killed[0].request);
  auto asked = it.machine.died(1, which, "killed by SIGKILL");
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 2);
  CHECK_THAT(of<launch_action::relocate>(asked)[0].why, ContainsSubstring("wrong bits"));
  it.start(asked, 302);
  it.come({1, 2}, 302);
  // The other one rather shares than takes it to where it was.
  asked = it.machine.host_gone(2, "the node is gone");
  asked = it.machine.wanted(1, in(1, 3));
  REQUIRE(of<launch_action::start>(asked).size() == 1);
  CHECK(of<launch_action::start>(asked)[0].agent == 0);
}

TEST_CASE("with one host a place that computed wrong bits is started where it was", "[actors]") {
  launching it;
  it.stand(0);
  const auto which = it.stand(1);
  it.machine.signalled(of<launch_action::kill>(it.machine.wanted(1, in(1, 2), true)).at(0).request);
  const auto asked = it.machine.died(1, which, "killed by SIGKILL");
  CHECK(of<launch_action::relocate>(asked).empty());
  CHECK(of<launch_action::start>(asked).at(0).agent == 0);
}

TEST_CASE("a host that does not serve at first refuses the run, spare or not", "[actors]") {
  for (const int host : {1, 2}) {
    launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
    const auto asked = it.machine.wanted(0, in(1));
    const auto refusals = of<launch_action::refuse>(it.machine.host_refuses(host, "it is busy"));
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].of_host);
    CHECK(refusals[0].agent == host);
    CHECK(refusals[0].why == "it is busy");
    const auto later = it.machine.wanted(1, in(1));
    CHECK(of<launch_action::start>(later).empty());
    CHECK(of<launch_action::refuse>(later).size() == 1);
    const auto kills = of<launch_action::kill>(it.machine.over());
    CHECK(kills.empty());  // not known yet
    CHECK(of<launch_action::kill>(
              it.machine.started(of<launch_action::start>(asked)[0].request, 1, 101))
              .size()
          == 1);
    CHECK(of<launch_action::end_agent>(it.machine.died(0, 1, "killed by SIGKILL")).size() == 2);
  }
}

TEST_CASE("a spare that is late with its refusal is a host that is gone", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  it.stand(1);
  CHECK(it.machine.host_refuses(2, "it is busy").empty());
  it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::relocate>(it.machine.wanted(1, in(1, 2)))[0].to == 0);
}

TEST_CASE("the launcher ends when the agents of all hosts have", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  const auto which = it.stand(0);
  it.machine.host_gone(1, "the node is gone");
  it.machine.over();
  const auto ends = of<launch_action::end_agent>(it.machine.died(0, which, "exit code 0"));
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].agent == 0);
  CHECK(ends[1].agent == 2);
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).empty());
  CHECK(of<launch_action::quit>(it.machine.agent_gone(2, "it has ended")).size() == 1);
}
