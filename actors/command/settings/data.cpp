#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {
namespace {

/// Scripts of Megatron-LM's pass '99,1,0' with quotes that the shell has not taken away.
std::string unquoted(const std::string& word) {
  const bool quoted = word.size() >= 2 && word.front() == word.back()
                      && (word.front() == '\'' || word.front() == '"');
  return quoted ? word.substr(1, word.size() - 2) : word;
}

constexpr const char* words_of_a_blend = "PREFIX...";
constexpr int most_words = 1 << 20;

void declare_paths(command_line& line, training_flags& to) {
  auto& d = to.data;
  line.values({.name = "--data-path",
               .field = "data.path",
               .type = words_of_a_blend,
               .help = "The data set PREFIX.bin and PREFIX.idx, as `troupe preprocess` or "
                       "Megatron-LM write it; s3://BUCKET/KEY names objects. Several are blended: "
                       "WEIGHT PREFIX WEIGHT PREFIX, or "
                       "prefixes alone, whose samples all come, once.",
               .least = 1,
               .most = most_words,
               .megatron = "a blend without weights that is too short for the run is refused at "
                           "the start",
               .resume = at_resume::told},
              all(d.path));
  line.value({.name = "--data-args-path",
              .field = "data.arguments_file",
              .type = "FILE",
              .help = "A file with the words of --data-path.",
              .megatron = "",
              .resume = at_resume::told},
             text(d.arguments_file));
  line.values(
      {.name = "--train-data-path",
       .field = "data.train_path",
       .type = words_of_a_blend,
       .help = "Data to train on, all of their documents: in place of --data-path and --split.",
       .least = 1,
       .most = most_words,
       .megatron = "",
       .resume = at_resume::told},
      all(d.train_path));
  line.values({.name = "--valid-data-path",
               .field = "data.valid_path",
               .type = words_of_a_blend,
               .help = "Data for validation, beside --train-data-path.",
               .least = 1,
               .most = most_words,
               .megatron = "",
               .resume = at_resume::free},
              all(d.valid_path));
  line.values(
      {.name = "--test-data-path",
       .field = "data.test_path",
       .type = words_of_a_blend,
       .help = "Data for testing, beside --train-data-path; they are checked, and not used yet.",
       .least = 1,
       .most = most_words,
       .megatron = "",
       .resume = at_resume::free},
      all(d.test_path));
  line.value({.name = "--per-split-data-args-path",
              .field = "data.part_arguments_file",
              .type = "FILE",
              .help = "JSON with the words of --train-data-path, --valid-data-path and "
                      "--test-data-path: {\"train\": [...], \"valid\": [...], \"test\": [...]}.",
              .megatron = "",
              .resume = at_resume::told},
             text(d.part_arguments_file));
}

}  // namespace

void declare_data(command_line& line, training_flags& to) {
  auto& d = to.data;
  line.group("Data");
  declare_paths(line, to);
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
  line.value({.name = "--object-storage-cache-path",
              .field = "data.object_cache",
              .type = "DIR",
              .help = "Keeps the indices of data sets of objects (s3://BUCKET/KEY) there; such "
                      "data need it.",
              .megatron = "of s3://; the .bin is read by ranges of 2 MiB"},
             text(d.object_cache));
  line.value({.name = "--dataloader-type",
              .field = "data.order",
              .type = "TYPE",
              .default_value = "single",
              .help = "single: samples in the order of the data set's index, which is shuffled. "
                      "cyclic: epoch after epoch, each shuffled by its number.",
              .megatron = "single or cyclic",
              .resume = at_resume::told},
             one_of(d.order, {"single", "cyclic"}));
  line.toggle({.name = "--no-data-sharding",
               .field = "data.unsharded",
               .help = "With cyclic: all replicas draw from one order of samples, not each from "
                       "its share of them.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.unsharded = true; });
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
  line.toggle({.name = "--reset-attention-mask",
               .field = "data.reset_attention_mask",
               .help = "A token does not see the documents before its own in the sample.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.reset_attention_mask = true; });
  line.toggle({.name = "--sft",
               .field = "data.sft",
               .help = "Supervised fine-tuning: the data sets are what `troupe conversations` "
                       "wrote. Conversations are packed into samples, answers alone count in the "
                       "loss, and attention and positions begin again with each conversation.",
               .megatron = "of data sets that `troupe conversations` wrote; conversations of "
                           "several lines share a sample",
               .resume = at_resume::told},
              [&d] { d.sft = true; });
  declare(line, to.tokenizer);
}

}  // namespace troupe::command::settings
