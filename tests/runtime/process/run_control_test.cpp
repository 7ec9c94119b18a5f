#include "runtime/process/run_control.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/process_id.hpp"
#include "tests/support/players.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

run_status status(const run_folder& x) {
  return status_of(x, [](const std::string& damage) { FAIL(damage); });
}

/// A run with its supervisor in another process, which ends on request.
struct with_supervisor {
  scratch_folder above;
  std::optional<held_run_folder> run{
      std::in_place, above / "run", "test", std::vector<std::string>{"test"}};
  child_process supervisor{{.command = player({"sleep"})}};

  with_supervisor() {
    auto entry = entry_of_this_process("supervisor", "supervisor");
    entry.process = supervisor.id();
    write_entry(*run, entry);
  }
  run_folder folder() const { return run_folder::open(above / "run"); }
};

}  // namespace

TEST_CASE("a run runs, has ended, or died", "[process]") {
  with_supervisor x;
  CHECK(status(x.folder()).condition == run_condition::runs);
  CHECK(status(x.folder()).supervisor()->entry.process == x.supervisor.id());
  x.run->end(0, "");
  CHECK(status(x.folder()).condition == run_condition::ended);

  with_supervisor killed;
  killed.supervisor.signal(SIGKILL);
  killed.supervisor.wait();
  CHECK(status(killed.folder()).condition == run_condition::runs);  // the folder is still held
  killed.run.reset();
  CHECK(status(killed.folder()).condition == run_condition::died);

  with_supervisor far;
  auto entry = status(far.folder()).supervisor()->entry;
  entry.host = "another-host";
  write_entry(*far.run, entry);
  far.run.reset();
  CHECK(status(far.folder()).condition == run_condition::elsewhere);
  CHECK_THROWS_MATCHES(ask_to_end(far.folder(), status(far.folder())),
                       input_error,
                       MessageMatches(ContainsSubstring("another host")));
}

TEST_CASE("repeated requests to end a run count once", "[process]") {
  with_supervisor x;
  const auto now = status(x.folder());
  CHECK(ask_to_end(x.folder(), now));
  CHECK(x.supervisor.wait().signal == SIGTERM);
  CHECK_FALSE(ask_to_end(x.folder(), now));  // it has ended

  with_supervisor slow;
  slow.supervisor.signal(SIGSTOP);  // of two pending signals the kernel would deliver SIGTERM first
  REQUIRE(troupe::tests::soon([&] {
    const auto now_there = look_at_process(slow.supervisor.id().pid);
    return now_there && now_there->state == 'T';
  }));
  CHECK(ask_to_end(slow.folder(), status(slow.folder())));
  CHECK_FALSE(ask_to_end(slow.folder(), status(slow.folder())));

  with_supervisor none;
  none.supervisor.signal(SIGKILL);
  none.supervisor.wait();
  CHECK_THROWS_AS(ask_to_end(none.folder(), status(none.folder())), input_error);
}

TEST_CASE("waiting for a run returns its end, or reports that it has none", "[process]") {
  with_supervisor x;
  int looks = 0;
  const auto end = wait_for_end(x.folder(), {}, [&](const run_status& now) {
    if (++looks > 1)
      return;
    CHECK(now.condition == run_condition::runs);
    x.run->end(3, "we failed");
    x.run.reset();
    x.supervisor.signal(SIGKILL);
  });
  REQUIRE(end);
  CHECK(end->exit_code == 3);
  CHECK(end->reason == "we failed");
  CHECK(wait_for_end(x.folder(), {}, [](const run_status&) {}) == end);  // returns at once

  with_supervisor killed;
  CHECK_FALSE(wait_for_end(killed.folder(), {}, [&](const run_status&) {
    killed.run.reset();
    killed.supervisor.signal(SIGKILL);
  }));

  with_supervisor long_one;
  const cancel_token stop;
  CHECK_THROWS_AS(wait_for_end(long_one.folder(), stop, [&](const run_status&) { stop.cancel(); }),
                  cancelled);
}

