#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {
namespace {

/// Scripts of Megatron-LM's pass '99,1,0' with quotes that the shell has not taken away.
std::string unquoted(const std::string& word) {
  const bool quoted = word.size() >= 2 && word.front() == word.back()
                      && (word.front() == '\'' || word.front() == '"');
  return quoted ? word.substr(1, word.size() - 2) : word;
}

}  // namespace

void declare_data(command_line& line, training_flags& to) {
  auto& d = to.data;
  line.group("Data");
  line.values(
      {.name = "--data-path",
       .field = "data.path",
       .type = "PREFIX",
       .help
       = "The data set PREFIX.bin and PREFIX.idx, as `troupe preprocess` or Megatron-LM write it.",
       .least = 1,
       .most = 1 << 20,
       .megatron = "one prefix; its .bin and .idx as they are",
       .resume = at_resume::told},
      all(d.path));
  line.toggle({.name = "--mock-data",
               .field = "data.mock",
               .help = "Synthetic tokens: no files are needed.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.mock = true; });
  line.value({.name = "--split",
              .field = "data.split",
              .type = "A,B,C",
              .default_value = "969,30,1",
              .help = "Shares of training, validation and test documents.",
              .megatron = "",
              .resume = at_resume::told},
             [&d](const std::string&, const std::string& word) { d.split = unquoted(word); });
  line.value(
      {.name = "--data-cache-path",
       .field = "data.cache",
       .type = "DIR",
       .help = "Keeps the order of samples there, so that it is computed once.",
       .megatron = "without it the order of samples is computed at every start, and not kept"},
      text(d.cache));
  line.toggle({.name = "--eod-mask-loss",
               .field = "data.eod_mask_loss",
               .help = "The token after the end of a document does not count in the loss.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.eod_mask_loss = true; });
  line.toggle({.name = "--reset-position-ids",
               .field = "data.reset_position_ids",
               .help = "Learned positions start again after the end of a document; rotary ones are "
                       "those of the sample.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.reset_position_ids = true; });
  declare(line, to.tokenizer);
}

}  // namespace troupe::command::settings
