// Violates each oracle of `troupe chaos` on purpose: it reports the violation, and nothing else.

#include "actors/command/chaos/oracles.hpp"
#include "runtime/core/error.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/segments.hpp"
#include "runtime/state/step_ledger.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <functional>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::command::chaos;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string text_of(const sentences& all) {
  return fmt::format("{}", fmt::join(all, "\n"));
}

std::vector<logged_step> steps(std::uint64_t first, std::uint64_t last) {
  std::vector<logged_step> out;
  for (auto n = first; n <= last; ++n)
    out.push_back({n, fmt::format("{:032x}", n), 10});
  return out;
}

/// Writes a ledger of steps 1 to 3; `change` may add more. Returns its path.
std::filesystem::path ledger_in(const tests::scratch_folder& folder,
                                const std::function<void(runtime::step_ledger&)>& change = {}) {
  const auto file = folder / "ledger.jsonl";
  runtime::step_ledger x;
  x.write_down(file);
  x.begin({});
  for (std::uint64_t n = 1; n <= 3; ++n)
    x.commit({{.iteration = n, .consumed = 8 * n}, {n, 0}, {}});
  if (change)
    change(x);
  x.flush();
  return file;
}

/// Starts a process with `mark` in its environment; it sleeps until it is killed.
runtime::child_process sleeper(const std::string& mark) {
  return runtime::child_process({.command = {"/bin/sleep", "1000"}, .environment = {mark}});
}

const standing_processes four = {{"agent-here", {10, 1}},
                                 {"front", {9, 1}},
                                 {"node-0", {12, 1}},
                                 {"node-1", {13, 1}},
                                 {"supervisor", {8, 1}}};

}  // namespace

TEST_CASE("CHAOS-1: a different state after any step is reported with the step", "[chaos]") {
  const auto calm = steps(1, 6);
  CHECK(digests_differ(calm, calm).empty());
  auto here = calm;
  here[3].digest.back() = 'f';
  CHECK_THAT(text_of(digests_differ(here, calm)), ContainsSubstring("after iteration 4"));
  here = calm;
  here.pop_back();
  CHECK_THAT(text_of(digests_differ(here, calm)), ContainsSubstring("the last iteration is 5"));
  CHECK_FALSE(digests_differ(steps(1, 7), calm).empty());
}

TEST_CASE("CHAOS-1: a missing checkpoint does not count as equal", "[chaos]") {
  const tests::scratch_folder folder;
  CHECK_THAT(text_of(checkpoints_differ(folder / "none", folder / "none")),
             ContainsSubstring("cannot be compared"));
}

TEST_CASE("CHAOS-2: a wrong or incomplete ledger is detected", "[chaos]") {
  const tests::scratch_folder folder;
  CHECK(ledger_is_wrong(ledger_in(folder), 3).empty());
  CHECK_THAT(text_of(ledger_is_wrong(folder / "ledger.jsonl", 4)),
             ContainsSubstring("the newest iteration of the ledger is 3; the run has 4"));
  CHECK_FALSE(ledger_is_wrong(folder / "none", 3).empty());

  const tests::scratch_folder other;
  const auto replayed = ledger_in(other, [](runtime::step_ledger& x) {
    CHECK_THROWS_AS(x.replay({{.iteration = 3, .consumed = 24}, {4, 0}, {}}),
                    runtime::replay_differs);
  });
  CHECK_THAT(text_of(ledger_is_wrong(replayed, 3)), ContainsSubstring("iteration 3 ran again"));
}

