#include "runtime/family/t5/t5_config.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/size_rules.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

struct named_activation {
  std::string_view name;
  t5_activation value;
};
constexpr named_activation activations[]
    = {{"relu", {kernels::activation::relu, false}},
       {"gelu_tanh", {kernels::activation::gelu_tanh, false}},
       {"gelu_erf", {kernels::activation::gelu_erf, false}},
       {"silu", {kernels::activation::silu, false}},
       {"squared_relu", {kernels::activation::squared_relu, false}},
       {"reglu", {kernels::activation::relu, true}},
       {"geglu", {kernels::activation::gelu_tanh, true}},
       {"swiglu", {kernels::activation::silu, true}}};

const named_activation* named(std::string_view name) {
  const auto* const found = std::ranges::find(activations, name, &named_activation::name);
  return found == std::end(activations) ? nullptr : found;
}

void validate_sizes(const t5_config& x, sentences& out) {
  require_sizes({{"encoder_layers", x.encoder_layers, 1, largest_depth},
                 {"decoder_layers", x.decoder_layers, 1, largest_depth},
                 {"hidden", x.hidden},
                 {"heads", x.heads},
                 {"head_size", x.head_size},
                 {"ffn", x.ffn},
                 {"encoder_sequence", x.encoder_sequence},
                 {"decoder_sequence", x.decoder_sequence},
                 {"vocabulary", x.vocabulary}},
                out);
  if (x.extra_ids < 0 || x.extra_ids > 10000)
    out.push_back(fmt::format("`model.extra_ids` is {}; give 0 to 10000", x.extra_ids));
}

void validate_positions(const t5_config& x, sentences& out) {
  if (x.position == "learned_absolute") {
    const auto longest = std::max(x.encoder_sequence, x.decoder_sequence);
    if (x.positions < longest || x.positions > largest_size)
      out.push_back(fmt::format(
          "`model.positions` is {}, but positions are learned, `model.encoder_sequence` "
          "is {} and `model.decoder_sequence` {}; give at least {}",
          x.positions,
          x.encoder_sequence,
          x.decoder_sequence,
          longest));
  } else if (x.position != "relative") {
    out.push_back(
        fmt::format("`model.position` is '{}'; give learned_absolute or relative", x.position));
  } else {
    // The buckets of one direction, of which half have one distance each.
    if (x.buckets < 4 || x.buckets % 4 != 0 || x.buckets > 65536)
      out.push_back(
          fmt::format("`model.buckets` is {}: the encoder halves them for two directions, and each "
                      "half again; give {}",
                      x.buckets,
                      std::clamp<std::int64_t>((x.buckets + 2) / 4 * 4, 4, 65536)));
    else if (x.most_distance <= x.buckets / 2 || x.most_distance > largest_size)
      out.push_back(
          fmt::format("`model.most_distance` is {}, but {} of `model.buckets` {} have one distance "
                      "each; give at least {}",
                      x.most_distance,
                      x.buckets / 2,
                      x.buckets,
                      x.buckets / 2 + 1));
  }
}

void validate_numbers(const t5_config& x, sentences& out) {
  if (named(x.activation) == nullptr) {
    std::string names;
    for (const auto& known : activations)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
    out.push_back(fmt::format("`model.activation` is '{}'; give one of {}", x.activation, names));
  }
  if (x.normalization != "LayerNorm" && x.normalization != "RMSNorm")
    out.push_back(
        fmt::format("`model.normalization` is '{}'; give LayerNorm or RMSNorm", x.normalization));
  if (x.head_scaled && !x.tied_embeddings)
    out.emplace_back(
        "the input of an output layer is scaled only if it has the table of the embedding: leave "
        "out `model.tied_embeddings=false`");
  require_numbers(x.norm_epsilon, "1e-6", x.init_std, x.hidden_dropout, x.attention_dropout, out);
}

/// Without vectors.
double t5_parameters(const t5_config& x) {
  const double C = double(x.hidden), attention = 4 * double(x.heads) * double(x.head_size);
  const double feed_forward = (named(x.activation)->value.gated ? 3 : 2) * double(x.ffn);
  return C
         * (double(x.vocabulary) * (x.tied_embeddings ? 1 : 2) + double(x.positions)
            + double(x.encoder_layers) * (attention + feed_forward)
            + double(x.decoder_layers) * (2 * attention + feed_forward));
}

}  // namespace

t5_activation activation_of(const t5_config& config) {
  if (const auto* const found = named(config.activation))
    return found->value;
  throw input_error("`model.activation` '{}' is unknown", config.activation);
}

t5_config t5_form(const std::string& form) {
  t5_config out;
  if (form == "megatron")
    return out;
  const bool tied = form == "v1.0";
  out.position = "relative";
  out.normalization = "RMSNorm";
  out.norm_epsilon = 1e-6;
  out.activation = tied ? "relu" : "geglu";
  out.linear_bias = out.head_bias = out.scores_scaled = false;
  out.tied_embeddings = out.head_scaled = tied;
  out.last_dropout = out.init_by_width = true;
  return out;
}

std::vector<std::string> validate(const t5_config& config) {
  sentences out;
  validate_sizes(config, out);
  const bool has_sizes = out.empty();
  validate_positions(config, out);
  validate_numbers(config, out);
  if (!has_sizes)
    return out;
  validate_masking(config.masking, out);
  require_padding(config.vocabulary, config.padded_vocabulary, out);
  if (const auto width = double(config.heads) * double(config.head_size);
      width > double(largest_size / 4))
    out.push_back(
        fmt::format("`model.heads` {} of `model.head_size` {} are too wide; give at most "
                    "{} together",
                    config.heads,
                    config.head_size,
                    largest_size / 4));
  if (!out.empty())
    return out;
  require_parameters(t5_parameters(config), "encoder_layers", out);
  return out;
}

}  // namespace troupe::runtime
