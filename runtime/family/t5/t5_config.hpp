// The configuration of a T5: everything that determines its parameters and its function.
//
// An encoder and a decoder of C channels, each with its own number of layers and of tokens. Each
// layer of the decoder also reads the encoder's output. Raffel et al., "Exploring the Limits of
// Transfer Learning", 2020; the other forms are version 1.1 of its models and Megatron-LM's T5.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/data/masking.hpp"
#include "runtime/family/common_flags.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::runtime {

class model_family;

struct t5_config {
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t hidden = 0;             ///< C, of both stacks
  std::int64_t heads = 0;              ///< H
  std::int64_t head_size = 0;          ///< D
  std::int64_t ffn = 0;                ///< hidden size of the feed-forward layer
  std::int64_t encoder_sequence = 0;   ///< tokens of the encoder in a sample
  std::int64_t decoder_sequence = 0;   ///< tokens of the decoder in a sample
  std::int64_t positions = 0;          ///< rows of the learned position table
  std::int64_t vocabulary = 0;         ///< real tokens
  std::int64_t padded_vocabulary = 0;  ///< V: rows of the embedding; padding is zero and masked
  std::int64_t extra_ids = 0;          ///< sentinels behind the tokens of the tokenizer
  std::int64_t decoder_start = -1;     ///< id that begins the decoder's texts; -1: the tokenizer's

  std::string position = "learned_absolute";  ///< or "relative": a bias of scores by distance
  std::int64_t buckets = 32;                  ///< of distances
  std::int64_t most_distance = 128;           ///< distances from here on share a bucket

  std::string normalization = "LayerNorm";  ///< or "RMSNorm"
  double norm_epsilon = 1e-5;
  std::string activation = "gelu_tanh";  ///< see gated_activation.hpp
  bool linear_bias = true;
  bool tied_embeddings = true;  ///< the output layer has the table of the embedding
  bool head_bias = true;        ///< of the logits
  bool head_scaled = false;     ///< divides the output layer's input by sqrt(C)
  bool scores_scaled = true;    ///< divides the scores of attention by sqrt(D)
  bool last_dropout = false;    ///< dropout also behind the last norm of each stack

  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  double init_std = 0.02;
  /// Initial deviations follow the widths of products, as in T5's own models, without init_std.
  bool init_by_width = false;

  masking_settings masking = {.max_ngram = 10, .geometric = true};  ///< of samples of files

  friend bool operator==(const t5_config&, const t5_config&) = default;

  bool is_relative() const { return position == "relative"; }

