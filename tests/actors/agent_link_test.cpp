// Links with real host agents (their processes only sleep): takeover of an agent, and recovery
// after its death.

#include "actors/process/agent_link.hpp"

#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>

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
        std::move(command),
        run.path(),
        patience,
        [told = told](messages::agent_told x) {
          const std::lock_guard lock(told->mutex);
          told->all.push_back(std::move(x));
        },
        true);
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
  /// Reports the loss of the newest agent to `x`.
  void lose(actors::agent_link& x, std::uint64_t number) const {
    REQUIRE(tests::soon([&] { return told->is_gone(number); }));
    CHECK(x.hear({.agent = number, .answer = "", .gone = true}));
    CHECK_FALSE(x.is_there());
  }
  /// The same for a link that needs a successor: it starts the next agent.
  void is_replaced(actors::agent_link& x, std::uint64_t number) const {
    REQUIRE(tests::soon([&] { return told->is_gone(number); }));
    CHECK(x.hear({.agent = number, .answer = "", .gone = true}));
    CHECK(x.is_there());
  }
  void end(std::unique_ptr<actors::agent_link> x) const {
    x.reset();
    CHECK(tests::soon([&] { return std::filesystem::is_empty(run.processes()); }));
  }
};

}  // namespace

TEST_CASE("a link takes over the running agent with its processes", "[actors]") {
  const linked it;
  auto first = it.link();
  first->start();
  const auto node = it.start_by(*first);
  auto second = it.link();
  const auto listed = second->take_over();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].process == node.process);
  CHECK_FALSE(listed[0].ended);
  second->kill();
  it.lose(*second, 1);
  CHECK(runtime::is_running(node.process));
  it.lose(*first, 1);
  ::kill(node.process.pid, SIGKILL);
  it.start_by(*second);
  it.end(std::move(second));
}

TEST_CASE("a link that takes over starts an agent if none runs", "[actors]") {
  const linked it;
  auto link = it.link();
  CHECK(link->take_over().empty());
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
  CHECK(second->take_over().empty());
  CHECK_FALSE(runtime::is_running(stopped));
  second->ask(runtime::adopt_process{
      .request = 7, .name = node.name, .which = node.which, .process = node.process});
  CHECK(tests::soon([&] { return it.told->newest<runtime::process_started>()->request == 7; }));
  CHECK(runtime::is_running(node.process));
  it.lose(*first, 1);
  it.end(std::move(second));
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
  it.start_by(*link);
  it.end(std::move(link));
}

TEST_CASE("the fourth agent in a row that ends at once is not replaced", "[actors]") {
  const linked it;
  auto link = it.link({a_player, "exit", "0"}, std::chrono::seconds(60));
  link->start();
  link->succeed({.command = {a_player, "exit", "0"}});
  for (const std::uint64_t number : {1U, 2U, 3U})
    it.is_replaced(*link, number);
  it.lose(*link, 4);
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
