#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {
namespace {

/// Megatron-LM's scripts pass '99,1,0' with quotes that the shell does not remove.
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
               .help = "Data set PREFIX.bin and PREFIX.idx, as written by `troupe preprocess` or "
                       "Megatron-LM; s3://BUCKET/KEY names objects. Several are blended: WEIGHT "
                       "PREFIX WEIGHT PREFIX, or only prefixes; then every sample is read once.",
               .least = 1,
               .most = most_words,
               .megatron = "a blend without weights that is too short for the run is refused at "
                           "the start",
               .resume = at_resume::told},
              all(d.path));
  line.value({.name = "--data-args-path",
              .field = "data.arguments_file",
              .type = "FILE",
              .help = "File that contains the words of --data-path.",
              .megatron = "",
              .resume = at_resume::told},
             text(d.arguments_file));
  line.values(
      {.name = "--train-data-path",
       .field = "data.train_path",
       .type = words_of_a_blend,
       .help = "Training data sets, with all their documents; replaces --data-path and --split.",
       .least = 1,
       .most = most_words,
       .megatron = "",
       .resume = at_resume::told},
      all(d.train_path));
  line.values({.name = "--valid-data-path",
               .field = "data.valid_path",
               .type = words_of_a_blend,
               .help = "Validation data sets, with --train-data-path.",
               .least = 1,
               .most = most_words,
               .megatron = "",
               .resume = at_resume::free},
              all(d.valid_path));
  line.values({.name = "--test-data-path",
               .field = "data.test_path",
               .type = words_of_a_blend,
               .help = "Data sets for the test loss at the end of the run, with --train-data-path.",
               .least = 1,
               .most = most_words,
               .megatron = "",
               .resume = at_resume::free},
              all(d.test_path));
  line.value({.name = "--per-split-data-args-path",
              .field = "data.part_arguments_file",
              .type = "FILE",
              .help = "JSON file with the words of --train-data-path, --valid-data-path and "
                      "--test-data-path: {\"train\": [...], \"valid\": [...], \"test\": [...]}.",
              .megatron = "",
              .resume = at_resume::told},
             text(d.part_arguments_file));
}

