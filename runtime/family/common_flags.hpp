// Flags of settings that model families have in common, for their rows (core/setting.hpp). Words
// and defaults that differ between families are arguments.

#pragma once

#include "runtime/core/setting_flag.hpp"

namespace troupe::runtime::common_flags {

/// A setting that all models of a family have with one value. Scripts of Megatron-LM may give it.
constexpr setting_flag only(const char* name, const char* value, const char* help) {
  return setting_flag({.name = name,
                       .type = "TYPE",
                       .default_value = value,
                       .help = help,
                       .megatron = "the one value that its models have",
                       .choices = value,
                       .only_given = true,
                       .resume = at_resume::free});
}
/// A flag like that, for a size that follows from others.
constexpr setting_flag same_size(const char* name,
                                 const char* unit,
                                 const char* size,
                                 const char* help) {
  return setting_flag({.name = name,
                       .unit = unit,
                       .default_value = size,
                       .help = help,
                       .megatron = "the one value that its models have",
                       .range = whole_range{1},
                       .only_given = true,
                       .resume = at_resume::free});
}

constexpr setting_flag layers(const char* name, const char* help, const char* otherwise = "") {
  return setting_flag({.name = name,
                       .unit = "layers",
                       .default_value = otherwise,
                       .help = help,
                       .range = whole_range{1, 10000},
                       .only_given = true});
}

/// A length of a sample.
constexpr setting_flag tokens(const char* name, const char* help, std::int64_t least = 1) {
  return setting_flag({.name = name,
                       .unit = "tokens",
                       .help = help,
                       .range = whole_range{least},
                       .only_given = true});
}

constexpr setting_flag hidden(const char* help) {
  return setting_flag({.name = "--hidden-size",
                       .unit = "channels",
                       .help = help,
                       .range = whole_range{1},
                       .only_given = true});
}

constexpr setting_flag heads(const char* help) {
  return setting_flag({.name = "--num-attention-heads",
                       .unit = "heads",
                       .help = help,
                       .range = whole_range{1},
                       .only_given = true});
}

constexpr setting_flag head_size() {
  return setting_flag({.name = "--kv-channels",
                       .unit = "channels",
                       .default_value = "C / H",
                       .help = "Size of a head (D).",
                       .range = whole_range{1},
                       .only_given = true});
}

constexpr setting_flag ffn(const char* otherwise) {
  return setting_flag({.name = "--ffn-hidden-size",
                       .unit = "channels",
                       .default_value = otherwise,
                       .help = "Width of the feed-forward layer.",
                       .range = whole_range{1},
                       .only_given = true});
}

constexpr setting_flag positions(const char* otherwise, const char* help, const char* megatron) {
  return setting_flag({.name = "--max-position-embeddings",
                       .unit = "positions",
                       .default_value = otherwise,
                       .help = help,
                       .megatron = megatron,
                       .range = whole_range{1},
                       .only_given = true});
}
constexpr setting_flag positions() {
  return setting_flag(positions("--seq-length",
                                "Rows of the learned position table.",
                                "optional: the default is --seq-length"));
}

constexpr setting_flag relative_buckets() {
  return setting_flag({.name = "--relative-attention-num-buckets",
                       .unit = "buckets",
                       .help = "Buckets of distances, with relative positions.",
                       .range = whole_range{2, 65536},
                       .only_given = true});
}
constexpr setting_flag relative_distance() {
  return setting_flag(tokens("--relative-attention-max-distance",
                             "Distances from here on share a bucket, with relative positions."));
}

constexpr setting_flag extra_ids() {
  return setting_flag({.name = "--vocab-extra-ids",
                       .unit = "ids",
                       .help = "Sentinels behind the ids of a tokenizer that has none of its own.",
                       .megatron = "0 for a tokenizer with sentinels of its own",
                       .range = whole_range{0, 10000},
                       .only_given = true});
}

constexpr setting_flag decoder_start() {
  return setting_flag({.name = "--decoder-start-token-id",
                       .default_value = "that of [BOS], <s>, <pad> or [CLS]: the first of them "
                                        "that the tokenizer has",
                       .help = "Id that begins the decoder's texts, unless they are made up.",
                       .only_given = true,
                       .resume = at_resume::told});
}

constexpr setting_flag norm_epsilon(const char* otherwise) {
  return setting_flag({.name = "--norm-epsilon",
                       .default_value = otherwise,
                       .help = "Added to the variance in norms.",
                       .range = real_range{.least = 0, .above = true},
                       .only_given = true});
}

constexpr setting_flag untied_embeddings() {
  return setting_flag({.name = "--untie-embeddings-and-output-weights",
                       .help = "Gives the output layer its own weights; without it, it shares "
                               "those of the embedding.",
                       .value = "false"});
}

constexpr setting_flag disable_bias(const char* help, const char* megatron = "") {
  return setting_flag(
      {.name = "--disable-bias-linear", .help = help, .megatron = megatron, .value = "false"});
}

/// Toggles of an activation; `gives` is that of an enumeration.
constexpr setting_flag swiglu(const char* help, std::int64_t gives = 1) {
  return setting_flag({.name = "--swiglu", .help = help, .value = "swiglu", .gives = gives});
}
constexpr setting_flag squared_relu(const char* help, std::int64_t gives = 1) {
  return setting_flag(
      {.name = "--squared-relu", .help = help, .value = "squared_relu", .gives = gives});
}
constexpr setting_flag exact_gelu(std::int64_t gives = 1,
                                  const char* help
                                  = "Exact GELU (erf). Without it, the tanh formula of "
                                    "Megatron-LM's fused kernel.") {
  return setting_flag(
      {.name = "--no-bias-gelu-fusion",
       .help = help,
       .megatron = "exact GELU (erf) instead of the tanh formula of the fused kernel",
       .value = "gelu_erf",
       .gives = gives});
}

constexpr setting_flag normalization(const char* otherwise, bool only_given = false) {
  return setting_flag({.name = "--normalization",
                       .type = "TYPE",
                       .default_value = otherwise,
                       .help = "Kind of norm: LayerNorm or RMSNorm.",
                       .choices = "LayerNorm RMSNorm",
                       .only_given = only_given});
}

constexpr setting_flag dropout(const char* name, const char* help) {
  return setting_flag({.name = name,
                       .type = "P",
                       .default_value = "0.1, with --load-hf 0",
                       .help = help,
                       .megatron = "other numbers for the same seed: see --seed",
                       .range = real_range{.least = 0, .most = 1, .below = true},
                       .only_given = true,
                       .resume = at_resume::told});
}

constexpr setting_flag hidden_dropout(const char* help = "Dropout of the residual stream.") {
  return setting_flag(dropout("--hidden-dropout", help));
}
constexpr setting_flag attention_dropout() {
  return setting_flag(dropout("--attention-dropout", "Dropout of attention probabilities."));
}

constexpr setting_flag init_std(const char* help
                                = "Standard deviation of initial weights; weights that add to the "
                                  "residual stream get X / sqrt(2 layers).",
                                bool only_given = false) {
  return setting_flag({.name = "--init-method-std",
                       .help = help,
                       .megatron = "same distribution, other numbers: they depend on (seed, name, "
                                   "element), not on the layout",
                       .range = real_range{0},
                       .only_given = only_given,
                       .resume = at_resume::told});
}

}  // namespace troupe::runtime::common_flags
