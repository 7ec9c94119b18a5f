#include "runtime/process/temporary_run.hpp"

#include "runtime/process/process_entry.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

/// Another process that runs until `end`.
class other_process {
 public:
  other_process() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;)
        ::pause();
    const auto facts = look_at_process(pid_);
    REQUIRE(facts);
    id_ = facts->id;
  }
  ~other_process() { end(); }
  other_process(const other_process&) = delete;
  other_process& operator=(const other_process&) = delete;

  const process_id& id() const { return id_; }
  void end() {
    if (const auto pid = std::exchange(pid_, 0); pid != 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

 private:
  pid_t pid_;
  process_id id_;
};

process_id gone() {
  return other_process().id();
}

/// The folder of a run that is not held any more, with entries of these processes.
struct left_run {
  left_run(const fs::path& at,
           const std::optional<process_id>& shown_by,
           const std::vector<process_id>& entries) {
    std::optional<held_run_folder> held(std::in_place, at, "troupe 1", std::vector<std::string>());
    if (shown_by)
      mark_temporary(*held, *shown_by);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto entry = entry_of_this_process("node-" + std::to_string(i), "node");
      entry.process = entries[i];
      write_entry(*held, entry);
    }
    held.reset();
    folder.emplace(run_folder::open(at));
  }
  std::optional<run_folder> folder;
};

}  // namespace

TEST_CASE("the last process of a temporary run without a front removes its folder", "[process]") {
  const scratch_folder above;
  const auto at = above / "run";
  other_process other;
  const left_run it(at, gone(), {this_process(), other.id(), gone()});
  leave_temporary(*it.folder);
  CHECK(fs::exists(at / "processes/node-1.json"));
  CHECK_FALSE(fs::exists(at / "processes/node-0.json"));  // the entry of the caller is removed
  other.end();
  leave_temporary(*it.folder);
  CHECK_FALSE(fs::exists(at));
  leave_temporary(*it.folder);  // without effect: the folder is gone
}

TEST_CASE("a run's folder stays while it has a front, is held, or was named by the user",
          "[process]") {
  const scratch_folder above;
  const auto at = above / "run";
  {
    const left_run it(at, this_process(), {this_process()});
    leave_temporary(*it.folder);
    remove_temporary_of_ended(*it.folder);
    CHECK(fs::exists(at / "processes/node-0.json"));
  }
  {
    const left_run it(at, gone(), {this_process()});
    const auto held = held_run_folder::of_died(at);
    REQUIRE(held);
    leave_temporary(*it.folder);
    CHECK(fs::exists(at));
  }
  const left_run it(at, {}, {this_process()});  // taken by a run with a named folder
  leave_temporary(*it.folder);
  CHECK(fs::exists(at / "processes/node-0.json"));
}

TEST_CASE("a successor removes a temporary run only after its end", "[process]") {
  const scratch_folder above;
  const left_run it(above / "run", gone(), {});
  remove_temporary_of_ended(*it.folder);
  CHECK(fs::exists(above / "run"));
  held_run_folder::of_died(above / "run")->end(3, "it broke");
  remove_temporary_of_ended(*it.folder);
  CHECK_FALSE(fs::exists(above / "run"));
}
