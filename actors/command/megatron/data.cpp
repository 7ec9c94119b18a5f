#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section data_section() {
  return {
      "Data",
      {
          {works, "one prefix; its .bin and .idx as they are", "--data-path"},
          {works, "", "--mock-data --split --eod-mask-loss --reset-position-ids"},
          {works,
           "refused with --eod-mask-loss; without it every sample has as many tokens that count",
           "--calculate-per-token-loss"},
          {works,
           "without it the order of samples is computed at every start, and not kept",
           "--data-cache-path"},
          {works, "single only", "--dataloader-type"},
          {accepted,
           mapped,
           "--no-mmap-bin-files --dataloader-fast-cache-load --dataloader-defer-npy-index-mmap"},
          {accepted, "there never is such a mask", "--no-create-attention-mask-in-dataloader"},
          {accepted, "the loader serves batches on demand", "--num-workers X"},
          {accepted,
           "the order of samples is computed by one thread",
           "--num-dataset-builder-threads X"},
          {accepted, "only blends of data sets have a surplus", "--mid-level-dataset-surplus X"},
          {accepted, "no sample is padded", "--allow-ambiguous-pad-tokens"},
          {refused,
           "attention here sees the whole sample, across the ends of documents; leave it out",
           "--reset-attention-mask --dataloader-inter-document-masking"},
          {coming,
           blends,
           "--train-data-path --valid-data-path --test-data-path --data-args-path "
           "--per-split-data-args-path --per-dataset-sequences-path --phase-transition-iterations"},
          {refused,
           "data sets are files; copy them, and leave it out",
           "--object-storage-cache-path --enable-msc"},
          {accepted, "data sets are files", "--disable-msc"},
          {refused,
           "samples are read in order, not with holes to fill; leave it out",
           "--fim-data --fim-rate --fim-spm-rate --fim-split-sample --fim-fragment-rate "
           "--fim-no-prefix --fim-prefix-token --fim-middle-token --fim-suffix-token "
           "--fim-pad-token --fim-eod-token"},
      }};
}

flag_section tokenizer_section() {
  return {
      "Tokenizer",
      {
          {works, "GPT2BPETokenizer (default) and NullTokenizer", "--tokenizer-type"},
          {works, "", "--vocab-file --merge-file"},
          {works,
           "the ids are 0 to N - 1, the last one ends a document; with another tokenizer N must "
           "agree with its files",
           "--vocab-size"},
          {refused,
           "tokenizers here are GPT2BPETokenizer, by --vocab-file and --merge-file, and "
           "NullTokenizer",
           "--tokenizer-model --tokenizer-metadata --tokenizer-special-tokens "
           "--tokenizer-sentencepiece-legacy --no-tokenizer-sentencepiece-ignore-extra-whitespaces "
           "--disable-tokenizer-sentencepiece-ignore-extra-whitespaces --tokenizer-hf-no-use-fast "
           "--tokenizer-hf-no-include-special-tokens --trust-remote-code --use-gigatoken"},
          {accepted,
           "only the TikTokenizer reads it, and that is not here",
           "--tiktoken-pattern X --tiktoken-num-special-tokens X"},
          {refused,
           "the last id ends a document, and none pads; leave it out",
           "--null-tokenizer-eod-id --null-tokenizer-pad-id"},
          {refused,
           "this program trains on documents, not on conversations; leave it out",
           "--sft --sft-tokenizer-prompt-format --chat-template"},
      }};
}

}  // namespace troupe::command::megatron
