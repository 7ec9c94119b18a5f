#include "runtime/process/run_folder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_control.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/process/segments.hpp"
#include "tests/support/players.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/stat.h>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace fs = std::filesystem;

namespace {

held_run_folder held(const fs::path& path) {
  return {path, "troupe 1", {"train", "gpt"}};
}

void refused(const fs::path& path, const std::string& why) {
  CHECK_THROWS_MATCHES(held(path),
                       input_error,
                       MessageMatches(ContainsSubstring(why) && ContainsSubstring(path.string())));
}

mode_t mode_of(const fs::path& path) {
  struct stat about = {};
  ::stat(path.c_str(), &about);
  return about.st_mode & 07777;
}

bool is_root() {
  return ::geteuid() == 0;
}

std::vector<seen_process> seen(const run_folder& x) {
  return seen_processes(x, [](const std::string& damage) { FAIL(damage); });
}

}  // namespace

TEST_CASE("a run's folder is private to the user and says what runs in it", "[process]") {
  const scratch_folder above;
  const auto mask = ::umask(0);
  {
    auto run = held(above / "deep/er/run");
    for (const auto& folder : {run.path(), run.processes(), run.logs(), run.sockets()})
      CHECK(mode_of(folder) == 0700);
    CHECK(mode_of(run.path() / "run.json") == 0600);
    const auto record = run_folder::open(run.path()).record();
    CHECK(record.program == "troupe 1");
    CHECK(record.command == std::vector<std::string>{"train", "gpt"});
    CHECK(record.id.size() == 16);
    CHECK_FALSE(record.ended);
    CHECK(run_folder::open(run.path()).is_held());
    CHECK(run.name() == "run");
    CHECK(run_folder::open(above / "deep/er/run/").name() == "run");
    run.end(2, "the disk is full");
  }
  ::umask(mask);
  const auto after = run_folder::open(above / "deep/er/run");
  CHECK_FALSE(after.is_held());
  CHECK(after.record().ended->exit_code == 2);
  CHECK(after.record().ended->reason == "the disk is full");
  CHECK(held(above / "small/.run").name() == "small");
}

TEST_CASE("RUN-1: a folder belongs to one living run of one user", "[process]") {
  const scratch_folder above;
  const auto path = above / "run";
  {
    const auto here = held(path);
    refused(path, "another run uses it (process " + std::to_string(::getpid()) + ")");
  }
  held(path);
  {
    child_process other({.command = player({"run", path}), .output = above / "out"});
    REQUIRE(soon([&] { return read_text(above / "out") == "held\n"; }));
    refused(path, "process " + std::to_string(other.id().pid));
    other.signal(SIGKILL);
    other.wait();
    held(path);  // the kernel has released the lock
  }
  fs::permissions(path, fs::perms(0750));
  refused(path, "others may enter it (mode 0750)");
  CHECK_THROWS_AS(run_folder::open(path), input_error);
  fs::permissions(path, fs::perms(0700));
  fs::create_directory_symlink(path, above / "link");
  refused(above / "link", "link");
  std::ofstream(above / "file") << "x";
  refused(above / "file", "not a folder");
  fs::create_directory(above / "data");
  fs::permissions(above / "data", fs::perms(0700));
  std::ofstream(above / "data/precious") << "x";
  refused(above / "data", "no run.json");
  CHECK(fs::exists(above / "data/precious"));
  if (is_root()) {
    fs::create_directory(above / "theirs");
    fs::permissions(above / "theirs", fs::perms(0700));
    REQUIRE(::chown((above / "theirs").c_str(), 12345, 12345) == 0);
    refused(above / "theirs", "user 12345 owns it");
  } else {
    refused("/", "user 0 owns it");
  }
  CHECK_THROWS_MATCHES(run_folder::open(above / "nothing"),
                       input_error,
                       MessageMatches(ContainsSubstring("No such file")));
}

TEST_CASE("the folder of an ended run is reused, and its logs are kept once", "[process]") {
  const scratch_folder above;
  std::string id;
  {
    const auto run = held(above / "run");
    id = run.record().id;
    write_entry(run, entry_of_this_process("node-1", "node"));
    std::ofstream(run.log_of("node-1")) << "first\n";
    std::ofstream(run.asked_to_end_file(this_process())) << "";
    std::ofstream(run.sockets() / "stale") << "";
    fs::create_directory(run.credentials());
    std::ofstream(run.credentials() / "secret") << "old";
  }
  const auto again = held(above / "run");
  CHECK(again.record().id != id);
  CHECK(seen(again).empty());
  CHECK(fs::is_empty(again.sockets()));
  CHECK(fs::is_empty(again.logs()));
  CHECK_FALSE(fs::exists(again.credentials()));
  CHECK_FALSE(fs::exists(again.asked_to_end_file(this_process())));
  CHECK(read_text(again.path() / "logs.before/node-1.log") == "first\n");
}

