// Links with real host agents (their processes only sleep): takeover of an agent, and recovery
// after its death.

#include "actors/process/agent_link.hpp"

#include "runtime/process/child_process.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/host_parts.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace troupe;

namespace {

const std::string a_player = tests::bin_dir() + "/process_player";

/// Messages of all links in order of arrival.
struct heard {
  std::mutex mutex;
  std::vector<messages::agent_told> all;
  std::size_t heard = 0;  ///< by the link under test

  template <class Told>
  std::optional<Told> newest() {
    const std::lock_guard lock(mutex);
    std::optional<Told> out;
    for (const auto& x : all)
      if (!x.gone)
        if (const auto answer = runtime::read_answer(x.answer);
            const auto* const found = std::get_if<Told>(&answer))
          out = *found;
    return out;
  }
  bool is_gone(std::uint64_t agent) {
    const std::lock_guard lock(mutex);
    for (const auto& x : all)
      if (x.gone && x.agent == agent)
        return true;
    return false;
  }
};

struct linked {
  tests::scratch_folder above;
  runtime::held_run_folder run{above / "run", "test", {"test"}};
  std::shared_ptr<heard> told = std::make_shared<heard>();

  std::unique_ptr<actors::agent_link> link(std::chrono::milliseconds patience
                                           = std::chrono::seconds(60)) const {
    return link({a_player, runtime::agent_word, "run", run.path().string(), "600000"}, patience);
  }
  std::unique_ptr<actors::agent_link> link(std::vector<std::string> command,
                                           std::chrono::milliseconds patience) const {
    return std::make_unique<actors::agent_link>(
        std::move(command), run.path(), patience, [told = told](messages::agent_told x) {
          const std::lock_guard lock(told->mutex);
          told->all.push_back(std::move(x));
        });
  }
  runtime::process_started start_by(actors::agent_link& x) const {
    x.ask(runtime::start_process{.request = 1,
                                 .name = actors::agent_name_of(0),
                                 .command = {a_player, "sleep"},
                                 .environment = {},
                                 .output = {}});
    REQUIRE(tests::soon([&] { return told->newest<runtime::process_started>().has_value(); }));
    return *told->newest<runtime::process_started>();
  }
  runtime::process_id agent() const {
    std::optional<runtime::process_id> out;
    REQUIRE(tests::soon([&] { return (out = runtime::running_agent(run)).has_value(); }));
    return *out;
  }
  /// Reports the loss of an agent to `x`, which has no reason to start the next one.
  void lose(actors::agent_link& x, std::uint64_t number) const {
    REQUIRE(tests::soon([&] { return told->is_gone(number); }));
    CHECK(x.hear({.agent = number, .answer = "", .gone = true}).lost);
    CHECK_FALSE(x.is_there());
  }
  /// Checks that it is gone, and that the link has another one.
  void is_replaced(actors::agent_link& x, std::uint64_t number) const {
    REQUIRE(tests::soon([&] { return told->is_gone(number); }));
    CHECK_FALSE(x.hear({.agent = number, .answer = "", .gone = true}).lost);
    CHECK(x.is_there());
  }
  /// The answers of all messages until one of that type.
  template <class Told>
  std::vector<runtime::agent_answer> heard_until(actors::agent_link& x) const {
    std::vector<runtime::agent_answer> out;
    const auto has = [&] {
      const std::lock_guard lock(told->mutex);
      for (; told->heard < told->all.size(); ++told->heard)
        if (!told->all[told->heard].gone)
          for (auto& one : x.hear(told->all[told->heard]).answers)
            out.push_back(std::move(one));
      return std::any_of(out.begin(), out.end(), [](const auto& one) {
        return std::holds_alternative<Told>(one);
      });
    };
    CHECK(tests::soon(has));
    return out;
  }
  void end(std::unique_ptr<actors::agent_link> x) const {
    x.reset();
    CHECK(tests::soon([&] { return std::filesystem::is_empty(run.processes()); }));
  }
};

}  // namespace

TEST_CASE("a link takes over the running agent, and the next agent adopts its processes",
          "[actors]") {
  const linked it;
  auto first = it.link();
  first->start();
  const auto node = it.start_by(*first);
  auto second = it.link();
  const auto listed = second->take_over({});
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].process == node.process);
  CHECK_FALSE(listed[0].ended);
  second->kill();
  it.is_replaced(*second, 1);
  CHECK(runtime::is_running(node.process));
  ::kill(node.process.pid, SIGKILL);
  const auto heard = it.heard_until<runtime::process_died>(*second);
  REQUIRE(heard.size() == 1);  // the adoption is not reported
  CHECK(std::get<runtime::process_died>(heard[0]).process == node.process);
  it.end(std::move(second));
}

TEST_CASE("a link that takes over starts an agent if none runs", "[actors]") {
  const linked it;
  auto link = it.link();
  CHECK(link->take_over({}).empty());
  CHECK(it.start_by(*link).which == 1);
  it.end(std::move(link));
}

