#include "actors/command/shape_and_layout.hpp"

namespace troupe::command {

training_flags shape_and_layout(training_flags flags) {
  recognise_folders(flags);  // before --load is reset
  std::erase_if(flags.given, [](const std::string& setting) {
    return setting.starts_with("data.") || setting.starts_with("rate.");
  });
  flags.data = {};
  const bool own_files = flags.given.contains(flags.family->own_data());
  flags.job.data = {.mock = !own_files};
  flags.job.training.per_token_loss = false;
  if (flags.tokenizer.vocabulary_size)
    flags.tokenizer = {.type = "NullTokenizer", .vocabulary_size = flags.tokenizer.vocabulary_size};
  flags.steps.ramp.clear();
  if (!flags.steps.sizes.empty() && flags.given.insert("batch.global").second)
    flags.job.training.batch.global
        = runtime::batch_steps_from(flags.steps.sizes, 1).back().size;  // for any sequence length
  flags.steps.sizes.clear();
  if (!own_files || flags.steps.iterations || flags.steps.samples)  // otherwise epochs decide
    flags.steps.iterations = 1;
  flags.steps.samples.reset();
  flags.job.exit_interval = 0;
  flags.rate = {};
  flags.job.training.rate = {.maximum = 1};
  flags.given.insert("rate.maximum");
  flags.job.checkpoints = {.load_hub = flags.job.checkpoints.load_hub};
  flags.job.watch = megatron_watch();
  flags.matrix_rate.reset();
  flags.job.faults = {};
  flags.dry_run = true;  // needs no weights
  return flags;
}

}  // namespace troupe::command
