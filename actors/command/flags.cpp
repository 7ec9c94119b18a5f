#include "actors/command/flags.hpp"

#include "actors/command/flag_table.hpp"
#include "actors/command/hub_models.hpp"
#include "actors/command/other_names.hpp"
#include "actors/command/setting_flags.hpp"
#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/family/model_family.hpp"

#include <map>

namespace troupe::command {

void declare(command_line& line, training_flags& to) {
  line.configurable();
  line.notes(to.given);
  declare_settings(line, to);
  declare_other_names(line, other_names_of_training());
  declare_table(line, to);
  line.note(fmt::format(
      "The last use of a flag overrides earlier ones. Flags of Megatron-LM without an effect here "
      "are accepted. Flags that ask for a missing feature are refused with the reason: `troupe "
      "train "
      "{} --help-megatron` lists all.",
      to.family->name()));
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
        word = pinned_hub_model(runtime::gguf_behind(word)).string();
  return out;
}

needed_flags needed_by(const runtime::model_family& family, const command_line& line) {
  std::map<std::string, std::string> flags;  // by setting
  for (const auto& group : line.describe().groups)
    for (const auto& flag : group.flags)
      flags.emplace(flag.field, flag.name);
  needed_flags out;
  const auto all = family.required();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& flag = flags.at(all[i].name);
    out.names += (i == 0 ? "" : i + 1 < all.size() ? ", " : " and ") + flag;
    out.example += flag + " " + all[i].example + " ";
  }
  if (!all.empty())
    out.names += family.hub() == nullptr ? "; " : ", or --load-hf DIR; ";
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