TEST_CASE("a temporary folder is removed with its run", "[process]") {
  fs::path path;
  {
    const auto run = held_run_folder::temporary("troupe 1", {});
    path = run.path();
    CHECK(mode_of(path) == 0700);
    CHECK(run.is_held());
    std::ofstream(run.log_of("x")) << "x";
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("another process records the end of a run that died once, and keeps its folder",
          "[process]") {
  const scratch_folder above;
  const auto path = above / "run";
  const auto mine = entry_of_this_process("supervisor", "supervisor");
  {
    const auto run = held(path);
    write_entry(run, mine);
    CHECK_FALSE(say_end_of_died(path, mine.process, 3, "it holds the folder"));
  }
  auto other = mine.process;
  ++other.start_time;
  CHECK_FALSE(say_end_of_died(path, other, 3, "another run's"));
  CHECK(say_end_of_died(path, mine.process, 3, "why"));
  CHECK_FALSE(say_end_of_died(path, mine.process, 4, "again"));
  const auto end = run_folder::open(path).record().ended;
  REQUIRE(end);
  CHECK(end->exit_code == 3);
  CHECK(end->reason == "why");
  CHECK(fs::exists(path / "processes/supervisor.json"));
  CHECK_FALSE(run_folder::open(path).is_held());
}

TEST_CASE("SUCCESSION-2: a process that continues a run holds its folder unchanged", "[process]") {
  const scratch_folder above;
  const auto path = above / "run";
  {
    const auto run = held(path);
    std::ofstream(run.log_of("supervisor")) << "first\n";
    write_order(run, std::string("an order of \0 any bytes", 23));
    write_rendezvous(run,
                     {.incarnation = 1, .address = "127.0.0.1", .port = 7000, .places = {4, 0}});
    CHECK_FALSE(held_run_folder::to_go_on(path, std::chrono::milliseconds(1)));
  }
  auto next = held_run_folder::to_go_on(path, std::chrono::seconds(10));
  REQUIRE(next);
  CHECK(next->is_held());
  CHECK(read_text(next->log_of("supervisor")) == "first\n");
  CHECK(read_order(*next) == std::string("an order of \0 any bytes", 23));
  CHECK(find_rendezvous(*next) == rendezvous_place{1, "127.0.0.1", 7000, {4, 0}});
  CHECK(has_succession(*next));
  CHECK_THROWS_MATCHES(read_description(*next),
                       input_error,
                       MessageMatches(ContainsSubstring("it has no description.json")));
  next->end(0, "");
  CHECK_FALSE(find_rendezvous(*next));
  next.reset();
  CHECK_FALSE(held_run_folder::to_go_on(path, std::chrono::seconds(10)));  // the run has ended
}

TEST_CASE("a run has a successor only if its running agent promised one", "[process]") {
  const scratch_folder above;
  const auto path = above / "run";
  {
    const auto run = held(path);
    write_rendezvous(run, {.incarnation = 1, .address = "127.0.0.1", .port = 7000});
    write_entry(run, entry_of_this_process(agent_name(), "agent"));
    CHECK(has_succession(run));  // the folder is held
  }
  const auto run = run_folder::open(path);
  CHECK_FALSE(has_succession(run));
  promise_succession(run, true);
  CHECK(has_succession(run));
  // The promise is of a killed agent; another one runs now.
  replace_file(run.processes() / (agent_name() + ".succession"), "1 1\n");
  CHECK_FALSE(has_succession(run));
  promise_succession(run, true);
  promise_succession(run, false);
  promise_succession(run, false);
  CHECK_FALSE(has_succession(run));
}

TEST_CASE("a damaged rendezvous is refused and named", "[process]") {
  const scratch_folder above;
  const auto run = held(above / "run");
  for (const auto* const text :
       {"",
        "{",
        "[]",
        R"({"version":1})",
        R"({"version":2,"port":1})",
        R"({"version":2,"incarnation":0,"address":"x","port":1})",
        R"({"version":2,"incarnation":1,"address":"x","port":65536})",
        R"({"version":2,"incarnation":1,"address":"x","port":1})",
        R"({"version":2,"incarnation":1,"address":"x","port":1,"places":[-1]})"}) {
    INFO(text);
    replace_file(run.rendezvous(), text);
    CHECK_THROWS_MATCHES(
        find_rendezvous(run), input_error, MessageMatches(ContainsSubstring("rendezvous.json")));
  }
}

TEST_CASE("a damaged run.json is refused with the reason", "[process]") {
  const scratch_folder above;
  const auto run = held(above / "run");
  const auto whole = text_of(run.record());
  CHECK(read_run_record(whole, "it") == run.record());
  for (std::size_t i = 0; i + 2 < whole.size(); ++i)
    CHECK_THROWS_AS(read_run_record(whole.substr(0, i), "it"), input_error);
  CHECK_THROWS_MATCHES(read_run_record(R"({"version": 7})", "it"),
                       input_error,
                       MessageMatches(ContainsSubstring("version 7")));
  fs::remove(run.path() / "run.json");
  fs::permissions(run.path(), fs::perms(0755));
  CHECK_THROWS_MATCHES(run_folder::open(run.path()),
                       input_error,
                       MessageMatches(ContainsSubstring("not the folder of a run")));
}

TEST_CASE("each process has an entry that shows whether it still runs", "[process]") {
  const scratch_folder above;
  const auto run = held(above / "run");
  auto mine = entry_of_this_process("supervisor", "supervisor");
  mine.roles = {"supervisor", "node"};
  mine.ranks = {0, 1, 2};
  mine.incarnation = 3;
  mine.progress = {.generation = 4, .step = 500};
  write_entry(run, mine);
  CHECK(read_process_entry(text_of(mine), "supervisor", "it") == mine);
  auto stale = mine;
  stale.name = "stale";
  stale.process.start_time += 1;  // the pid now belongs to this process
  write_entry(run, stale);
  auto far = mine;
  far.name = "far";
  far.host = "another-host";
  write_entry(run, far);
  const auto all = seen(run);
  REQUIRE(all.size() == 3);
  CHECK(all[0].entry == far);
  CHECK_FALSE(all[0].runs);
  CHECK(all[1].runs == false);
  CHECK(all[2].runs == true);
  remove_entry(run, "stale");
  std::ofstream(run.processes() / "bad.json") << "{\"pid\": -1}";
  std::vector<std::string> damage;
  CHECK(seen_processes(run, [&](const std::string& x) { damage.push_back(x); }).size() == 2);
  REQUIRE(damage.size() == 1);
  CHECK_THAT(damage[0], ContainsSubstring("bad.json"));
  std::filesystem::remove_all(run.processes());
  CHECK(seen(run).empty());  // as while the next run takes the folder
}

TEST_CASE("RUN-2: the name of an entry is a file name", "[process]") {
  const scratch_folder above;
  const auto run = held(above / "run");
  CHECK_THROWS_AS(write_entry(run, entry_of_this_process("../run", "node")), broken_promise);
  CHECK(seen(run).empty());
}

TEST_CASE("an entry follows the progress of its process", "[process]") {
  const scratch_folder above;
  const auto run = held(above / "run");
  std::atomic<std::uint64_t> step = 0;
  {
    entry_keeper keeper(run, entry_of_this_process("supervisor", "supervisor"));
    CHECK(seen(run).at(0).entry.progress == process_progress{});
    keeper.follow([&] { return process_progress{.generation = 1, .step = step}; });
    step = 7;
    CHECK(soon([&] { return seen(run).at(0).entry.progress.step == 7; }));
    step = 8;
  }
  CHECK(seen(run).at(0).entry.progress == process_progress{.generation = 1, .step = 8});
}

TEST_CASE("a reader sees either the old or the new entry", "[process]") {
  const scratch_folder above;
  const auto file = above / "entry";
  const std::string a(1000, 'a'), b(3000, 'b');
  replace_file(file, a);
  std::atomic<bool> end = false;
  int torn = 0;
  std::jthread writer([&] {
    for (int i = 0; i < 2000; ++i)
      replace_file(file, i % 2 == 0 ? b : a);
    end = true;
  });
  while (!end) {
    const auto now = read_text(file);
    torn += now != a && now != b;
  }
  CHECK(torn == 0);
  CHECK_THROWS_AS(replace_file(above / "nowhere/entry", a), io_error);
}

TEST_CASE("only the segments of the given run are removed", "[process]") {
  const auto make = [](const std::string& name) {
    return descriptor(::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600));
  };
  const auto mine = segment_prefix("0123456789abcdef"), other = segment_prefix("fedcba9876543210");
  const auto a = make(mine + "a"), b = make(mine + "b"), c = make(other + "a");
  CHECK(remove_segments("0123456789abcdef") == 2);
  CHECK(remove_segments("0123456789abcdef") == 0);
  CHECK(remove_segments("fedcba9876543210") == 1);
}

TEST_CASE("an event of a run is claimed once, until the next run", "[process]") {
  const scratch_folder above;
  const auto path = above / "run";
  {
    const auto run = held(path);
    const auto here = run_folder::open(path), there = run_folder::open(path);
    const auto id = run.record().id;
    CHECK_FALSE(here.claimed_at(id, "lane:0.1@4:forward:kill"));
    CHECK(here.claim(id, "lane:0.1@4:forward:kill"));
    CHECK_FALSE(there.claim(id, "lane:0.1@4:forward:kill"));
    CHECK(there.claimed_at(id, "lane:0.1@4:forward:kill").value_or(0) > 0);
    CHECK(there.claim(id, "lane:0.1@5:forward:kill"));
    CHECK(there.claim("of another run", "lane:0.1@4:forward:kill"));
  }
  const auto next = held(path);
  for (const auto& file : fs::directory_iterator(path))
    CHECK_FALSE(file.path().filename().string().starts_with("claimed"));
}

TEST_CASE("the times of a run's record are in UTC", "[run]") {
  CHECK(unix_seconds("1970-01-02T00:00:01Z") == 86401);
  CHECK(unix_seconds("2026-11-25T10:00:00Z") == 1795600800);
}