TEST_CASE("CHAOS-2: a repeated or missing commit is detected", "[chaos]") {
  const tests::scratch_folder folder;
  const auto file = ledger_in(folder);
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  REQUIRE(lines.size() == 4);
  const auto written = [&](const std::vector<std::size_t>& which) {
    std::ofstream out(file);
    for (const auto i : which)
      out << lines[i] << "\n";
    out.close();
    return text_of(ledger_is_wrong(file, 3));
  };
  CHECK(written({0, 1, 2, 3}).empty());
  CHECK_THAT(written({0, 1, 2, 2, 3}), ContainsSubstring("committed after iteration 2"));
  CHECK_THAT(written({0, 1, 3}), ContainsSubstring("committed after iteration 1"));
  CHECK_THAT(written({1, 2, 3}), ContainsSubstring("the beginning is missing"));
}

TEST_CASE("CHAOS-3: a repeated, misplaced or missing step in a log is detected", "[chaos]") {
  CHECK(log_is_wrong(steps(1, 5), 1, 5).empty());
  auto twice = steps(1, 5);
  twice.insert(twice.begin() + 2, twice[2]);
  CHECK_THAT(text_of(log_is_wrong(twice, 1, 5)), ContainsSubstring("the log has iteration 3"));
  auto missing = steps(1, 5);
  missing.erase(missing.begin() + 1);
  CHECK_THAT(text_of(log_is_wrong(missing, 1, 5)), ContainsSubstring("in place of 2"));
  CHECK_FALSE(log_is_wrong(steps(1, 4), 1, 5).empty());
  CHECK_FALSE(log_is_wrong(steps(2, 5), 1, 5).empty());
}

TEST_CASE("a log without steps is refused as a reference", "[chaos]") {
  const tests::scratch_folder folder;
  std::ofstream(folder / "log.jsonl") << R"({"iteration":1,"event":"restart"})"
                                      << "\n";
  CHECK_THROWS_AS(read_log(folder / "log.jsonl"), runtime::input_error);
  std::ofstream(folder / "log.jsonl") << R"({"iteration":7,"state_digest":"ab","elapsed_ms":2.5})"
                                      << "\n"
                                      << R"({"iteration":8,"state_dig)";  // still being written
  const auto log = read_log(folder / "log.jsonl");
  REQUIRE(log.size() == 1);
  CHECK((log[0].iteration == 7 && log[0].digest == "ab" && log[0].elapsed_ms == 2.5));
}

TEST_CASE("CHAOS-4: a replaced process without a fault is named", "[chaos]") {
  auto after = four;
  CHECK(replaced_between(four, after).empty());
  after["node-1"] = {99, 2};
  CHECK(replaced_between(four, after) == std::vector<std::string>{"node-1"});
  after["node-0"].start_time = 7;  // reused pid: another process
  const auto both = replaced_between(four, after);
  CHECK(both == std::vector<std::string>{"node-0", "node-1"});
  CHECK(survivors_lost({"node-1"}, replaced::victim, "node-1").empty());
  CHECK_THAT(text_of(survivors_lost(both, replaced::victim, "node-1")),
             ContainsSubstring("replaced or lost: node-0;"));
  CHECK_FALSE(survivors_lost({"node-1"}, replaced::nobody, "node-1").empty());
  CHECK(survivors_lost({"node-0"}, replaced::one_node, "lane:0.0").empty());
  CHECK_FALSE(survivors_lost(both, replaced::one_node, "lane:0.0").empty());
  CHECK_FALSE(survivors_lost({"supervisor"}, replaced::one_node, "lane:0.0").empty());
  CHECK_FALSE(survivors_lost({"agent-host-1"}, replaced::victim, "agent-host-2").empty());
  CHECK(survivors_lost({"supervisor"}, replaced::supervisor, "monitor").empty());
  CHECK_FALSE(survivors_lost({"node-0"}, replaced::supervisor, "supervisor").empty());
  CHECK(survivors_lost({"agent-here", "node-0"}, replaced::agents_and_nodes, "link").empty());
  CHECK_FALSE(survivors_lost({"supervisor"}, replaced::agents_and_nodes, "link").empty());
  after.erase("front");
  CHECK(replaced_between(four, after).size() == 3);
}

