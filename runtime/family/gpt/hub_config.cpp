#include "runtime/family/gpt/gpt_hub.hpp"
#include "runtime/family/gpt/hub_experts.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {
namespace {

using kernels::activation;

constexpr std::string_view kimi = "kimi_k2";

double usual_rotary_base(const hub_fields& in) {
  return in.text("model_type", "") == "mixtral" ? 1e6 : 1e4;
}

bool is_latent(std::string_view kind) {
  return kind.starts_with("deepseek");
}

double usual_epsilon(std::string_view kind) {
  return kind == "mixtral" || kind == "olmoe" ? 1e-5 : 1e-6;
}

void require_divisible(const hub_fields& in, const char* what, const char* by) {
  if (in.size(what) % in.size(by) != 0)
    throw input_error("{}: '{}' {} is not a multiple of '{}' {}",
                      in.where(),
                      what,
                      in.size(what),
                      by,
                      in.size(by));
}

/// GPT-2's fields have two names in transformers. If both are present they must agree.
void refuse_contradicting_names(const hub_fields& in) {
  constexpr std::pair<const char*, const char*> names[]
      = {{"n_embd", "hidden_size"},
         {"n_positions", "max_position_embeddings"},
         {"n_head", "num_attention_heads"},
         {"n_layer", "num_hidden_layers"}};
  for (const auto& [name, alias] : names)
    if (const auto* one = in.find(name), *other = in.find(alias);
        one != nullptr && other != nullptr && *one != *other)
      throw input_error("{}: '{}' is {} and '{}', another name of it, is {}: remove one of the two",
                        in.where(),
                        name,
                        shown(*one),
                        alias,
                        shown(*other));
}

gpt_config gpt2_config(const hub_fields& in) {
  refuse_contradicting_names(in);
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

double yarn_magnitude(double factor) {
  return 0.1 * std::log(factor) + 1;
}

/// Follows transformers: both mscales count or neither, and an attention factor replaces them. In
/// latent attention the second one is also a factor of the scores, by itself.
void read_yarn(const hub_fields& rope, bool latent, gpt_config& x) {
  x.yarn_fast = rope.number("beta_fast", 32);
  x.yarn_slow = rope.number("beta_slow", 1);
  x.yarn_round = rope.flag("truncate", true);
  const auto mscale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  if (latent && all != 0 && (mscale == 0 || rope.find("attention_factor") != nullptr))
    rope.refuse("mscale_all_dim", "with mscale, and without attention_factor,");
  if (mscale != 0 && all != 0) {
    x.yarn_mscale = mscale;
    x.yarn_mscale_all = all;
  }
  if (rope.find("attention_factor") == nullptr)
    return;
  const auto expected = yarn_magnitude(x.scaling_factor);
  if (std::abs(rope.number("attention_factor", 0) - expected) > 1e-9)
    rope.refuse("attention_factor", fmt::format("0.1 ln(factor) + 1, {}", expected));
  x.yarn_mscale = 1;
  x.yarn_mscale_all = 0;
}

/// `rope` has all settings, except possibly the base and the original length.
void read_scaling(const hub_fields& in, const hub_fields& rope, bool latent, gpt_config& x) {
  rope.require("partial_rotary_factor", 1.0);
  auto known = std::vector<std::string>{"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  const auto kind = rope.text("rope_type", rope.text("type", "default").c_str());
  if (kind == "llama3" || kind == "yarn") {
    in.require("original_max_position_embeddings", nullptr);
    x.scaling = kind == "yarn" ? rope_scaling::yarn : rope_scaling::llama3;
    x.scaling_factor = rope.number("factor", 0);
    x.scaling_positions = rope.size("original_max_position_embeddings", x.positions);
    known.insert(known.end(), {"factor", "original_max_position_embeddings"});
  } else if (kind == "linear") {
    x.rotary_interpolation = rope.number("factor", 0);
    known.emplace_back("factor");
  } else if (kind != "default") {
    rope.refuse(rope.find("rope_type") ? "rope_type" : "type", "default, linear, llama3 or yarn");
  }
  if (x.scaling == rope_scaling::llama3) {
    x.llama3_low = rope.number("low_freq_factor", 0);
    x.llama3_high = rope.number("high_freq_factor", 0);
    known.insert(known.end(), {"low_freq_factor", "high_freq_factor"});
  } else if (x.scaling == rope_scaling::yarn) {
    read_yarn(rope, latent, x);
    known.insert(
        known.end(),
        {"beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim", "attention_factor"});
  }
  for (const auto& key : rope.keys())
    if (std::find(known.begin(), known.end(), key) == known.end())
      rope.require(key.c_str(), nullptr);
}

/// transformers 5 writes rope_parameters; older versions write rope_theta and rope_scaling. If both
/// are present, transformers uses rope_scaling alone, and so does this function. A base that would
/// be lost is rejected.
const char* rotary_field(const hub_fields& in) {
  const auto* scaling = in.find("rope_scaling");
  if (scaling == nullptr || scaling->empty())
    return "rope_parameters";
  const auto* other = in.find("rope_parameters");
  if (other == nullptr || !other->is_object() || !other->contains("rope_theta"))
    return "rope_scaling";
  const auto* inside = scaling->is_object() ? &*scaling : nullptr;
  const auto theta = inside != nullptr && inside->contains("rope_theta")
                         ? inside->at("rope_theta")
                         : nlohmann::json(in.number("rope_theta", usual_rotary_base(in)));
  if (theta != other->at("rope_theta"))
    throw input_error(
        "{}: 'rope_scaling' and 'rope_parameters' are both there, and their bases differ "
        "(rope_theta {} and {}): remove one of the two fields",
        in.where(),
        shown(theta),
        shown(other->at("rope_theta")));
  return "rope_scaling";
}

void read_rotary(const hub_fields& in, bool latent, gpt_config& x) {
  in.require("partial_rotary_factor", 1.0);
  x.position = position_embedding::rope;
  x.rotary_base = in.number("rope_theta", usual_rotary_base(in));
  const auto* field = rotary_field(in);
  const auto* fields = in.find(field);
  if (fields == nullptr)
    return;
  const hub_fields rope(*fields, fmt::format("{}, {}", in.where(), field));
  x.rotary_base = rope.number("rope_theta", x.rotary_base);
  read_scaling(in, rope, latent, x);
}

/// Qwen 2 is a Llama with biases of queries, keys and values. Qwen 3 is a Llama with normalised
/// queries and keys.
void read_qwen(const hub_fields& in, const std::string& kind, gpt_config& x) {
  x.qkv_bias = kind == "qwen2" || (kind == "qwen2_moe" && in.flag("qkv_bias", true));
  x.qk_norm = kind.starts_with("qwen3");
  if (kind == "qwen3")  // transformers assumes 128
    in.size("head_dim");
  in.size("num_key_value_heads");
  if (const auto* kinds = in.find("layer_types"); kinds != nullptr)
    for (const auto& layer : *kinds)
      if (layer != "full_attention")
        in.refuse("layer_types", "full_attention in every layer");
}

/// Mistral's window includes the query itself, a gpt_config's does not. If the field is missing,
/// transformers assumes 4096, and no window for Mixtral.
void read_mistral(const hub_fields& in, const std::string& kind, gpt_config& x) {
  in.size("num_key_value_heads");
  if (kind == "mistral" && !in.has("sliding_window"))
    in.refuse("sliding_window", "null or a number");
  if (in.find("sliding_window") != nullptr)
    x.window = in.size("sliding_window") - 1;
}

gpt_config llama_config(const hub_fields& in, const std::string& kind) {
  if (kind == "llama")  // Qwen configurations have a window size although the window is off
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
  const bool latent = is_latent(kind);  // its heads follow from other fields
  if (in.find("head_dim") == nullptr && !latent)
    require_divisible(in, "hidden_size", "num_attention_heads");
  x.head_size = latent ? 1 : in.size("head_dim", x.hidden / x.heads);
  x.ffn = in.size("intermediate_size");
  x.sequence = x.positions = in.size("max_position_embeddings", 2048);
  read_rotary(in, latent, x);
  x.normalization = kernels::normalization::rms;
  x.norm_epsilon = in.number("rms_norm_eps", usual_epsilon(kind));
  x.activation = activation::silu;
  x.gated = true;
  x.linear_bias = in.flag("attention_bias", false);
  if (in.flag("mlp_bias", false) != x.linear_bias)
    in.refuse(x.linear_bias ? "attention_bias" : "mlp_bias",
              "attention_bias and mlp_bias both true or both false");
  x.tied_embeddings = in.flag("tie_word_embeddings", false);
  if (kind == "mistral" || kind == "mixtral")
    read_mistral(in, kind, x);
  else if (kind.starts_with("qwen"))
    read_qwen(in, kind, x);
  if (has_hub_experts(kind))
    read_hub_experts(in, kind, x);
  return x;
}

/// Kimi K2 is a DeepSeek-V3 under another name. Its own classes have other defaults, so its file
/// must have the fields that decide the model.
std::string kind_in(const hub_fields& in) {
  auto kind = in.text("model_type", "");
  if (kind != kimi)
    return kind;
  for (const auto* field : {"rope_theta",
                            "max_position_embeddings",
                            "rms_norm_eps",
                            "routed_scaling_factor",
                            "first_k_dense_replace",
                            "scoring_func",
                            "topk_method",
                            "norm_topk_prob"})
    if (in.find(field) == nullptr)
      throw input_error(
          "{}: '{}' is missing, and a {} has no known default: add the model's own value",
          in.where(),
          field,
          kimi);
  return "deepseek_v3";
}

bool is_llama(std::string_view model_type) {
  constexpr std::string_view all[] = {"llama", "mistral", "qwen2", "qwen3"};
  return std::find(std::begin(all), std::end(all), model_type) != std::end(all)
         || has_hub_experts(model_type);
}

}  // namespace

bool is_hub_type(std::string_view model_type) {
  return model_type == "gpt2" || model_type == kimi || is_llama(model_type);
}

gpt_config gpt_from_hub(std::string_view config_json, const std::string& where) {
  const hub_fields in(parse_json(config_json, where), where);
  in.require("quantization_config", nullptr);
  in.require("is_encoder_decoder", false);
  const auto kind = kind_in(in);
  if (!is_hub_type(kind))
    in.refuse("model_type",
              "gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, olmoe, "
              "deepseek_v2, deepseek_v3 or kimi_k2");
  auto x = is_llama(kind) ? llama_config(in, kind) : gpt2_config(in);
  x.vocabulary = x.padded_vocabulary = in.size("vocab_size");
  x.init_std = in.number("initializer_range", 0.02);
  x.hidden_dropout = x.attention_dropout = 0;
  if (const auto wrong = validate(x); !wrong.empty())
    throw input_error("{} describes a model that cannot be built: {}", where, wrong.front());
  return x;
}

}  // namespace troupe::runtime
