#include "actors/command/flags.hpp"

#include "actors/command/flag_table.hpp"
#include "actors/command/hub_models.hpp"
#include "actors/command/other_names.hpp"
#include "actors/command/settings/settings.hpp"
#include "runtime/family/gpt/gpt_asked.hpp"

namespace troupe::command {

void declare(command_line& line, training_flags& to) {
  line.configurable();
  line.notes(to.given);
  if (std::any_cast<runtime::gpt_asked>(&to.model) != nullptr) {
    settings::declare_shape(line, to);
    settings::declare_function(line, to);
    settings::declare_rotary(line, to);
  }
  settings::declare_data(line, to);
  settings::declare_steps(line, to);
  settings::declare_optimizer(line, to);
  settings::declare_scaling(line, to);
  settings::declare_rate(line, to);
  settings::declare_layout(line, to);
  settings::declare_stages(line, to);
  settings::declare_schedule(line, to);
  settings::declare_reduction(line, to);
  settings::declare_recompute(line, to);
  settings::declare_checkpoints(line, to);
  settings::declare_watching(line, to);
  settings::declare_recovery(line, to);
  settings::declare_device(line, to);
  settings::declare_testing(line, to);
  settings::declare_faults(line, to);
  declare_table(line, to);
  declare_other_names(line, other_names_of_training());
  line.note(
      "The last use of a flag overrides earlier ones. Flags of Megatron-LM without an effect here "
      "are accepted. Flags that ask for a missing feature are refused with the reason: `troupe "
      "train gpt --help-megatron` lists all.");
}

std::vector<setting> kept_settings(const command_line& line, const training_flags& flags) {
  auto out = line.settings();
  std::erase_if(out, [&flags](const setting& x) {
    const bool became_hub = x.flag.name == "--load" && flags.job.checkpoints.load.empty();
    return became_hub || x.flag.once || x.flag.field.starts_with("hosts.") || x.flag.injects_faults;
  });
  for (auto& x : out)
    if (x.flag.name == "--load-hf" || x.flag.name == "--tokenizer"
        || x.flag.name == "--tokenizer-model")
      for (auto& word : x.words)
        word = pinned_hub_model(word).string();
  return out;
}

runtime::training_job training_job_from(const std::vector<std::string>& words,
                                        const runtime::model_family& family) {
  training_flags flags(family);
  command_line line(fmt::format("troupe train {}", family.name()), "");
  declare(line, flags);
  line.tells_besides([&flags] { return what_is_missing(flags); });
  line.runs([] { return 0; });
  line.parse(words);
  return resolve(flags);
}

}  // namespace troupe::command