TEST_CASE("the death of agent or supervisor must not replace nodes", "[chaos]") {
  using enum fault_kind;
  for (const auto kind : {sigkill, sigstop, sigsegv, abort}) {
    CHECK(allowed_after(kind, role::agent) == replaced::victim);
    CHECK(restart_after(kind, role::agent) == restart_is::wrong);
    CHECK(allowed_after(kind, role::supervisor) == replaced::supervisor);
    CHECK(restart_after(kind, role::supervisor) == restart_is::due);
  }
  CHECK(allowed_after(sigkill, role::monitor) == replaced::supervisor);
}

TEST_CASE("a bit flipped on the way to a keeper ends no process", "[chaos]") {
  CHECK(allowed_after(fault_kind::flipped_bits, role::keeper) == replaced::nobody);
  CHECK(restart_after(fault_kind::flipped_bits, role::keeper) == restart_is::wrong);
  CHECK(allowed_after(fault_kind::flipped_moment, role::lane) == replaced::one_node);
  CHECK(restart_after(fault_kind::flipped_moment, role::lane) == restart_is::due);
  for (const auto who : {role::keeper, role::shard_writer}) {
    CHECK(allowed_after(fault_kind::sigkill, who) == replaced::one_node);
    CHECK(restart_after(fault_kind::sigkill, who) == restart_is::due);
    CHECK(restart_after(fault_kind::raise, who) == restart_is::possible);
  }
}

TEST_CASE("a victim that was not replaced is reported", "[chaos]") {
  CHECK(victim_kept({"node-1"}, replaced::victim, "node-1").empty());
  CHECK_THAT(text_of(victim_kept({}, replaced::victim, "node-1")),
             ContainsSubstring("node-1 was not replaced"));
  CHECK(victim_kept({"node-0"}, replaced::one_node, "lane:0.0").empty());
  CHECK_FALSE(victim_kept({}, replaced::one_node, "lane:0.0").empty());
  CHECK_FALSE(victim_kept({"agent-host-1"}, replaced::victim, "agent-here").empty());
  CHECK(victim_kept({"supervisor"}, replaced::supervisor, "monitor").empty());
  CHECK_FALSE(victim_kept({}, replaced::supervisor, "monitor").empty());
  CHECK(is_replaced_after(fault_kind::exit, role::lane));
  CHECK(is_replaced_after(fault_kind::sigstop, role::supervisor));
  CHECK_FALSE(is_replaced_after(fault_kind::pause, role::node));
  CHECK_FALSE(is_replaced_after(fault_kind::sigstop, role::agent));
  CHECK_FALSE(is_replaced_after(fault_kind::sigkill, role::front));
  CHECK(leaves_nobody(fault_kind::sigkill, role::front));
}

TEST_CASE("steps repeated after a move are not counted for a death", "[chaos]") {
  const tests::scratch_folder folder;
  const auto told = [](runtime::step_ledger& x, const char* kind, std::uint64_t iteration) {
    x.tell(runtime::run_event{.iteration = iteration, .kind = kind, .who = "process:1"});
  };
  ledger_watch x(ledger_in(folder, [&](runtime::step_ledger& ledger) {
    told(ledger, "restart", 3);
    ledger.replay({{.iteration = 3, .consumed = 24}, {3, 0}, {}});
    ledger.commit({{.iteration = 4, .consumed = 32}, {4, 0}, {}});
    told(ledger, "straggler", 4);
    told(ledger, "move", 4);
    ledger.replay({{.iteration = 3, .consumed = 24}, {3, 0}, {}});
    ledger.replay({{.iteration = 4, .consumed = 32}, {4, 0}, {}});
    ledger.commit({{.iteration = 5, .consumed = 40}, {5, 0}, {}});
  }));
  x.look();
  REQUIRE(x.recoveries().size() == 1);
  CHECK((x.recoveries()[0].replayed == 1 && x.recoveries()[0].first_new == 4));
  REQUIRE(x.moves().size() == 1);
  CHECK((x.moves()[0].replayed == 2 && x.moves()[0].first_new == 5));
}

