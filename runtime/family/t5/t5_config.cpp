#include "runtime/family/t5/t5_config.hpp"

#include "runtime/family/gated_activation.hpp"
#include "runtime/family/size_rules.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

void validate_sizes(const t5_config& x, std::vector<std::string>& out) {
  require_sizes({{"encoder_layers", x.encoder_layers, 1, largest_depth},
                 {"decoder_layers", x.decoder_layers, 1, largest_depth},
                 {"hidden", x.hidden},
                 {"heads", x.heads},
                 {"head_size", x.head_size},
                 {"ffn", x.ffn},
                 {"encoder_sequence", x.encoder_sequence},
                 {"decoder_sequence", x.decoder_sequence},
                 {"vocabulary", x.vocabulary},
                 {"extra_ids", x.extra_ids, 0, 10000},
                 {"decoder_start", x.decoder_start, -1}},
                out);
}

void validate_positions(const t5_config& x, std::vector<std::string>& out) {
  if (x.position == "learned_absolute") {
    const auto longest = std::max(x.encoder_sequence, x.decoder_sequence);
    if (x.positions < longest || x.positions > largest_size)
      out.push_back(fmt::format(
          "`model.positions` is {}, but positions are learned, `model.encoder_sequence` "
          "is {} and `model.decoder_sequence` {}; give at least {}, or shorten the longer one",
          x.positions,
          x.encoder_sequence,
          x.decoder_sequence,
          longest));
  } else {
    require_choice("position", x.position, {"learned_absolute", "relative"}, out);
    if (x.is_relative())
      require_buckets(x.buckets, x.most_distance, out);
  }
}

void validate_numbers(const t5_config& x, std::vector<std::string>& out) {
  require_activation(x.activation, out);
  require_choice("normalization", x.normalization, {"LayerNorm", "RMSNorm"}, out);
  if (x.head_scaled && !x.tied_embeddings)
    out.emplace_back(
        "the input of an output layer is scaled only if it has the table of the embedding: leave "
        "out `model.tied_embeddings=false`");
  require_numbers(x.norm_epsilon, "1e-6", x.init_std, x.hidden_dropout, x.attention_dropout, out);
}

/// Without vectors.
double t5_parameters(const t5_config& x) {
  const double C = double(x.hidden), attention = 4 * double(x.heads) * double(x.head_size);
  const double feed_forward = (activation_named(x.activation).gated ? 3 : 2) * double(x.ffn);
  return C
         * (double(x.vocabulary) * (x.tied_embeddings ? 1 : 2) + double(x.positions)
            + double(x.encoder_layers) * (attention + feed_forward)
            + double(x.decoder_layers) * (2 * attention + feed_forward));
}

}  // namespace

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
  std::vector<std::string> out;
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
  if (out.empty())
    require_parameters(t5_parameters(config), "encoder_layers", out);
  return out;
}

}  // namespace troupe::runtime
