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
  line.values({.name = "--test-data-path",
               .field = "data.test_path",
               .type = words_of_a_blend,
               .help = "Data for the test loss at the end of the run, beside --train-data-path.",
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

void declare_fim(command_line& line, runtime::fim_settings& f) {
  line.toggle({.name = "--fim-data",
               .field = "data.fim.enabled",
               .help = "Fill in the middle (FIM): documents of a sample are cut in three between "
                       "characters, and the middle comes last.",
               .megatron = "what is drawn depends on the seed and the number of the sample, not on "
                           "those that were read before",
               .resume = at_resume::told},
              [&f] { f.enabled = true; });
  line.value({.name = "--fim-rate",
              .field = "data.fim.rate",
              .type = "P",
              .default_value = "0.5",
              .help = "How many of the documents are cut.",
              .megatron = "",
              .resume = at_resume::told},
             real(f.rate, 0, 1));
  line.value(
      {.name = "--fim-spm-rate",
       .field = "data.fim.spm_rate",
       .type = "P",
       .default_value = "0.5",
       .help = "How many of these are suffix, prefix, middle, and not prefix, suffix, middle.",
       .megatron = "",
       .resume = at_resume::told},
      real(f.spm_rate, 0, 1));
  line.value({.name = "--fim-split-sample",
              .field = "data.fim.split_sample",
              .type = "TOKEN",
              .help = "Ends a fragment of a document; each fragment is then cut by itself.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.split_sample));
  line.value(
      {.name = "--fim-fragment-rate",
       .field = "data.fim.fragment_rate",
       .type = "P",
       .default_value = "0.5",
       .help
       = "With --fim-split-sample: how many fragments of a document that --fim-rate chose are cut.",
       .megatron = "0.5 if none is given",
       .resume = at_resume::told},
      real(f.fragment_rate, 0, 1));
  line.value({.name = "--fim-no-prefix",
              .field = "data.fim.no_prefix",
              .type = "TEXT",
              .help = "What begins so is not cut.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.no_prefix));
  line.value({.name = "--fim-prefix-token",
              .field = "data.fim.prefix_token",
              .type = "TOKEN",
              .default_value = "<fim-prefix>",
              .help = "Stands before the prefix.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.prefix_token));
  line.value({.name = "--fim-middle-token",
              .field = "data.fim.middle_token",
              .type = "TOKEN",
              .default_value = "<fim-middle>",
              .help = "Stands before the middle.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.middle_token));
  line.value({.name = "--fim-suffix-token",
              .field = "data.fim.suffix_token",
              .type = "TOKEN",
              .default_value = "<fim-suffix>",
              .help = "Stands before the suffix.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.suffix_token));
  line.value({.name = "--fim-pad-token",
              .field = "data.fim.pad_token",
              .type = "TOKEN",
              .default_value = "<fim-pad>",
              .help = "Fills up a sample; it does not count in the loss.",
              .megatron = "what it fills never counts in the loss",
              .resume = at_resume::told},
             text(f.pad_token));
  line.value({.name = "--fim-eod-token",
              .field = "data.fim.eod_token",
              .type = "TOKEN",
              .default_value = "<|endoftext|>",
              .help = "Ends a document in the data.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.eod_token));
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
              .megatron = "of s3://; the .bin is read by ranges of 2 MiB, ahead of the samples"},
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
  line.toggle(
      {.name = "--calculate-per-token-loss",
       .field = "per_token_loss",
       .help = "Every token of a step that counts weighs the same. Without it the mean over "
               "those of a micro-batch is taken first, so that one with few weighs as much "
               "as one with many; it matters where samples are masked (--sft, --fim-data, "
               "--eod-mask-loss).",
       .megatron = "",
       .resume = at_resume::told},
      [&d] { d.per_token_loss = true; });
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
  declare_fim(line, d.fim);
  declare(line, to.tokenizer);
}

}  // namespace troupe::command::settings
