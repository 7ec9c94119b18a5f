// The launcher: start, death and replacement of processes.

#include "tests/actors/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::launched;
using tests::sleeps;

TEST_CASE("a failed start is refused with the path of the log", "[actors]") {
  launched it("exit 7");
  it.want();
  const auto answer = it.told<messages::process_started>();
  REQUIRE(answer);
  CHECK_THAT(answer->refusal,
             ContainsSubstring("process:0") && ContainsSubstring("3 times")
                 && ContainsSubstring("exit code 7")
                 && ContainsSubstring(it.folder.log_of("node-0").string()));
}

TEST_CASE("a process of another build is refused with the names of both builds", "[actors]") {
  launched it("exec sleep 1000");
  it.want();
  const auto why = it.join({.who = {0, 1},
                            .protocol = messages::process_protocol + 1,
                            .program = "troupe of yesterday",
                            .host = "host-7"});
  const auto named = [](const std::string& program, std::uint32_t protocol) {
    return ContainsSubstring("'" + program + "' (protocol " + std::to_string(protocol) + ")");
  };
  CHECK_THAT(why,
             ContainsSubstring("host-7")
                 && named("troupe of yesterday", messages::process_protocol + 1)
                 && named(runtime::version_text(), messages::process_protocol));
  const auto answer = it.told<messages::process_started>();
  REQUIRE(answer);
  CHECK_THAT(answer->refusal, ContainsSubstring("troupe of yesterday"));
}

TEST_CASE("a process runs, dies, and is replaced", "[actors]") {
  launched it(sleeps);
  it.want();
  const auto first = it.stand(1);
  REQUIRE(::kill(pid_t(first), SIGKILL) == 0);
  auto died = it.told<messages::process_died>();
  REQUIRE(died);
  CHECK(died->how == "killed by SIGKILL");
  CHECK(died->incarnation == 1);
  it.want(2);
  it.stand(2);
  CHECK_THAT(it.join({.who = {0, 1}, .program = runtime::version_text(), .pid = first}),
             ContainsSubstring("PROCESS-1"));
}

TEST_CASE("after the death of the host agent the next one detects the death of a process",
          "[actors]") {
  launched it(sleeps);
  it.want();
  const auto first = it.stand(1);
  const auto agent = runtime::running_agent(it.folder);
  REQUIRE(agent);
  // A start without an answer would be repeated: a shell's command line does not name the run.
  const auto log = it.folder.log_of(runtime::agent_name());
  REQUIRE(tests::soon(
      [&] { return runtime::read_text(log).find("started 'node-0'") != std::string::npos; }));
  REQUIRE(::kill(agent->pid, SIGKILL) == 0);
  REQUIRE(tests::soon([&] {
    const auto now = runtime::running_agent(it.folder);
    return now && now != agent;
  }));
  REQUIRE(::kill(pid_t(first), SIGKILL) == 0);
  const auto died = it.told<messages::process_died>();
  REQUIRE(died);
  CHECK_THAT(died->how, ContainsSubstring("its end was not seen"));
  it.want(2);
  it.stand(2);
}

TEST_CASE("after the loss of its host a process continues on a spare, then beside another one",
          "[actors]") {
  launched it(sleeps, 3);
  it.want();
  it.stand(1);
  const std::vector<std::size_t> lost = {0, 2};
  for (std::size_t n = 0; n < lost.size(); ++n) {
    (*it.self)->send_exit(it.nodes->all[lost[n]], caf::exit_reason::kill);
    const auto died = it.told<messages::process_died>();
    REQUIRE(died);
    CHECK_THAT(died->how,
               ContainsSubstring("the node at host-" + std::to_string(lost[n]) + ":7000 is gone"));
    it.want(n + 2);
    it.stand(std::uint32_t(n + 2));
  }
  (*it.self)->send_exit(it.nodes->all[1], caf::exit_reason::kill);
  REQUIRE(it.told<messages::process_died>());
  it.want(4);
  const auto answer = it.told<messages::process_started>();
  REQUIRE(answer);
  CHECK_THAT(answer->refusal, ContainsSubstring("the node at host-1:7000 is gone"));
}

TEST_CASE("a spare of another build is named and ends the run before it begins", "[actors]") {
  launched it("exec sleep 1000", 2, true);
  it.want();
  const auto answer = it.told<messages::process_started>();
  REQUIRE(answer);
  CHECK_THAT(answer->refusal,
             ContainsSubstring("the node at host-of-yesterday:7000 does not serve this run")
                 && ContainsSubstring("its program is of yesterday"));
}

TEST_CASE("a successor keeps a process on another host and replaces it there", "[actors]") {
  launched it(sleeps, 2, false, true);
  it.want();
  const auto first = it.stand(1);
  CHECK(runtime::find_rendezvous(it.folder)->places == std::vector<std::uint32_t>{1, 0});
  it.succeed();
  CHECK(it.join({.who = {0, 1}, .program = runtime::version_text(), .pid = first + 1})
            .starts_with("PROCESS-1"));
  it.want(2);
  CHECK(it.come(1, first));
  CHECK(runtime::find_rendezvous(it.folder)->incarnation == 2);
  REQUIRE(::kill(pid_t(first), SIGKILL) == 0);
  REQUIRE(it.told<messages::process_died>());
  it.want(3);
  it.stand(2);
}

TEST_CASE("a successor replaces a process of a host that was lost with the supervisor's",
          "[actors]") {
  launched it(sleeps, 2, false, true);
  it.want();
  it.stand(1);
  (*it.self)->send_exit(it.nodes->all[0], caf::exit_reason::kill);
  it.succeed(0);
  it.want(2);
  it.stand(2);
}

TEST_CASE("a successor does not return a process to a host with wrong bits", "[actors]") {
  launched it(sleeps, 3, false, true);
  it.want();
  it.stand(1);
  it.want(2, true);
  const auto second = it.stand(2);
  const auto& ledger = *it.prepared->node->ledger;
  CHECK(ledger.avoided() == std::set<runtime::ledger::avoided>{{0, 0}});
  it.succeed();
  it.want(3);
  CHECK(it.come(2, second));
  // Its spare is lost: it shares the host of the other place rather than return.
  for (const std::uint32_t host : {2U, 1U}) {
    (*it.self)->send_exit(it.nodes->all[host], caf::exit_reason::kill);
    const auto died = it.told<messages::process_died>();
    REQUIRE(died);
    CHECK_THAT(died->how,
               ContainsSubstring("the node at host-" + std::to_string(host) + ":7000 is gone"));
    it.want(6 - host);
    it.stand(5 - host);
  }
}
