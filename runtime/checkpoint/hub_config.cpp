#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/json.hpp"
#include "runtime/core/error.hpp"

#include <limits>
#include <optional>

namespace troupe::runtime {
namespace {

using kernels::activation;

/// The fields of a config.json. A field that is null counts as absent, as in the hub's own reader.
class hub_fields {
 public:
  hub_fields(nlohmann::json fields, std::string where)
      : fields_(std::move(fields)), where_(std::move(where)) {
    if (!fields_.is_object())
      throw input_error("{} should have a JSON object", where_);
  }

  const nlohmann::json* find(const char* key) const {
    const auto found = fields_.find(key);
    return found == fields_.end() || found->is_null() ? nullptr : &*found;
  }

  std::int64_t size(const char* key, std::optional<std::int64_t> otherwise = {}) const {
    const auto* found = find(key);
    if (found == nullptr && otherwise)
      return *otherwise;
    if (found == nullptr)
      throw input_error("{}: '{}' is missing", where_, key);
    constexpr std::uint64_t largest = std::numeric_limits<std::int32_t>::max();
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() < 1
        || found->get<std::uint64_t>() > largest)
      throw input_error("{}: '{}' should be a whole number from 1 to {}, but is {}",
                        where_,
                        key,
                        largest,
                        shown(*found));
    return found->get<std::int64_t>();
  }

  double number(const char* key, double otherwise) const {
    const auto* found = find(key);
    if (found != nullptr && !found->is_number())
      throw input_error("{}: '{}' should be a number, but is {}", where_, key, shown(*found));
    return found == nullptr ? otherwise : found->get<double>();
  }

  bool flag(const char* key, bool otherwise) const {
    const auto* found = find(key);
    if (found != nullptr && !found->is_boolean())
      throw input_error("{}: '{}' should be true or false, but is {}", where_, key, shown(*found));
    return found == nullptr ? otherwise : found->get<bool>();
  }

  std::string text(const char* key, const char* otherwise) const {
    const auto* found = find(key);
    if (found != nullptr && !found->is_string())
      throw input_error("{}: '{}' should be a text, but is {}", where_, key, shown(*found));
    return found == nullptr ? otherwise : found->get<std::string>();
  }

  [[noreturn]] void refuse(const char* key, std::string_view supported) const {
    const auto* found = find(key);
    throw input_error(
        "{}: '{}' is {}, which is not supported ({} is); the model cannot be imported",
        where_,
        key,
        found == nullptr ? "missing" : shown(*found),
        supported);
  }

  /// Refuses unless the field is absent or has this value.
  void require(const char* key, const nlohmann::json& only) const {
    const auto* found = find(key);
    if (found != nullptr && *found != only)
      refuse(key, only.is_null() ? "null" : shown(only));
  }

  const std::string& where() const { return where_; }

 private:
  nlohmann::json fields_;
  std::string where_;
};

void require_divisible(const hub_fields& in, const char* what, const char* by) {
  if (in.size(what) % in.size(by) != 0)
    throw input_error("{}: '{}' {} is not a multiple of '{}' {}",
                      in.where(),
                      what,
                      in.size(what),
                      by,
                      in.size(by));
}

gpt_config gpt2_config(const hub_fields& in) {
  in.require("scale_attn_weights", true);
  in.require("scale_attn_by_inverse_layer_idx", false);
  in.require("add_cross_attention", false);
  require_divisible(in, "n_embd", "n_head");
  gpt_config x;
  x.layers = in.size("n_layer");
  x.hidden = in.size("n_embd");
  x.heads = x.groups = in.size("n_head");
  x.head_size = x.hidden / x.heads;
  x.ffn = in.size("n_inner", 4 * x.hidden);
  x.sequence = x.positions = in.size("n_positions");
  x.position = position_embedding::learned_absolute;
  x.norm_epsilon = in.number("layer_norm_epsilon", 1e-5);
  x.linear_bias = true;
  x.tied_embeddings = in.flag("tie_word_embeddings", true);
  const auto name = in.text("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh")
    x.activation = activation::gelu_tanh;
  else if (name == "gelu")
    x.activation = activation::gelu_erf;
  else
    in.refuse("activation_function", "\"gelu_new\", \"gelu_pytorch_tanh\" or \"gelu\"");
  return x;
}

/// Since version 5 the hub's library writes rope_parameters instead of rope_theta and rope_scaling.
double rotary_base(const hub_fields& in) {
  constexpr double usual = 10000;
  in.require("rope_scaling", nullptr);
  in.require("partial_rotary_factor", 1.0);
  const auto* parameters = in.find("rope_parameters");
  if (parameters == nullptr)
    return in.number("rope_theta", usual);
  const hub_fields rope(*parameters, in.where() + ", rope_parameters");
  rope.require("rope_type", "default");
  rope.require("partial_rotary_factor", 1.0);
  for (const auto& [key, value] : parameters->items())
    if (key != "rope_type" && key != "rope_theta" && key != "partial_rotary_factor")
      rope.require(key.c_str(), nullptr);
  return rope.number("rope_theta", in.number("rope_theta", usual));
}

gpt_config llama_config(const hub_fields& in) {
  in.require("sliding_window", nullptr);
  in.require("use_sliding_window", false);
  in.require("hidden_act", "silu");
  gpt_config x;
  x.layers = in.size("num_hidden_layers");
  x.hidden = in.size("hidden_size");
  x.heads = in.size("num_attention_heads");
  x.groups = in.size("num_key_value_heads", x.heads);
  if (x.heads % x.groups != 0)
    require_divisible(in, "num_attention_heads", "num_key_value_heads");
  if (in.find("head_dim") == nullptr)
    require_divisible(in, "hidden_size", "num_attention_heads");
  x.head_size = in.size("head_dim", x.hidden / x.heads);
  x.ffn = in.size("intermediate_size");
  x.sequence = x.positions = in.size("max_position_embeddings", 2048);
  x.position = position_embedding::rope;
  x.rotary_base = rotary_base(in);
  x.normalization = kernels::normalization::rms;
  x.norm_epsilon = in.number("rms_norm_eps", 1e-6);
  x.activation = activation::swiglu;
  x.linear_bias = in.flag("attention_bias", false);
  if (in.flag("mlp_bias", false) != x.linear_bias)
    in.refuse(x.linear_bias ? "attention_bias" : "mlp_bias",
              "attention_bias and mlp_bias both true or both false");
  x.tied_embeddings = in.flag("tie_word_embeddings", false);
  return x;
}

}  // namespace

gpt_config hub_config(std::string_view config_json, const std::string& where) {
  const hub_fields in(parse_json(config_json, where), where);
  in.require("quantization_config", nullptr);
  in.require("is_encoder_decoder", false);
  const auto kind = in.text("model_type", "");
  if (kind != "gpt2" && kind != "llama")
    in.refuse("model_type", "\"gpt2\" or \"llama\"");
  auto x = kind == "gpt2" ? gpt2_config(in) : llama_config(in);
  x.vocabulary = x.padded_vocabulary = in.size("vocab_size");
  x.init_std = in.number("initializer_range", 0.02);
  x.hidden_dropout = x.attention_dropout = 0;
  if (const auto wrong = complaints(x); !wrong.empty())
    throw input_error("{} describes a model that cannot be built: {}", where, wrong.front());
  return x;
}

}  // namespace troupe::runtime
