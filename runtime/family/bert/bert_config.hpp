// The settings of a BERT: everything that determines its parameters and its function. They are also
// the settings as a command line writes them (bert_family.cpp).

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/data/masking.hpp"
#include "runtime/data/task_settings.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::runtime {

class model_family;

struct bert_config {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;             ///< C
  std::int64_t heads = 0;              ///< H
  std::int64_t ffn = 0;                ///< hidden size of the feed-forward layer
  std::int64_t sequence = 0;           ///< T: tokens of a text, or of two
  std::int64_t positions = 0;          ///< rows of the learned position table
  std::int64_t types = 2;              ///< rows of the table of token types; 0: none
  std::int64_t vocabulary = 0;         ///< real tokens
  std::int64_t padded_vocabulary = 0;  ///< V
  /// Norms follow the sums, and one follows the embedding, as in the original. False: norms precede
  /// attention and feed-forward layers, and one follows the last layer, as in Megatron-LM.
  bool post_norm = false;
  bool binary_head = true;  ///< tells if the second sentence precedes the first
  kernels::activation activation = kernels::activation::gelu_tanh;
  kernels::activation head_activation = kernels::activation::gelu_erf;  ///< of the head of tokens
  double norm_epsilon = 1e-5;
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  double init_std = 0.02;

  masking_settings masking = {};  ///< of samples of files
  task_settings task = {};        ///< replaces the heads of pre-training

  friend bool operator==(const bert_config&, const bert_config&) = default;

  std::int64_t head_size() const { return heads > 0 ? hidden / heads : 0; }
  /// Rows of a sample: each choice of a task has T of them.
  std::int64_t rows() const { return task.choices() * sequence; }

  static constexpr auto changed_at_resume = at_resume::refused;
  /// In the order of the JSON.
  static constexpr auto fields() {
    using x = bert_config;
    return std::tuple(
        row("layers", &x::layers)
            .flag({.name = "--num-layers",
                   .unit = "layers",
                   .help = "Layers of the encoder. Required, as are the next two and --seq-length, "
                           "unless --load-hf gives them.",
                   .range = whole_range{1, 10000},
                   .only_given = true}),
        row("hidden", &x::hidden)
            .flag({.name = "--hidden-size",
                   .unit = "channels",
                   .help = "Channels of the residual stream (C).",
                   .range = whole_range{1},
                   .only_given = true}),
        row("heads", &x::heads)
            .flag({.name = "--num-attention-heads",
                   .unit = "heads",
                   .help = "Heads of attention (H). They divide C.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("ffn", &x::ffn)
            .flag({.name = "--ffn-hidden-size",
                   .unit = "channels",
                   .default_value = "4 C",
                   .help = "Width of the feed-forward layer.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("sequence", &x::sequence)
            .flag({.name = "--seq-length",
                   .unit = "tokens",
                   .help = "Tokens per sample (T), with padding.",
                   .range = whole_range{5},
                   .only_given = true}),
        row("positions", &x::positions)
            .flag({.name = "--max-position-embeddings",
                   .unit = "positions",
                   .default_value = "--seq-length",
                   .help = "Rows of the learned position table.",
                   .megatron = "optional: the default is --seq-length",
                   .range = whole_range{1},
                   .only_given = true}),
        row("types", &x::types),
        row("vocabulary", &x::vocabulary),
        row("padded_vocabulary", &x::padded_vocabulary),
        row("post_norm", &x::post_norm)
            .own_flag({.name = "--bert-post-norm",
                       .help = "Norms after attention and feed-forward layers, and one after the "
                               "embedding, as in the original BERT. Without it, norms before them, "
                               "and one after the last layer."}),
        row("binary_head", &x::binary_head)
            .flag({.name = "--bert-no-binary-head",
                   .help = "No head that tells the order of two sentences, no loss of it, and no "
                           "types of tokens.",
                   .value = "false"}),
        row("activation", &x::activation)
            .flag(
                {.name = "--no-bias-gelu-fusion",
                 .help
                 = "Exact GELU (erf). Without it, the tanh formula of Megatron-LM's fused kernel.",
                 .megatron = "exact GELU (erf) instead of the tanh formula of the fused kernel",
                 .value = "gelu_erf",
                 .gives = int(kernels::activation::gelu_erf)}),
        row("head_activation", &x::head_activation),
        row("norm_epsilon", &x::norm_epsilon)
            .flag({.name = "--norm-epsilon",
                   .default_value = "1e-5, with --bert-post-norm 1e-12",
                   .help = "Added to the variance in norms.",
                   .range = real_range{.least = 0, .above = true},
                   .only_given = true}),
        row("hidden_dropout", &x::hidden_dropout)
            .flag({.name = "--hidden-dropout",
                   .type = "P",
                   .default_value = "0.1, with --load-hf 0",
                   .help = "Dropout of the residual stream.",
                   .megatron = "other numbers for the same seed: see --seed",
                   .range = real_range{.least = 0, .most = 1, .below = true},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("attention_dropout", &x::attention_dropout)
            .flag({.name = "--attention-dropout",
                   .type = "P",
                   .default_value = "0.1, with --load-hf 0",
                   .help = "Dropout of attention probabilities.",
                   .megatron = "other numbers for the same seed: see --seed",
                   .range = real_range{.least = 0, .most = 1, .below = true},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("init_std", &x::init_std)
            .flag({.name = "--init-method-std",
                   .help = "Standard deviation of initial weights; weights that add to the "
                           "residual stream get X / sqrt(2 layers).",
                   .megatron = "same distribution, other numbers: they depend on (seed, name, "
                               "element), not on the layout",
                   .range = real_range{0},
                   .resume = at_resume::told}),
        row("masking", &x::masking).later().sparse(),
        row("task", &x::task).later().sparse());
  }
};

const model_family& family_of(const bert_config& config);

/// One sentence per violated rule, which names the setting and the nearest valid value; empty if
/// the configuration is valid.
std::vector<std::string> validate(const bert_config& config);

}  // namespace troupe::runtime
