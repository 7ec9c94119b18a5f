// Whole jobs of actors, compared with the reference trainer. They pass the checks of STEP-1,
// STEP-3, STEP-4, HANDOFF-1, REPLICA-1 and STAGE-2, and succeed.

#include "runtime/transport/local/local_transport.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using json = nlohmann::json;

namespace {

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    out.push_back(json::parse(line));
  return out;
}

/// Records the address of each ticket's bytes.
class watched_transport final : public runtime::transport {
 public:
  runtime::ticket deposit(runtime::tensor x,
                          runtime::generation_id g,
                          std::shared_ptr<const void> until_taken = {}) override {
    const auto* const at = x.raw();
    const auto out = local_.deposit(std::move(x), g, std::move(until_taken));
    const std::lock_guard lock(mutex_);
    at_.emplace(out.slot, at);
    return out;
  }
  std::vector<runtime::tensor> redeem_all(std::span<const runtime::ticket> tickets,
                                          const runtime::redeemer& by) override {
    auto out = local_.redeem_all(tickets, by);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < out.size(); ++i)
      moved_ += at_.at(tickets[i].slot) != out[i].raw();
    redeemed_ += int(out.size());
    return out;
  }
  void take_back(std::span<const runtime::ticket> tickets) override { local_.take_back(tickets); }
  void end_generation(runtime::generation_id last) override { local_.end_generation(last); }
  std::size_t leased() const override { return local_.leased(); }
  const runtime::transport_counters& counters() const override { return local_.counters(); }

  int moved() const { return moved_; }
  int redeemed() const { return redeemed_; }

 private:
  runtime::local_transport local_{1};
  std::mutex mutex_;
  std::map<std::uint64_t, const std::byte*> at_;
  int moved_ = 0, redeemed_ = 0;
};

}  // namespace

TEST_CASE("HANDOFF-2: between stages every tensor arrives once, without a copy", "[scenario]") {
  auto job = tests::tiny_job(4, 2);
  job.train_iterations = 3;
  const auto prepared = tests::tiny_prepared(job);
  const auto watched = std::make_shared<watched_transport>();
  prepared->node->transport = watched;
  REQUIRE(actors::run(prepared).exit_code == 0);
  CHECK(watched->moved() == 0);
  // 3 steps x 2 replicas x 2 micro-batches: 3 inputs of the first stage and 2 of the last; over 3
  // edges 3 tensors forward and 1 back.
  CHECK(watched->redeemed() == 3 * 2 * 2 * (3 + 2 + 3 * (3 + 1)));
  CHECK(watched->counters().dropped == 0);
}

TEST_CASE("every arrangement of actors gives the bits of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2, 4), D = GENERATE(1, 2);
  const bool delayed = GENERATE(false, true);
  CAPTURE(P, D, delayed);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(P, D);
  job.train_iterations = 50;
  job.watch.log_file = folder / "log.jsonl";
  if (delayed)
    job.faults = {.seed = 7, .lane_delay_us = 300, .message_delay_us = 300};
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);

  const auto expected = tests::by_reference_trainer(job);
  const auto seen = lines_of(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i]["iteration"] == i + 1);
    CHECK(seen[i]["state_digest"] == to_string(expected[i].state));
    CHECK(seen[i]["lm_loss"] == expected[i].loss);
    CHECK(seen[i]["grad_norm"] == expected[i].grad_norm);
  }
  CHECK(expected.back().loss < 0.8 * expected.front().loss);
  CHECK(prepared->node->transport->counters().bytes_copied == 0);
  CHECK(prepared->node->transport->counters().dropped == 0);
}

TEST_CASE("tensor-parallel layouts have the bits of the reference trainer on as many ranks",
          "[scenario][unsanitized]") {
  const int T = GENERATE(2, 4), P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool rows = GENERATE(false, true);
  CAPTURE(T, P, D, rows);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(P, D, T);
  job.layout.sequence_parallel = rows;
  job.watch.log_file = folder / "log.jsonl";
  job.faults = {.seed = 7, .lane_delay_us = 100, .message_delay_us = 100};
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.reason == "");
  const auto expected = tests::by_reference_trainer(job);
  const auto seen = lines_of(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i]["state_digest"] == to_string(expected[i].state));
    CHECK(seen[i]["lm_loss"] == expected[i].loss);
    CHECK(seen[i]["grad_norm"] == expected[i].grad_norm);
  }
}

TEST_CASE("validation by actors equals that of the reference trainer, without side effects",
          "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(P, D);
  job.train_iterations = 6;
  job.watch.eval_interval = 4;
  job.watch.eval_batches = 3;
  job.watch.log_file = folder / "log.jsonl";
  job.faults = {.seed = 5, .lane_delay_us = 200, .message_delay_us = 200};
  REQUIRE(actors::run(tests::tiny_prepared(job)).exit_code == 0);

  runtime::stream stream(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
  std::vector<json> expected;
  for (int i = 1; i <= 6; ++i) {
    expected.push_back({{"iteration", i}, {"state_digest", to_string(trainer.step().state)}});
    if (i == 4)
      expected.push_back({{"iteration", 4},
                          {"validation_loss",
                           trainer.evaluate(tests::formula_source(job.training, false), 3).loss}});
  }
  auto seen = lines_of(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size() + 1);  // and the validation at the end
  CHECK(seen.back().contains("validation_loss"));
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (const auto& [key, value] : expected[i].items())
      if (key == "validation_loss")  // the rounds are summed in another order
        CHECK(std::abs(seen[i][key].get<double>() - value.get<double>()) < 1e-12);
      else
        CHECK(seen[i][key] == value);
}
