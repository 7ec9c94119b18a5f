// From a job to text: four workers train and save; their checkpoint is loaded as one model, which
// goes on counting. Any layout loads what any other saved.

#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/log.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/inference/loaded_model.hpp"
#include "runtime/tokenizer/description.hpp"
#include "scratch.hpp"
#include "small.hpp"

#include <fmt/format.h>

using namespace troupe::runtime;
namespace actors = troupe::actors;

int main() {
  const story::scratch folder("text");
  const tokenizer_choice numbers{.type = "NullTokenizer", .vocabulary_size = 10};

  training_job job;
  job.how = story::small_recipe();
  job.how.batch.data_parallel = 2;
  job.data.mock = true;
  job.data.end_of_document = 9;
  job.tokenizer_description = describe(numbers, *make_tokenizer(numbers));  // kept in checkpoints
  job.layout = {.world = 4, .pipeline = 2};
  job.checkpoints.save = folder / "run";
  job.train_iterations = 200;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  set_log_level(severity::warning);
  const auto end = actors::run(actors::prepare(job));
  fmt::print("trained, exit code {}{}\n", end.exit_code, end.reason);

  loaded_model model({.from = folder / "run"});  // verified: every hash, every extent
  fmt::print(
      "iteration {}, {} parameters\n", model.manifest().iteration, parameter_count(model.config()));

  generation_request what{.prompt = model.text().encode("1 2 3"), .tokens = 9, .how = greedy()};
  what.end_of_document = model.text().end_of_document();
  std::vector<std::int32_t> said;
  generate(
      model.whole(), model.store(), model.on(), what, [&](std::int32_t id) { said.push_back(id); });
  // 9 ends a document: it stops there, although more was asked for.
  fmt::print("1 2 3 -> {}\n", model.text().decode(said));
}

// Expected output:
//   trained, exit code 0
//   iteration 200, 21280 parameters
//   1 2 3 -> 4 5 6 7 8