TEST_CASE("waiting returns the end of a run with a removed folder if it was seen before",
          "[process]") {
  with_supervisor x;
  int looks = 0;
  const auto end = wait_for_end(x.folder(), {}, [&](const run_status&) {
    if (++looks == 1)
      x.run->end(3, "we failed");
    else
      std::filesystem::remove_all(x.above / "run");
  });
  REQUIRE(end);
  CHECK(end->exit_code == 3);

  with_supervisor unseen;
  const auto remove = [&](const run_status&) { std::filesystem::remove_all(unseen.above / "run"); };
  CHECK_THROWS_MATCHES(wait_for_end(unseen.folder(), {}, remove),
                       input_error,
                       MessageMatches(ContainsSubstring("before its end was seen")));

  with_supervisor half;
  std::thread removal;
  const auto remove_slowly = [&](const run_status&) {
    std::filesystem::remove(half.above / "run" / "run.json");
    removal = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));  // the folder is read in between
      std::filesystem::remove_all(half.above / "run");
    });
  };
  CHECK_THROWS_MATCHES(wait_for_end(half.folder(), {}, remove_slowly),
                       input_error,
                       MessageMatches(ContainsSubstring("before its end was seen")));
  removal.join();
}

TEST_CASE("logs are followed from their last lines, each line once and complete", "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  std::ofstream log(run.log_of("supervisor"));
  for (int i = 0; i < 30'000; ++i)
    log << "line " << i << "\n";
  log << "half" << std::flush;
  log_follower follower(run, 2);
  std::vector<std::string> out;
  const auto give = [&](bool all = false) {
    follower.give([&](const std::string& process,
                      std::string_view line) { out.push_back(process + ": " + std::string(line)); },
                  all);
    return std::exchange(out, {});
  };
  CHECK(give() == std::vector<std::string>{"supervisor: line 29998", "supervisor: line 29999"});
  CHECK(give().empty());
  log << " and half\nnext" << std::flush;
  CHECK(give() == std::vector<std::string>{"supervisor: half and half"});
  std::ofstream(run.log_of("node-0"))
      << "a\nb\nc\n";  // it appeared later, so all lines count as new
  CHECK(give() == std::vector<std::string>{"node-0: a", "node-0: b", "node-0: c"});
  CHECK(give(true) == std::vector<std::string>{"supervisor: next"});
  CHECK(give(true).empty());

  std::vector<std::string> all;
  log_follower(run, 1'000'000).give([&](const std::string& process, std::string_view line) {
    if (process == "supervisor")
      all.emplace_back(line);
  });
  CHECK(all.size() == 30'001);
  log_follower(run, 0).give([](const std::string&, std::string_view line) { FAIL(line); });
}

TEST_CASE("leftovers of a process that was killed while ending are removed", "[process]") {
  with_supervisor x;
  const auto at = x.folder();
  const auto leave_files = [&] {
    std::filesystem::create_directories(at.credentials());
    std::filesystem::create_directories(at.sockets());
    for (const auto& file :
         {at.credentials() / "secret", at.order(), at.description(), at.sockets() / "agent-here"})
      std::ofstream(file) << "x";
  };
  leave_files();
  remove_remains_of_ended(at.path());
  CHECK(std::filesystem::exists(at.order()));  // a process holds the folder
  x.run.reset();
  remove_remains_of_ended(at.path());
  CHECK(std::filesystem::exists(at.order()));  // the run may go on
  held_run_folder::of_died(at.path())->end(0, "");
  leave_files();
  remove_remains_of_ended(at.path());
  for (const auto& file :
       {at.credentials(), at.order(), at.description(), at.sockets() / "agent-here"})
    CHECK_FALSE(std::filesystem::exists(file));
  CHECK(at.record().ended);
}
