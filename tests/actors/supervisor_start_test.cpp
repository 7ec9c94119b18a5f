// The start of a supervisor; the test plays its node and its processes.

#include "tests/support/scratch_folder.hpp"
#include "tests/support/supervised_processes.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <optional>
#include <thread>

using namespace troupe;

TEST_CASE("HANG-6: a supervisor is on its process's board when it begins the ledger", "[actors]") {
  const tests::scratch_folder folder;
  std::optional<std::vector<runtime::board_entry>> seen;
  tests::supervised_processes it({}, 0, false, {}, [&](actors::prepared_job& job) {
    auto& node = *job.node;
    node.env.watches_lanes = true;
    node.ledger->write_down(folder / "ledger.jsonl");
    node.ledger->when_written([&seen, lanes = node.lanes](std::uint64_t, const std::string&) {
      if (seen)
        return;  // only the first write counts
      seen.emplace();
      // Runs in the supervisor; another thread looks.
      const std::jthread looks([&] { *seen = lanes->all(); });
    });
  });
  REQUIRE(seen);
  const auto its = std::find_if(
      seen->begin(), seen->end(), [](const auto& x) { return x.who == "supervisor"; });
  REQUIRE(its != seen->end());
  CHECK(its->work == "start");
  CHECK_FALSE(its->waits);
}

TEST_CASE("a supervisor without a launcher refuses a job of several processes", "[actors]") {
  tests::supervised_processes it(
      {}, 0, false, {}, [](actors::prepared_job& job) { job.node->agent = nullptr; });
  REQUIRE(it.end->is(messages::ec::refused));
  CHECK(it.end->text().find("no launcher is set up") != std::string::npos);
}
