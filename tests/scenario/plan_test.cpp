// The executed order equals the plan.

#include "actors/stage/stage.hpp"
#include "runtime/file/file.hpp"
#include "runtime/schedule/lower.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

using namespace troupe;

TEST_CASE("the executed order equals the plan, on every rank and in every step", "[scenario]") {
  const int P = GENERATE(1, 2, 4), D = GENERATE(1, 2);
  const bool delayed = GENERATE(false, true);
  CAPTURE(P, D, delayed);
  auto job = tests::tiny_job(P, D);
  job.train_iterations = 3;
  if (delayed)
    job.faults = {.seed = 11, .lane_delay_us = 400, .message_delay_us = 400};
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);

  std::map<std::pair<int, std::uint64_t>, std::vector<std::string>> executed;
  for (const auto& x : prepared->node->trace->spans())
    if (x.name.size() > 2 && std::isdigit(x.name.front()) != 0)
      executed[{x.rank, runtime::value(x.step)}].push_back(x.name);
  const auto plan = runtime::one_forward_one_backward(P, 8 / (2 * D));
  CHECK(executed.size() == std::size_t(P * D) * 3);
  for (const auto& [where, names] : executed) {
    const auto part = prepared->opened().seats.at(where.first)[runtime::axis::pipeline];
    std::vector<std::string> planned;
    for (const auto& x : runtime::with_split_backward(plan.ranks[std::size_t(part)]))
      planned.push_back(to_string(x));
    CHECK(names == planned);
  }
}

TEST_CASE("tensor ranks run the same row, with recomputation and replicas in turn", "[scenario]") {
  const bool full = GENERATE(true, false);
  const int each = GENERATE(1, 2);
  CAPTURE(full, each);
  auto job = tests::tiny_job(2, 2, 2);
  tests::play_in_turn(job, each);
  job.train_iterations = 2;
  job.recompute.granularity
      = full ? runtime::recompute_granularity::full : runtime::recompute_granularity::selective;
  job.faults = {.seed = 11, .lane_delay_us = 200, .message_delay_us = 200};
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);

  std::map<std::pair<int, std::uint64_t>, std::vector<std::string>> executed;
  for (const auto& x : prepared->node->trace->spans())
    if (x.track == 0 && x.name.size() > 2 && std::isdigit(x.name.front()) != 0)
      executed[{x.rank, runtime::value(x.step)}].push_back(x.name);
  // Each replica has 2 micro-batches; the row of a worker with two replicas has all four.
  const auto plan = runtime::with_recomputation(runtime::one_forward_one_backward(2, 2 * each),
                                                prepared->opened().pipeline.blocks);
  CHECK(executed.size() == std::size_t(8 / each) * 2);
  for (const auto& [where, names] : executed) {
    const auto part = prepared->opened().seats.at(where.first)[runtime::axis::pipeline];
    std::vector<std::string> planned;
    int again = 0;
    for (const auto& x : runtime::with_split_backward(plan.ranks[std::size_t(part)])) {
      planned.push_back(to_string(x));
      again += x.kind == runtime::action_kind::recompute;
    }
    CHECK(names == planned);
    CHECK(again > 0);
  }
}

TEST_CASE("the trace is JSON that Chrome and Perfetto can read", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 1);
  job.train_iterations = 2;
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);
  prepared->node->trace->write_chrome(folder / "trace.json");
  const auto trace = nlohmann::json::parse(runtime::read_text(folder / "trace.json"));
  const auto& events = trace["traceEvents"];
  CHECK(std::count_if(
            events.begin(), events.end(), [](const auto& e) { return e["name"] == "process_name"; })
        == 2);
  for (const auto& e : events)
    if (e["ph"] == "X")
      CHECK((e["dur"].is_number() && e["ts"].is_number() && e["dur"].template get<double>() >= 0));
}
