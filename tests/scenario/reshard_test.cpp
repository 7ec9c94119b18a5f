// A checkpoint loads under any other layout: the same state, bit for bit, and the same next loss.

#include "tests/support/experts_job.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>

using namespace troupe;

namespace {

enum class sharding { none, optimizer, overlapped };

struct arrangement {
  int tensor = 1, pipeline = 1, data = 1;
  bool rows = false;               ///< --sequence-parallel
  sharding over = sharding::none;  ///< the distributed optimizer
  int in_turn = 1;                 ///< replicas per worker
  bool bf16 = false;
  std::int64_t padded = 64;  ///< rows of the vocabulary
  tests::expert_ranks experts = {};
};

struct move {
  const char* what;
  bool llama, tied;
  arrangement from, to;
  void (*make)(runtime::gpt_config&) = nullptr;  ///< a model with experts
};

/// The mean of quantiles is part of the state.
void make_quantile(runtime::gpt_config& m) {
  tests::make_mixtral(m);
  m.experts.balance = {"quantile_balancing"};
  m.experts.balance_weights = {0};
  m.experts.quantile_decay = 0.5;
}

const arrangement one{};
const std::vector<move> moves
    = {{"one to all tensor ranks", false, true, one, {.tensor = 4}},
       {"tensor ranks to one", false, true, {.tensor = 4, .rows = true}, one},
       {"stages to tensor ranks", false, true, {.pipeline = 4}, {.tensor = 4, .rows = true}},
       {"tensor ranks to stages", true, false, {.tensor = 2}, {.pipeline = 4}},
       {"fewer tensor ranks, more replicas",
        true,
        true,
        {.tensor = 4, .pipeline = 2},
        {.tensor = 2, .pipeline = 2, .data = 2}},
       {"whole optimizer to a distributed one",
        false,
        true,
        {.pipeline = 2, .data = 2},
        {.pipeline = 2, .data = 2, .over = sharding::optimizer}},
       {"distributed optimizer to a whole one",
        true,
        false,
        {.data = 4, .over = sharding::overlapped},
        {.tensor = 2, .pipeline = 2}},
       {"sharded over 4 to sharded over 2",
        false,
        true,
        {.data = 4, .over = sharding::optimizer},
        {.tensor = 2, .data = 2, .over = sharding::overlapped}},
       {"sharded over 2 on tensor ranks to 4 stages",
        true,
        true,
        {.tensor = 2, .data = 2, .rows = true, .over = sharding::overlapped},
        {.pipeline = 4}},
       {"replicas in turn to replicas at once",
        false,
        true,
        {.tensor = 2, .data = 2, .in_turn = 2},
        {.pipeline = 2, .data = 2}},
       {"replicas at once to replicas in turn",
        true,
        false,
        {.data = 4, .over = sharding::optimizer},
        {.pipeline = 2, .data = 4, .over = sharding::optimizer, .in_turn = 2}},
       {"another padding of the vocabulary",
        false,
        true,
        {.tensor = 2},
        {.tensor = 4, .rows = true, .padded = 96}},
       {"bf16, one to all axes",
        false,
        true,
        {.bf16 = true},
        {.tensor = 2,
         .pipeline = 2,
         .data = 2,
         .rows = true,
         .over = sharding::overlapped,
         .bf16 = true}},
       {"bf16, all axes to one",
        true,
        false,
        {.tensor = 2,
         .pipeline = 2,
         .data = 2,
         .rows = true,
         .over = sharding::overlapped,
         .bf16 = true},
        {.bf16 = true}},
       {"bf16, sharded masters to whole ones",
        false,
        true,
        {.data = 2, .over = sharding::optimizer, .bf16 = true},
        {.tensor = 4, .bf16 = true}},
       {"f32 to bf16", true, true, {.tensor = 2}, {.pipeline = 2, .bf16 = true}},
       {"bf16 to f32", false, false, {.pipeline = 2, .bf16 = true}, {.tensor = 2}},
       {"all axes to all others",
        false,
        true,
        {.tensor = 2, .pipeline = 2, .data = 2, .rows = true, .over = sharding::overlapped},
        {.tensor = 4, .pipeline = 1, .data = 2, .over = sharding::optimizer}},
       {"experts on one rank to four expert ranks",
        true,
        true,
        one,
        {.data = 4, .over = sharding::optimizer, .experts = {.expert = 4}},
        tests::make_deepseek},
       {"expert ranks of replicas to expert tensor ranks and stages",
        true,
        true,
        {.data = 4, .over = sharding::overlapped, .experts = {.expert = 4}},
        {.tensor = 2, .pipeline = 2, .data = 2, .rows = true, .experts = {.tensor = 2}},
        tests::make_deepseek},
       {"both axes of experts to all others",
        true,
        false,
        {.tensor = 2,
         .data = 2,
         .rows = true,
         .over = sharding::optimizer,
         .experts = {.expert = 2, .tensor = 2}},
        {.pipeline = 2,
         .data = 4,
         .over = sharding::overlapped,
         .in_turn = 2,
         .experts = {.expert = 2}},
        tests::make_mixtral},
       {"quantiles of experts, all axes to one rank",
        true,
        true,
        {.tensor = 2, .pipeline = 2, .data = 2, .rows = true, .experts = {.expert = 4}},
        one,
        make_quantile},
       {"bf16, expert ranks to expert tensor ranks",
        true,
        true,
        {.data = 2, .over = sharding::optimizer, .bf16 = true, .experts = {.expert = 2}},
        {.data = 2, .bf16 = true, .experts = {.tensor = 2}},
        tests::make_deepseek}};

runtime::training_job job_of(const move& x, const arrangement& arrangement) {
  auto job = tests::tiny_job(arrangement.pipeline, arrangement.data, arrangement.tensor);
  if (x.llama)
    tests::make_llama(job.training.model.as<runtime::gpt_config>());
  if (x.make != nullptr) {
    x.make(job.training.model.as<runtime::gpt_config>());
    tests::share_experts(job, arrangement.experts);
  }
  job.training.model.as<runtime::gpt_config>().tied_embeddings = x.tied;
  job.training.model.as<runtime::gpt_config>().padded_vocabulary = arrangement.padded;
  job.training.precision = arrangement.bf16 ? runtime::dtype::bf16 : runtime::dtype::f32;
  job.layout.sequence_parallel = arrangement.rows;
  tests::play_in_turn(job, arrangement.in_turn);
  job.reduction = {.distributed_optimizer = arrangement.over != sharding::none,
                   .bucket_size = 4096,
                   .overlap_gradients = arrangement.over == sharding::overlapped,
                   .overlap_parameters = arrangement.over == sharding::overlapped,
                   .grain = 256};
  job.train_iterations = 4;
  return job;
}

double loss_of_step_4(const std::filesystem::path& log) {
  return tests::steps_in(log).at(4)["lm_loss"].get<double>();
}

}  // namespace

