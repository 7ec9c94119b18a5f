// Flags of settings that model families have in common, for their rows (core/setting.hpp). Words
// and defaults that differ between families are arguments.

#pragma once

#include "runtime/core/setting_flag.hpp"

namespace troupe::runtime::common_flags {

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

constexpr setting_flag positions() {
  return setting_flag({.name = "--max-position-embeddings",
                       .unit = "positions",
                       .default_value = "--seq-length",
                       .help = "Rows of the learned position table.",
                       .megatron = "optional: the default is --seq-length",
                       .range = whole_range{1},
                       .only_given = true});
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

constexpr setting_flag init_std() {
  return setting_flag({.name = "--init-method-std",
                       .help = "Standard deviation of initial weights; weights that add to the "
                               "residual stream get X / sqrt(2 layers).",
                       .megatron = "same distribution, other numbers: they depend on (seed, name, "
                                   "element), not on the layout",
                       .range = real_range{0},
                       .resume = at_resume::told});
}

}  // namespace troupe::runtime::common_flags
