// Processes of a standing node are found by their command lines, whatever pids the entries hold.

#include "runtime/process/host_parts.hpp"

#include "runtime/process/child_process.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

/// A stopped process with `word` as its second argument: a shell that runs a script of this name.
child_process called(const std::filesystem::path& scripts,
                     const std::string& word,
                     const std::vector<std::string>& more) {
  std::ofstream(scripts / word) << "kill -STOP $$\n";
  std::vector<std::string> command{"/usr/bin/env", "-C", scripts.string(), "/bin/sh", word};
  command.insert(command.end(), more.begin(), more.end());
  child_process out({.command = command});
  REQUIRE(soon([&] {
    const auto facts = look_at_process(out.id().pid);
    return facts && facts->state == 'T' && command_of(out.id().pid).at(1) == word;
  }));
  return out;
}

}  // namespace

TEST_CASE("a process of a run is recognised by its command line", "[process]") {
  CHECK(read_part_line({"/bin/troupe", "troupe:agent", "run", "/a b", "patience", "30"})
        == part_line{"agent", "/a b", 0});
  CHECK(read_part_line(
            {"troupe", "troupe:node", "run", "/a", "process", "3", "incarnation", "12", "x", "y"})
        == part_line{"node-3", "/a", 12});
  CHECK_FALSE(read_part_line({"troupe", "node", "--run", "/a"}));
  CHECK_FALSE(read_part_line({"troupe", "troupe:node"}));
  CHECK_FALSE(read_part_line({}));
}

TEST_CASE("a standing node is recognised by its folder argument", "[process]") {
  CHECK(folder_of_standing_node({"troupe", "node", "--listen", "x:1", "--run", "/a"}, "--run")
        == "/a");
  CHECK(folder_of_standing_node({"troupe", "node", "--run=/a"}, "--run") == "/a");
  CHECK_FALSE(folder_of_standing_node({"troupe", "node", "--listen", "x:1"}, "--run"));
  CHECK_FALSE(
      folder_of_standing_node({"unshare", "--pid", "troupe", "node", "--run", "/a"}, "--run"));
  CHECK_FALSE(folder_of_standing_node({"troupe", "supervisor", "--run", "/a"}, "--run"));
}

TEST_CASE("only the processes of one host's folder are found", "[process]") {
  const scratch_folder folder;
  const auto own = folder / "own", other = folder / "other", scripts = folder / "scripts";
  for (const auto& x : {own, other, scripts})
    std::filesystem::create_directories(x);
  const auto started = [&](const std::filesystem::path& run, const char* incarnation) {
    return called(
        scripts, "troupe:node", {"run", run.string(), "process", "1", "incarnation", incarnation});
  };
  auto newer = started(own, "2"), older = started(own, "1");
  const auto elsewhere = started(other, "3");
  const auto agent = called(scripts, "troupe:agent", {"run", own.string()});
  const auto node = called(scripts, "node", {"--run", own.string()});
  CHECK(parts_of_host(own)
        == std::vector<host_part>{{"agent", agent.id(), 0}, {"node-1", newer.id(), 2}});
  CHECK(processes_of_host(own).size() == 3);
  CHECK(parts_of_host(other) == std::vector<host_part>{{"node-1", elsewhere.id(), 3}});
  CHECK(standing_node_of(own, "--run") == node.id());
  CHECK_FALSE(standing_node_of(other, "--run"));
  for (auto* one : {&newer, &older})
    if (const auto alive = running_process::find(one->id()))
      alive->signal(SIGKILL);
  CHECK(newer.wait().signal == SIGKILL);
  CHECK(older.wait().signal == SIGKILL);
  CHECK(parts_of_host(own) == std::vector<host_part>{{"agent", agent.id(), 0}});
}