void declare_fim(command_line& line, runtime::fim_settings& f) {
  line.toggle(
      {.name = "--fim-data",
       .field = "data.fim.enabled",
       .help = "Fill in the middle (FIM): cuts documents of a sample into three parts, between "
               "characters, and moves the middle to the end.",
       .megatron
       = "random choices depend only on the seed and the sample's number, not on earlier samples",
       .resume = at_resume::told},
      [&f] { f.enabled = true; });
  line.value({.name = "--fim-rate",
              .field = "data.fim.rate",
              .type = "P",
              .default_value = "0.5",
              .help = "Fraction of the documents that are cut.",
              .megatron = "",
              .resume = at_resume::told},
             real(f.rate, 0, 1));
  line.value({.name = "--fim-spm-rate",
              .field = "data.fim.spm_rate",
              .type = "P",
              .default_value = "0.5",
              .help = "Fraction of the cut documents that become suffix, prefix, middle; the "
                      "others become prefix, suffix, middle.",
              .megatron = "",
              .resume = at_resume::told},
             real(f.spm_rate, 0, 1));
  line.value(
      {.name = "--fim-split-sample",
       .field = "data.fim.split_sample",
       .type = "TOKEN",
       .help = "Token that ends a fragment of a document; each fragment is then cut separately.",
       .megatron = "",
       .resume = at_resume::told},
      text(f.split_sample));
  line.value({.name = "--fim-fragment-rate",
              .field = "data.fim.fragment_rate",
              .type = "P",
              .default_value = "0.5",
              .help = "With --fim-split-sample: fraction of the fragments that are cut, in "
                      "documents chosen by --fim-rate.",
              .megatron = "default 0.5",
              .resume = at_resume::told},
             real(f.fragment_rate, 0, 1));
  line.value({.name = "--fim-no-prefix",
              .field = "data.fim.no_prefix",
              .type = "TEXT",
              .help = "Documents or fragments that begin with this text are not cut.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.no_prefix));
  line.value({.name = "--fim-prefix-token",
              .field = "data.fim.prefix_token",
              .type = "TOKEN",
              .default_value = "<fim-prefix>",
              .help = "Token before the prefix.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.prefix_token));
  line.value({.name = "--fim-middle-token",
              .field = "data.fim.middle_token",
              .type = "TOKEN",
              .default_value = "<fim-middle>",
              .help = "Token before the middle.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.middle_token));
  line.value({.name = "--fim-suffix-token",
              .field = "data.fim.suffix_token",
              .type = "TOKEN",
              .default_value = "<fim-suffix>",
              .help = "Token before the suffix.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.suffix_token));
  line.value({.name = "--fim-pad-token",
              .field = "data.fim.pad_token",
              .type = "TOKEN",
              .default_value = "<fim-pad>",
              .help = "Token that fills up a sample; does not count in the loss.",
              .megatron = "padding never counts in the loss",
              .resume = at_resume::told},
             text(f.pad_token));
  line.value({.name = "--fim-eod-token",
              .field = "data.fim.eod_token",
              .type = "TOKEN",
              .default_value = "<|endoftext|>",
              .help = "Token that ends a document in the data.",
              .megatron = "",
              .resume = at_resume::told},
             text(f.eod_token));
}

}  // namespace

void declare_data(command_line& line, training_flags& to) {
  auto& d = to.job.data;
  auto& asked = to.data;
  line.group("Data");
  declare_paths(line, to);
  line.toggle({.name = "--mock-data",
               .field = "data.mock",
               .help = "Synthetic tokens; needs no files.",
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
  line.value({.name = "--data-cache-path",
              .field = "data.cache",
              .type = "DIR",
              .help = "Folder that keeps the sample order, so that it is computed once.",
              .megatron = "without it the sample order is computed at every start"},
             text(asked.cache));
  line.value({.name = "--object-storage-cache-path",
              .field = "data.object_cache",
              .type = "DIR",
              .help = "Folder that keeps the indices of data sets in object storage "
                      "(s3://BUCKET/KEY); required for such data.",
              .megatron = "for s3://; the .bin is read in ranges of 2 MiB, ahead of the samples"},
             text(asked.object_cache));
  line.value({.name = "--dataloader-type",
              .field = "data.order",
              .type = "TYPE",
              .default_value = "single",
              .help = "Order of samples. single: that of the data set's shuffled index. cyclic: "
                      "epoch after epoch, each with its own shuffle.",
              .megatron = "single or cyclic",
              .resume = at_resume::told},
             one_of(asked.order, {"single", "cyclic"}));
  line.toggle({.name = "--no-data-sharding",
               .field = "data.unsharded",
               .help = "With --dataloader-type cyclic: all replicas draw from one order of "
                       "samples; without it, each draws from its own share.",
               .megatron = "",
               .resume = at_resume::told},
              [&asked] { asked.unsharded = true; });
  line.toggle({.name = "--eod-mask-loss",
               .field = "data.eod_mask_loss",
               .help = "Excludes the token after the end of a document from the loss.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.eod_mask_loss = true; });
  line.toggle(
      {.name = "--calculate-per-token-loss",
       .field = "per_token_loss",
       .help
       = "Gives every counted token of a step the same weight. Without it, the loss is first "
         "averaged per micro-batch, so a micro-batch with few counted tokens weighs as much as one "
         "with many. Matters if samples are masked (--sft, --fim-data, --eod-mask-loss).",
       .megatron = "",
       .resume = at_resume::told},
      [&to] { to.job.training.per_token_loss = true; });
  line.toggle({.name = "--reset-position-ids",
               .field = "data.reset_position_ids",
               .help = "Restarts learned positions after the end of a document; rotary positions "
                       "continue through the sample.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.reset_position_ids = true; });
  line.toggle({.name = "--reset-attention-mask",
               .field = "data.reset_attention_mask",
               .help = "Restricts attention to the token's own document; earlier documents of the "
                       "sample are masked.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.reset_attention_mask = true; });
  line.toggle({.name = "--sft",
               .field = "data.sft",
               .help = "Supervised fine-tuning on data sets written by `troupe conversations`. "
                       "Packs conversations into samples. Only answers count in the loss; "
                       "attention and positions restart with each conversation.",
               .megatron = "on data sets written by `troupe conversations`; conversations of "
                           "several lines share a sample",
               .resume = at_resume::told},
              [&d] { d.sft = true; });
  declare_fim(line, d.fim);
  declare(line, to.tokenizer);
}

}  // namespace troupe::command::settings