  static constexpr auto changed_at_resume = at_resume::refused;
  /// In the order of the JSON.
  static constexpr auto fields() {
    using x = t5_config;
    return std::tuple(
        row("encoder_layers", &x::encoder_layers)
            .flag(common_flags::layers(
                "--encoder-num-layers", "Layers of the encoder.", "--num-layers")),
        row("decoder_layers", &x::decoder_layers)
            .flag(common_flags::layers("--decoder-num-layers",
                                       "Layers of the decoder.",
                                       "--num-layers, or --encoder-num-layers")),
        row("hidden", &x::hidden)
            .flag(common_flags::hidden("Channels of the residual streams (C).")),
        row("heads", &x::heads).flag(common_flags::heads("Heads of each attention (H).")),
        row("head_size", &x::head_size).flag(common_flags::head_size()),
        row("ffn", &x::ffn)
            .flag(common_flags::ffn("4 C; gated 8/3 C, rounded down to a multiple of 64")),
        row("encoder_sequence", &x::encoder_sequence)
            .for_training()
            .flag(
                common_flags::tokens("--encoder-seq-length", "Tokens of the encoder per sample.")),
        row("decoder_sequence", &x::decoder_sequence)
            .for_training()
            .flag(common_flags::tokens(
                "--decoder-seq-length",
                "Tokens of the decoder per sample: those that are predicted.")),
        row("positions", &x::positions)
            .flag(common_flags::positions(
                "the larger of the two lengths",
                "Rows of the learned position table, which both stacks share.",
                "optional: the default is the larger of the two lengths")),
        row("vocabulary", &x::vocabulary),
        row("padded_vocabulary", &x::padded_vocabulary).for_training(),
        row("extra_ids", &x::extra_ids).flag(common_flags::extra_ids()),
        row("decoder_start", &x::decoder_start)
            .for_training()
            .own_flag(common_flags::decoder_start())
            .later()
            .sparse(),
        row("position", &x::position)
            .flag({.name = "--position-embedding-type",
                   .type = "TYPE",
                   .default_value = "learned_absolute; relative with --t5-form v1.0 or v1.1",
                   .help = "Positions: learned_absolute, or relative (a bias of scores).",
                   .megatron = "learned_absolute and relative",
                   .choices = "learned_absolute relative",
                   .only_given = true}),
        row("buckets", &x::buckets).flag(common_flags::relative_buckets()),
        row("most_distance", &x::most_distance).flag(common_flags::relative_distance()),
        row("normalization", &x::normalization)
            .flag(common_flags::normalization("LayerNorm; RMSNorm with --t5-form v1.0 or v1.1",
                                              true)),
        row("norm_epsilon", &x::norm_epsilon)
            .flag(common_flags::norm_epsilon("1e-5; 1e-6 with --t5-form v1.0 or v1.1")),
        row("activation", &x::activation)
            .flag(common_flags::swiglu("Gated feed-forward layer (SwiGLU) instead of the form's."))
            .flag(common_flags::squared_relu("Squared ReLU instead of the form's activation."))
            .flag(
                common_flags::exact_gelu(1, "Exact GELU (erf) instead of the form's activation.")),
        row("linear_bias", &x::linear_bias)
            .flag(common_flags::disable_bias("No biases in linear layers.")),
        row("tied_embeddings", &x::tied_embeddings).flag(common_flags::untied_embeddings()),
        row("head_bias", &x::head_bias),
        row("head_scaled", &x::head_scaled),
        row("scores_scaled", &x::scores_scaled),
        row("last_dropout", &x::last_dropout).for_training(),
        row("hidden_dropout", &x::hidden_dropout)
            .for_training()
            .flag(common_flags::hidden_dropout("Dropout of the residual streams.")),
        row("attention_dropout", &x::attention_dropout)
            .for_training()
            .flag(common_flags::attention_dropout()),
        row("init_std", &x::init_std)
            .for_training()
            .flag(
                common_flags::init_std("Standard deviation of initial weights; weights that add to "
                                       "a residual stream get X / sqrt(2 layers of their stack).",
                                       true)),
        row("init_by_width", &x::init_by_width).for_training(),
        row("masking", &x::masking).for_training().later().sparse());
  }
};

/// The settings of a T5 as they are asked for.
struct t5_asked {
  t5_config config;  ///< settings that were not given have their defaults
  std::string form = "megatron";
  std::optional<std::int64_t> layers;    ///< of each stack, unless the stack's own are given
  std::optional<std::int64_t> sequence;  ///< another name of the encoder's

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = t5_asked;
    return std::tuple(
        row("config", &x::config).named(""),
        row("form", &x::form)
            .own_flag({.name = "--t5-form",
                       .type = "FORM",
                       .default_value = "megatron",
                       .help
                       = "Settings that are not given: megatron (as Megatron-LM's T5: learned "
                         "positions, LayerNorm, GELU, biases), v1.0 (as the original: relative "
                         "positions, RMSNorm, ReLU, no biases, scores without a scale, a "
                         "scaled tied output layer) or v1.1 (the same with gated GELU and an "
                         "output layer of its own).",
                       .choices = "megatron v1.0 v1.1",
                       .only_given = true}),
        row("layers", &x::layers)
            .flag(common_flags::layers("--num-layers",
                                       "Layers of each stack, unless the next two give them.")),
        row("sequence", &x::sequence)
            .flag(common_flags::tokens("--seq-length", "As --encoder-seq-length.")));
  }
};

const model_family& family_of(const t5_config& config);

/// The settings that a form decides, unless they are given: "megatron", "v1.0" or "v1.1".
t5_config t5_form(const std::string& form);

/// One sentence per violated rule, which names the setting and the nearest valid value.
std::vector<std::string> validate(const t5_config& config);

}  // namespace troupe::runtime