TEST_CASE("a takeover kills a stopped agent and keeps its processes", "[actors]") {
  const linked it;
  auto first = it.link();
  first->start();
  const auto node = it.start_by(*first);
  const auto stopped = it.agent();
  ::kill(stopped.pid, SIGSTOP);
  auto second = it.link(std::chrono::milliseconds(300));
  const auto taken = second->take_over({node});
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].process == node.process);
  CHECK_FALSE(runtime::is_running(stopped));
  CHECK(runtime::is_running(node.process));
  it.end(std::move(second));
  CHECK_FALSE(runtime::is_running(node.process));
}

TEST_CASE("a process that died while its host had no agent is reported once", "[actors]") {
  const linked it;
  auto link = it.link();
  link->start();
  const auto node = it.start_by(*link);
  REQUIRE(it.heard_until<runtime::process_started>(*link).size() == 1);
  const auto agent = it.agent();
  ::kill(agent.pid, SIGSTOP);
  ::kill(node.process.pid, SIGKILL);
  REQUIRE(tests::soon([&] { return !runtime::is_running(node.process); }));
  ::kill(agent.pid, SIGKILL);
  it.is_replaced(*link, 1);
  const auto heard = it.heard_until<runtime::process_died>(*link);
  REQUIRE(heard.size() == 1);
  const auto& died = std::get<runtime::process_died>(heard[0]);
  CHECK(died.process == node.process);
  CHECK(died.which == node.which);
  CHECK(died.how.unseen);
  it.end(std::move(link));
}

TEST_CASE("a request that a killed agent did not answer is repeated", "[actors]") {
  const linked it;
  auto link = it.link();
  link->start();
  const auto agent = it.agent();
  ::kill(agent.pid, SIGSTOP);
  link->ask(runtime::start_process{.request = 3,
                                   .name = actors::agent_name_of(0),
                                   .command = {a_player, "sleep"},
                                   .environment = {},
                                   .output = {}});
  ::kill(agent.pid, SIGKILL);
  it.is_replaced(*link, 1);
  const auto heard = it.heard_until<runtime::process_started>(*link);
  REQUIRE(heard.size() == 1);
  CHECK(std::get<runtime::process_started>(heard[0]).request == 3);
  it.end(std::move(link));
}

TEST_CASE("a process that a killed agent has started without a word is adopted", "[actors]") {
  const linked it;
  auto link = it.link();
  link->start();
  const std::vector<std::string> node{
      a_player, "troupe:part", "run", it.run.path().string(), "process", "0"};
  runtime::child_process started({.command = node});
  auto part = runtime::parts_of_host(it.run.path());
  REQUIRE(tests::soon([&] {
    part = runtime::parts_of_host(it.run.path());
    return part.size() == 2;
  }));
  const auto agent = it.agent();
  ::kill(agent.pid, SIGSTOP);
  link->ask(runtime::start_process{
      .request = 3, .name = "part-0", .command = node, .environment = {}, .output = {}});
  ::kill(agent.pid, SIGKILL);
  it.is_replaced(*link, 1);
  const auto heard = it.heard_until<runtime::process_started>(*link);
  REQUIRE(heard.size() == 1);
  CHECK(std::get<runtime::process_started>(heard[0]).request == 3);
  CHECK(std::get<runtime::process_started>(heard[0]).process == started.id());
  started.signal(SIGKILL);
  it.end(std::move(link));
}

TEST_CASE("each agent of a link is asked to provide a successor of this process", "[actors]") {
  const linked it;
  auto link = it.link();
  link->start();
  link->succeed({.command = {a_player, "exit", "0"}});
  const auto agreed = [&](std::size_t times) {
    return tests::soon([&] {
      const std::lock_guard lock(it.told->mutex);
      std::size_t seen = 0;
      for (const auto& x : it.told->all)
        seen += std::size_t(
            !x.gone
            && std::holds_alternative<runtime::succession_agreed>(runtime::read_answer(x.answer)));
      return seen == times;
    });
  };
  CHECK(agreed(1));
  link->kill();
  it.is_replaced(*link, 1);
  CHECK(agreed(2));
  it.end(std::move(link));
}

TEST_CASE(
    "the fourth agent in a row that ends at once is not replaced, and its processes are killed",
    "[actors]") {
  const linked it;
  const runtime::child_process left(
      {.command = {a_player, "troupe:part", "run", it.run.path().string(), "process", "0"}});
  auto link = it.link({a_player, "exit", "0"}, std::chrono::seconds(60));
  link->start();
  link->succeed({.command = {a_player, "exit", "0"}});
  for (const std::uint64_t number : {1U, 2U, 3U})
    it.is_replaced(*link, number);
  CHECK(runtime::is_running(left.id()));
  it.lose(*link, 4);
  CHECK(tests::soon([&] { return !runtime::is_running(left.id()); }));
}

TEST_CASE("an agent that was asked to end is not replaced", "[actors]") {
  const linked it;
  auto link = it.link();
  link->start();
  link->succeed({.command = {a_player, "exit", "0"}});
  link->ask(runtime::end_agent{});
  it.lose(*link, 1);
  it.end(std::move(link));
}
