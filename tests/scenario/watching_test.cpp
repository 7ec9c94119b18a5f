// Reports of a step are the same for every layout, and do not delay the step.

#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <sys/stat.h>

using namespace troupe;

namespace {

struct measures {
  std::vector<double> params_norm;
  std::vector<std::int64_t> zeros;
};

measures measured(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.train_iterations = 3;
  job.watch.log_params_norm = job.watch.log_zero_gradients = true;
  job.watch.log_file = folder / "log.jsonl";
  REQUIRE(actors::run(tests::tiny_prepared(job)).reason == "");
  measures out;
  for (const auto& [iteration, x] : tests::steps_in(folder / "log.jsonl")) {
    out.params_norm.push_back(x["params_norm"]);
    out.zeros.push_back(x["num_zeros"]);
  }
  REQUIRE(out.zeros.size() == 3);
  return out;
}

/// Computed from the arrays of a checkpoint: whole parameters, each once and without padding.
measures by_hand(runtime::training_job job) {
  runtime::stream stream(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
  measures out;
  for (int i = 0; i < 3; ++i) {
    trainer.step();
    long double sum = 0;
    for (const auto& x : trainer.state().parameters())
      for (const float e : x.elements)
        sum += static_cast<long double>(e) * static_cast<long double>(e);
    out.params_norm.push_back(double(std::sqrt(sum)));
    runtime::by_view<std::int64_t> zeros;
    runtime::reads wanted(stream);
    trainer.state().zero_gradients(wanted, zeros);
    wanted.finish();
    out.zeros.push_back(zeros.dense);
  }
  return out;
}

}  // namespace

TEST_CASE("the norm of parameters and the zeros of gradients are the same in any layout",
          "[scenario]") {
  const bool tied = GENERATE(true, false);
  CAPTURE(tied);
  const auto model_of = [tied](runtime::training_job& job) {
    job.training.model.as<runtime::gpt_config>().tied_embeddings = tied;
    job.training.model.as<runtime::gpt_config>().linear_bias
        = false;  // biases of keys have zero gradients up to rounding
  };
  const auto with = [&](int P, int D, int N, bool distributed) {
    auto job = tests::tiny_job(P, D, N);
    model_of(job);
    job.layout.sequence_parallel = N > 1;
    job.reduction.distributed_optimizer = distributed;
    job.reduction.grain = 256;
    return measured(job);
  };
  auto alone = tests::tiny_job(1, 2);
  model_of(alone);
  const auto expected = by_hand(alone);
  CHECK((tied || expected.zeros.front() > 0));  // rows of tokens that no sample has
  for (const auto& [P, D, N, distributed] : {std::tuple{2, 2, 1, false},
                                             std::tuple{2, 2, 1, true},
                                             std::tuple{1, 2, 1, true},
                                             std::tuple{4, 2, 1, false},
                                             std::tuple{1, 2, 2, false},
                                             std::tuple{2, 2, 2, true}}) {
    CAPTURE(P, D, N, distributed);
    const auto seen = with(P, D, N, distributed);
    CHECK(seen.zeros == expected.zeros);
    for (std::size_t i = 0; i < 3; ++i)
      // Sums of squares in double; with tensor ranks the states differ by roundings of f32.
      CHECK(std::abs(seen.params_norm[i] / expected.params_norm[i] - 1) < (N > 1 ? 1e-6 : 1e-13));
    if (N == 1)
      CHECK(seen.params_norm == with(1, 2, 1, false).params_norm);  // bit for bit
  }
}

TEST_CASE("a blocked log file delays no step, and the end by a few seconds only", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 1);
  job.watch.log_file = folder / "pipe";  // opening it blocks: there is no reader
  job.watch.csv_file = folder / "log.csv";
  REQUIRE(::mkfifo(job.watch.log_file.c_str(), 0600) == 0);
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 0);
  CHECK(end.reason == "");
  std::ifstream table(job.watch.csv_file);  // another thread writes it
  int lines = 0;
  for (std::string line; std::getline(table, line);)
    ++lines;
  CHECK(lines == 13);
}
