// The settings of a BERT: everything that determines its parameters and its function.

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/data/masking.hpp"
#include "runtime/data/task_settings.hpp"
#include "runtime/family/common_flags.hpp"

#include <cstdint>
#include <optional>
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
            .flag(common_flags::layers("--num-layers",
                                       "Layers of the encoder. Required, as are the next two and "
                                       "--seq-length, unless --load-hf gives them.")),
        row("hidden", &x::hidden)
            .flag(common_flags::hidden("Channels of the residual stream (C).")),
        row("heads", &x::heads).flag(common_flags::heads("Heads of attention (H). They divide C.")),
        row("ffn", &x::ffn).flag(common_flags::ffn("4 C")),
        row("sequence", &x::sequence)
            .for_training()
            .flag(common_flags::tokens("--seq-length", "Tokens per sample (T), with padding.", 5)),
        row("positions", &x::positions).flag(common_flags::positions()),
        row("types", &x::types),
        row("vocabulary", &x::vocabulary),
        row("padded_vocabulary", &x::padded_vocabulary).for_training(),
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
            .flag(common_flags::exact_gelu(int(kernels::activation::gelu_erf))),
        row("head_activation", &x::head_activation),
        row("norm_epsilon", &x::norm_epsilon)
            .flag(common_flags::norm_epsilon("1e-5, with --bert-post-norm 1e-12")),
        row("hidden_dropout", &x::hidden_dropout)
            .for_training()
            .flag(common_flags::hidden_dropout()),
        row("attention_dropout", &x::attention_dropout)
            .for_training()
            .flag(common_flags::attention_dropout()),
        row("init_std", &x::init_std).for_training().flag(common_flags::init_std()),
        row("masking", &x::masking).for_training().later().sparse(),
        row("task", &x::task).later().sparse());
  }
};

/// The settings of a BERT as they are asked for. Those beside `config` have one value.
struct bert_asked {
  bert_config config;
  std::string normalization = "LayerNorm";
  std::string position = "learned_absolute";
  std::optional<std::int64_t> head_size, groups;
  bool qkv_bias = true;

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = bert_asked;
    return std::tuple(
        row("config", &x::config).named(""),
        row("normalization", &x::normalization)
            .flag(common_flags::only("--normalization", "LayerNorm", "Kind of norm.")),
        row("position", &x::position)
            .flag(common_flags::only(
                "--position-embedding-type", "learned_absolute", "Position embedding.")),
        row("head_size", &x::head_size)
            .flag(common_flags::same_size("--kv-channels", "channels", "C / H", "Size of a head.")),
        row("groups", &x::groups)
            .flag(common_flags::same_size(
                "--num-query-groups", "heads", "H", "Key and value heads.")),
        row("qkv_bias", &x::qkv_bias)
            .flag({.name = "--add-qkv-bias",
                   .help = "Biases of queries, keys and values, which a BERT has in any case.",
                   .megatron = "the one value that its models have",
                   .only_given = true,
                   .resume = at_resume::free}));
  }
};

const model_family& family_of(const bert_config& config);

/// One sentence per violated rule, which names the setting and the nearest valid value.
std::vector<std::string> validate(const bert_config& config);

}  // namespace troupe::runtime