TEST_CASE("a checkpoint of any layout loads under any other", "[scenario]") {
  const auto at = GENERATE(range(std::size_t{0}, moves.size()));
  const auto& x = moves[at];
  CAPTURE(x.what);
  const tests::scratch_folder there, here;

  auto first = job_of(x, x.from);
  first.checkpoints.save = there / "checkpoints";
  first.checkpoints.save_interval = 3;
  first.watch.log_file = there / "log.jsonl";
  const auto saved = actors::run(tests::tiny_prepared(first));
  CHECK(saved.reason == "");
  REQUIRE(saved.exit_code == 0);
  const auto checkpoint = there / "checkpoints/iter_0000003";

  auto second = job_of(x, x.to);
  second.watch.log_file = here / "log.jsonl";
  tests::gathered_state loaded;
  const auto end = actors::run(tests::going_on(second, checkpoint, &loaded));
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);
  CHECK(loaded.is_whole());
  CHECK(loaded.difference_to(runtime::checkpoint_reader(checkpoint)) == "");

  // f32: sums of products in another order. bf16: every activation is rounded to 2^-8.
  const double allowed = x.from.bf16 || x.to.bf16 ? 1e-2 : 1e-6;
  const auto expected = loss_of_step_4(there / "log.jsonl");
  const auto seen = loss_of_step_4(here / "log.jsonl");
  CAPTURE(expected, seen);
  CHECK(std::abs(seen - expected) <= allowed * expected);
}