TEST_CASE("a replaced service is not counted as a restart", "[chaos]") {
  const tests::scratch_folder folder;
  ledger_watch x(ledger_in(folder, [](runtime::step_ledger& ledger) {
    ledger.tell(runtime::run_event{.iteration = 3, .kind = "replaced", .who = "shard_writer:1"});
    ledger.tell(runtime::run_event{.iteration = 3, .kind = "given up", .who = "monitor"});
  }));
  x.look();
  CHECK(x.recoveries().empty());
  REQUIRE(x.successors().size() == 2);
  CHECK(x.successors()[0].event.who == "shard_writer:1");
  CHECK(x.successors()[0].seen_ns > 0);
}

TEST_CASE("messages about a fault are counted in the logs", "[chaos]") {
  const tests::scratch_folder folder;
  const auto words = words_of(trace::refused_write);
  std::ofstream(folder / "a.log") << "troupe: error: iteration 5 is not saved: File too large\n"
                                  << "saved iteration 10\n";
  std::ofstream(folder / "b.log") << "cannot write; the run continues and will try again\n";
  CHECK(times_said({folder / "a.log", folder / "b.log", folder / "none"}, words) == 2);
  CHECK(times_said({folder / "a.log"}, words_of(trace::refused_state)) == 0);
  CHECK(words_of(trace::restart).empty());
}

TEST_CASE("each fault has the trace that proves its effect", "[chaos]") {
  using enum fault_kind;
  CHECK(trace_of(sigkill, role::node) == trace::certain);
  CHECK(trace_of(raise, role::lane) == trace::certain);
  CHECK(trace_of(raise, role::keeper) == trace::successor);
  CHECK(trace_of(hang, role::shard_writer) == trace::successor);
  CHECK(trace_of(flipped_bits, role::keeper) == trace::refused_state);
  CHECK(trace_of(flipped_bits, role::lane) == trace::certain);
  CHECK(trace_of(link_down, role::node) == trace::restart);
  CHECK(trace_of(short_write, role::supervisor) == trace::refused_write);
}

TEST_CASE("a line that a successor removes from the ledger is not counted", "[chaos]") {
  const tests::scratch_folder folder;
  const auto file = ledger_in(folder);
  const auto whole = std::filesystem::file_size(file);
  ledger_watch x(file);
  std::ofstream(file, std::ios::app) << R"({"kind":"comm)";
  x.look();
  CHECK((x.commits() == 3 && x.newest() == 3));
  std::filesystem::resize_file(file, whole);
  x.look();
  CHECK((x.commits() == 3 && x.newest() == 3));
}

TEST_CASE("CHAOS-5: a leftover process is found by its environment and killed", "[chaos]") {
  const auto mark = fmt::format("TROUPE_CHAOS=test.{}", ::getpid());
  runtime::footprint x(mark);
  CHECK(x.left().empty());
  auto one = sleeper(mark);
  const auto other = sleeper(mark + "0");  // belongs to another run
  CHECK(x.processes() == std::vector{one.id()});
  CHECK_THAT(text_of(x.left()), ContainsSubstring(std::to_string(one.id().pid)));
  x.kill_all();
  CHECK(one.wait().signal == SIGKILL);
  CHECK(x.left().empty());
  CHECK(runtime::is_running(other.id()));
}

