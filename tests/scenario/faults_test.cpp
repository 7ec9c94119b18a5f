// After a failure of any actor the job ends in order, with its name and the reason.

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <stdexcept>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("an injected exception in any one actor ends the job, naming it", "[scenario][fault]") {
  // lane:0.1 fails while stage 1.1 waits for it in the reduction.
  const std::string who = GENERATE("supervisor",
                                   "node",
                                   "loader",
                                   "monitor",
                                   "checkpointer",
                                   "replica:1",
                                   "stage:0.0",
                                   "stage:1.1",
                                   "lane:0.1",
                                   "lane:1.0");
  const bool delayed = GENERATE(false, true);
  CAPTURE(who, delayed);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 2);
  job.checkpoints.save = folder / "checkpoints";
  job.checkpoints.save_interval = 3;
  if (delayed)
    job.faults = {.seed = 3, .lane_delay_us = 500, .message_delay_us = 500};
  job.faults.fault = who + (who == "node" ? "@1" : "@3");
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("the fault injected for " + who));
  // The actors that forwarded the error precede the cause.
  const auto place = who.substr(who.find(':') + 1);
  const auto chain = who.starts_with("lane:") ? "stage:" + place + ": reduce: the fault"
                     : who.starts_with("stage:")
                         ? "replica:" + place.substr(0, 1) + ": " + who + ": the"
                         : who + ": the fault";
  CHECK_THAT(end.reason, ContainsSubstring(chain));
  CHECK(prepared->node->transport->leased() == 0);
}

TEST_CASE("an injected exception in one tensor rank ends the job, naming it", "[scenario][fault]") {
  // Without a third number tensor rank 0 is meant. The others wait in sums over the tensor axis or
  // the data axis, or for a layer's parameters.
  const auto [who, chain] = GENERATE(
      table<std::string, std::string>({{"stage:0.0.1", "replica:0: stage:0.0.1: the fault"},
                                       {"stage:1.1", "replica:1: stage:1.1.0: the fault"},
                                       {"lane:1.0.0", "stage:1.0.0: reduce: the fault"},
                                       {"lane:0.1", "stage:0.1.0: reduce: the fault"},
                                       {"lane:0.1.1", "stage:0.1.1: reduce: the fault"},
                                       {"wire:0.0.1", "stage:0.0.1: reduce "},
                                       {"wire:1.1", "stage:1.1.0: reduce "}}));
  const bool distributed = GENERATE(false, true), delayed = GENERATE(false, true);
  CAPTURE(who, distributed, delayed);
  auto job = tests::tiny_job(2, 2, 2);
  job.layout.sequence_parallel = true;
  job.reduction = {.distributed_optimizer = distributed,
                   .bucket_size = 4096,
                   .overlap_gradients = distributed || who.starts_with("wire"),
                   .overlap_parameters = distributed,
                   .grain = 256};
  if (delayed)
    job.faults = {.seed = 3, .lane_delay_us = 300, .message_delay_us = 300};
  job.faults.fault = who + "@3";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("the fault injected for " + who));
  CHECK_THAT(end.reason, ContainsSubstring(chain));
  CHECK(prepared->node->transport->leased() == 0);
}

TEST_CASE("the death of a lane releases its peers from a sum over tensor ranks",
          "[scenario][fault]") {
  // Each piece of work of a forward pass sums over the tensor axis, so the peer waits for the dead
  // lane in one of them.
  const int piece = GENERATE(3, 4, 5, 8);
  const std::string name = GENERATE("lane 0.0.1", "lane 0.1.0");
  CAPTURE(piece, name);
  auto job = tests::tiny_job(2, 1, 2);
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->env.make_lane = [=](runtime::lane_settings settings) {
    if (settings.name == name)
      settings.before_each = [piece, done = 0]() mutable {
        if (++done == piece)
          throw std::runtime_error("the lane is torn");
      };
    return runtime::make_thread_lane(std::move(settings));
  };
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("replica:0: stage:" + name.substr(5) + ": "));
  CHECK_THAT(end.reason, ContainsSubstring("the lane is torn"));
  CHECK(prepared->node->transport->leased() == 0);
}

TEST_CASE("a loss that is not finite stops the job before any update", "[scenario][fault]") {
  auto job = tests::tiny_job(2, 1);
  job.training.rate = {.maximum = 1e30, .style = runtime::decay_style::constant};
  job.train_iterations = 50;
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("is not finite"));
  CHECK_THAT(end.reason, ContainsSubstring("`rate.maximum`"));
}

TEST_CASE("the death of a monitor at the very end is reported", "[scenario][fault]") {
  auto job = tests::tiny_job(1, 1);
  job.train_iterations = 3;
  job.faults.fault = "monitor@3";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("monitor: the fault"));
}

TEST_CASE("a run continues and saves although the disk of its logs is full", "[scenario][fault]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(1, 1);
  job.train_iterations = 3;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = "/dev/full";
  job.watch.csv_file = folder / "log.csv";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 0);
  CHECK(runtime::latest_checkpoint(folder / "checkpoints").folder.has_value());
  const auto table = runtime::read_text(folder / "log.csv");
  CHECK(std::count(table.begin(), table.end(), '\n') == 4);  // the other log is complete
}

TEST_CASE("an early request to end finishes the step, saves, and is not a failure", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 2);
  job.train_iterations = 100000;
  job.checkpoints.save = folder / "checkpoints";
  const auto end = actors::run(tests::tiny_prepared(job),
                               [](const actors::drain_request& ask) { ask("SIGTERM"); });
  CHECK(end.exit_code == 0);
  CHECK(end.reason == "");
}

namespace {

/// A source with unreadable samples from a given one on.
class damaged_source final : public runtime::batch_source {
 public:
  damaged_source(std::shared_ptr<const runtime::batch_source> from, std::uint64_t first)
      : from_(std::move(from)), first_(first) {}
  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    if (at.consumed >= first_)
      throw runtime::io_error("cannot read sample {}: Input/output error", at.consumed);
    return from_->microbatch(at);
  }

 private:
  std::shared_ptr<const runtime::batch_source> from_;
  std::uint64_t first_;
};

}  // namespace

TEST_CASE("DATA-3: unreadable data end the job in the step that needs them", "[scenario][fault]") {
  const auto [pipeline, data] = GENERATE(table<int, int>({{1, 1}, {2, 1}, {1, 2}, {2, 2}}));
  const bool distributed = GENERATE(false, true), recovers = GENERATE(false, true);
  CAPTURE(pipeline, data, distributed, recovers);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(pipeline, data);
  job.checkpoints.save = folder / "checkpoints";
  job.checkpoints.save_interval = 3;
  job.watch.log_file = folder / "log.jsonl";
  job.recovery.on = recovers;
  if (data > 1)
    job.reduction.distributed_optimizer = distributed;
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->training = std::make_shared<damaged_source>(
      prepared->node->training, 3 * std::uint64_t(job.training.batch.global));
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason,
             ContainsSubstring("loader: the data of iteration 4: cannot read sample 24: Input"));
  const auto steps = tests::steps_in(folder / "log.jsonl");
  REQUIRE(steps.size() == 3);
  CHECK(steps.rbegin()->first == 3);
  CHECK(runtime::open_checkpoint(job.checkpoints.save / "iter_0000003")->manifest().iteration == 3);
  CHECK(prepared->node->transport->leased() == 0);
}
