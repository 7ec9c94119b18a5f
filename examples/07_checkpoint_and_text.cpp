// Trains, then generates text: four workers train and save a checkpoint; one model loaded from it
// continues to count. Each layout can load the checkpoints of all other layouts.

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
  job.training = story::small_recipe();
  job.training.batch.data_parallel = 2;
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

  loaded_model model({.from = folder / "run"});  // verifies all hashes and extents
  fmt::print(
      "iteration {}, {} parameters\n", model.manifest().iteration, parameter_count(model.config()));

  std::vector<generation_request> prompts;  // generated as one batch, token by token
  for (const auto* text : {"1 2 3", "5"})
    prompts.push_back({.prompt = model.text().encode(text),
                       .tokens = 4,
                       .end_of_document = model.text().end_of_document(),
                       .sampling = greedy()});
  std::vector<std::vector<std::int32_t>> said(prompts.size());
  const auto ends = generate(model.whole(),
                             model.store(),
                             model.stream(),
                             prompts,
                             [&](std::size_t which, std::int32_t id) {
                               said[which].push_back(id);
                               return true;  // false ends this text
                             });
  for (std::size_t i = 0; i < prompts.size(); ++i)
    fmt::print("{} -> {}{}\n",
               model.text().decode(prompts[i].prompt),
               model.text().decode(said[i]),
               ends[i] == generation_end::end_of_document ? ", and the document ends" : "");
}

// Expected output:
//   trained, exit code 0
//   iteration 200, 21280 parameters
//   1 2 3 -> 4 5 6 7
//   5 -> 6 7 8, and the document ends