TEST_CASE("CHAOS-5: children of a standing node are found by their command lines and killed",
          "[chaos]") {
  const tests::scratch_folder folder;
  const auto own = folder / "own", other = folder / "other", scripts = folder / "scripts";
  for (const auto& x : {own, other, scripts})
    std::filesystem::create_directories(x);
  std::ofstream(scripts / "troupe:node") << "kill -STOP $$\n";
  const auto part_of = [&](const std::filesystem::path& run) {
    runtime::child_process out({.command = {"/usr/bin/env",
                                            "-C",
                                            scripts.string(),
                                            "/bin/sh",
                                            "troupe:node",
                                            "run",
                                            run.string(),
                                            "process",
                                            "1"}});
    REQUIRE(tests::soon([&] {
      const auto words = runtime::command_of(out.id().pid);
      return words.size() > 1 && words[1] == "troupe:node";
    }));
    return out;
  };
  runtime::footprint x("TROUPE_CHAOS=none");
  const auto node = sleeper("TROUPE_CHAOS_TEST=node");  // survives: it started them
  x.add_host(own, node.id());
  CHECK(x.left().empty());
  auto one = part_of(own);
  const auto elsewhere = part_of(other);
  CHECK(x.processes() == std::vector{one.id()});
  CHECK_THAT(text_of(x.left()), ContainsSubstring(std::to_string(one.id().pid)));
  x.kill_all();
  CHECK(one.wait().signal == SIGKILL);
  CHECK(x.left().empty());
  CHECK((runtime::is_running(node.id()) && runtime::is_running(elsewhere.id())));
}

TEST_CASE("CHAOS-5: leftover files and shared memory are found", "[chaos]") {
  const tests::scratch_folder folder;
  for (const auto* name : {"run",
                           "run/sockets",
                           "run/processes",
                           "save",
                           "tmp",
                           "host/sockets",
                           "host/processes",
                           "host/runs",
                           "host/credentials"})
    std::filesystem::create_directories(folder / name);
  const std::string id = fmt::format("chaos{}", ::getpid());
  runtime::footprint none("TROUPE_CHAOS=none");
  std::ofstream(folder / "host/credentials/secret")
      << "x";  // the node runs, so its credentials may stay
  const auto found = [&] {
    return text_of(
        leftovers(none, id, folder / "run", folder / "save", folder / "tmp", {folder / "host"}, 0));
  };
  CHECK(found().empty());
  for (const auto* name : {"run/sockets/agent-here",
                           "save/.iter_0000001.partial",
                           "tmp/troupe-run-abc",
                           "run/processes/node-0.json.partial",
                           "host/sockets/agent-here",
                           "host/processes/node-1.json.partial"}) {
    std::ofstream(folder / name) << "x";
    CHECK_THAT(found(), ContainsSubstring(name));
    std::filesystem::remove(folder / name);
  }
  std::filesystem::create_directory(folder / "host/runs" / (id + ".1"));
  std::filesystem::create_directory(folder / "host/runs/another.1");  // another run, still live
  CHECK_THAT(found(), ContainsSubstring("host/runs/" + id + ".1"));
  CHECK_THAT(found(), !ContainsSubstring("another"));
  std::filesystem::remove(folder / "host/runs" / (id + ".1"));
  CHECK(found().empty());
  const auto segment = runtime::segment_prefix(id) + "x";
  const int made = ::shm_open(segment.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(made >= 0);
  CHECK_THAT(found(), ContainsSubstring("the shared memory"));
  ::shm_unlink(segment.c_str());
  ::close(made);
  CHECK(found().empty());
}

TEST_CASE("CHAOS-5: a port that a process still listens on is found", "[chaos]") {
  // The child has the mark and inherits this process's socket.
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::listen(listener, 1) == 0);
  const auto mark = fmt::format("TROUPE_CHAOS=port.{}", ::getpid());
  runtime::footprint x(mark);
  {
    const runtime::child_process child(
        {.command = {"/bin/sleep", "1000"}, .environment = {mark}, .inherited = {listener}});
    REQUIRE(tests::soon([&x] {  // /proc shows the environment slightly later
      x.look();
      return !x.left().empty();
    }));
    x.look();
  }
  CHECK_THAT(text_of(x.left()), ContainsSubstring("a socket that listens"));
  ::close(listener);
  CHECK(x.left().empty());
}
