#include "runtime/core/json_text.hpp"
#include "runtime/family/gpt/gpt_gguf.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace troupe::runtime {
namespace {

using nlohmann::ordered_json;

/// The metadata of one architecture. Remembers the keys that were read.
class gguf_reader_of {
 public:
  gguf_reader_of(const gguf_outline& in, std::string architecture)
      : in_(in), above_(std::move(architecture) + ".") {}

  std::int64_t size(const char* key, std::optional<std::int64_t> otherwise = {}) {
    return in_.metadata.size(named(key).c_str(), otherwise);
  }
  bool has(const char* key) { return in_.metadata.find(named(key).c_str()) != nullptr; }
  std::string text(const char* key, const char* otherwise) {
    return in_.metadata.text(named(key).c_str(), otherwise);
  }
  bool flag(const char* key, bool otherwise) {
    return in_.metadata.flag(named(key).c_str(), otherwise);
  }
  [[noreturn]] void refuse(const char* key, std::string_view supported) {
    in_.metadata.refuse(named(key).c_str(), supported);
  }

  /// A number of 32 bits as the decimal that was meant: 1e-5, not 9.99999975e-6.
  double number(const char* key, std::optional<double> otherwise = {}) {
    const auto name = named(key);
    if (in_.metadata.find(name.c_str()) == nullptr) {
      if (!otherwise)
        in_.metadata.refuse(name.c_str(), "a number");
      return *otherwise;
    }
    const auto x = in_.metadata.number(name.c_str(), 0);
    if (!std::isfinite(x))
      in_.metadata.refuse(name.c_str(), "a finite number");
    return double(float(x)) == x ? std::stod(fmt::format("{}", float(x))) : x;
  }

  /// Throws for a key that was not read: it may change the model's function.
  void require_all_read() const {
    for (const auto& key : in_.metadata.keys())
      if (key.starts_with(above_) && std::ranges::find(read_, key) == read_.end())
        in_.metadata.refuse(key.c_str(), "a file without it");
  }

 private:
  std::string named(const char* key) {
    read_.push_back(above_ + key);
    return read_.back();
  }

  const gguf_outline& in_;
  std::string above_;
  std::vector<std::string> read_;
};

bool fits(const llama3_scaling& x, double base, const std::vector<float>& factors) {
  const auto pairs = std::int64_t(factors.size());
  for (std::int64_t i = 0; i < pairs; ++i)
    if (const auto share = rotary_factor(x, base, 2 * pairs, i) / double(factors[std::size_t(i)]);
        !(std::abs(share - 1) <= 1e-5))  // also for NaN
      return false;
  return true;
}

/// The settings of Llama 3.1 that give these factors. The files lack them, apart from `known`, the
/// original number of positions, which only Troupe writes. Low 1 and high 4 are those of all
/// Llamas.
std::optional<llama3_scaling> scaling_of(const std::vector<float>& factors,
                                         double base,
                                         std::optional<std::int64_t> known) {
  llama3_scaling x;
  x.factor = double(*std::max_element(factors.begin(), factors.end()));
  x.factor = std::stod(fmt::format("{}", float(x.factor)));
  if (known) {
    x.positions = double(*known);
    return fits(x, base, factors) ? std::optional(x) : std::nullopt;
  }
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double factor = double(factors[i]);
    if (factor <= 1 || factor >= x.factor * (1 - 1e-6))
      continue;
    const auto share = (1 / factor - 1 / x.factor) / (1 - 1 / x.factor);
    const auto length = 2 * std::numbers::pi * std::pow(base, double(i) / double(factors.size()));
    x.positions = std::round((share * (x.high - x.low) + x.low) * length);
    if (x.positions >= 1 && x.positions < 1e9 && fits(x, base, factors))
      return x;
  }
  return std::nullopt;
}

ordered_json rope_scaling_of(gguf_reader_of& in,
                             const gguf_outline& all,
                             double base,
                             std::int64_t head) {
  const auto kind = in.text("rope.scaling.type", "none");
  in.flag("rope.scaling.finetuned", true);
  std::optional<std::int64_t> original;
  if (in.has("rope.scaling.original_context_length"))
    original = in.size("rope.scaling.original_context_length");
  const auto factor = in.number("rope.scaling.factor", 1);
  if (!all.rotary_factors.empty()) {
    const bool possible = kind == "none" && 2 * std::int64_t(all.rotary_factors.size()) == head;
    const auto found = possible ? scaling_of(all.rotary_factors, base, original) : std::nullopt;
    if (!found)
      throw input_error(
          "{}: the factors of its tensor 'rope_freqs.weight' are not those of a Llama 3.1 with "
          "low_freq_factor 1 and high_freq_factor 4; import the model from its folder of Hugging "
          "Face",
          all.metadata.where());
    return {{"rope_type", "llama3"},
            {"factor", found->factor},
            {"low_freq_factor", found->low},
            {"high_freq_factor", found->high},
            {"original_max_position_embeddings", std::int64_t(found->positions)}};
  }
  if (kind == "none")
    return nullptr;
  if (kind == "linear")
    return {{"rope_type", "linear"}, {"factor", factor}};
  if (kind != "yarn")
    in.refuse("rope.scaling.type", "none, linear or yarn");
  if (!original)
    in.refuse("rope.scaling.original_context_length", "a number");
  return {
      {"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", *original}};
}

ordered_json gpt2_of(gguf_reader_of& in) {
  return {{"activation_function", "gelu_new"},
          {"n_embd", in.size("embedding_length")},
          {"n_head", in.size("attention.head_count")},
          {"n_inner", in.size("feed_forward_length")},
          {"n_layer", in.size("block_count")},
          {"n_positions", in.size("context_length")},
          {"layer_norm_epsilon", in.number("attention.layer_norm_epsilon")}};
}

void add_experts_of(ordered_json& out, gguf_reader_of& in, const gguf_kind& kind) {
  out["num_experts_per_tok"] = in.size("expert_used_count");
  out[kind.type == "mixtral" ? "num_local_experts" : "num_experts"] = in.size("expert_count");
  if (in.flag("expert_weights_norm", kind.normalised) != kind.normalised)
    in.refuse("expert_weights_norm", kind.normalised ? "true" : "false");
  if (kind.type != "mixtral")
    out["norm_topk_prob"] = kind.normalised;
  if (!kind.type.starts_with("qwen")) {
    if (in.size("expert_feed_forward_length", in.size("feed_forward_length"))
        != in.size("feed_forward_length"))
      in.refuse("expert_feed_forward_length", "feed_forward_length");
    return;
  }
  out["moe_intermediate_size"] = in.size("expert_feed_forward_length");
  if (kind.type == "qwen2_moe")
    out["shared_expert_intermediate_size"] = in.size("expert_shared_feed_forward_length");
}

ordered_json llama_of(gguf_reader_of& in, const gguf_outline& all, const gguf_kind& kind) {
  const auto hidden = in.size("embedding_length"), heads = in.size("attention.head_count");
  const auto head = in.size("attention.key_length", hidden / heads);
  if (in.size("attention.value_length", head) != head)
    in.refuse("attention.value_length", "attention.key_length");
  if (in.size("rope.dimension_count", head) != head)
    in.refuse("rope.dimension_count", "the size of a head");
  const auto base = in.number("rope.freq_base", 10000);
  ordered_json out = {{"hidden_act", "silu"},
                      {"hidden_size", hidden},
                      {"num_hidden_layers", in.size("block_count")},
                      {"num_attention_heads", heads},
                      {"num_key_value_heads", in.size("attention.head_count_kv", heads)},
                      {"head_dim", head},
                      {"max_position_embeddings", in.size("context_length")},
                      {"rms_norm_eps", in.number("attention.layer_norm_rms_epsilon")},
                      {"rope_theta", base},
                      {"rope_scaling", rope_scaling_of(in, all, base, head)}};
  if (kind.experts)
    add_experts_of(out, in, kind);
  out["intermediate_size"]
      = in.size("feed_forward_length",
                kind.type.starts_with("qwen") && kind.experts ? std::optional<std::int64_t>(hidden)
                                                              : std::nullopt);
  if (kind.type == "llama") {
    out["attention_bias"] = all.has("blk.0.attn_q.bias");
    out["mlp_bias"] = all.has("blk.0.ffn_gate.bias");
  } else if (kind.type == "qwen2_moe") {
    out["qkv_bias"] = all.has("blk.0.attn_q.bias");
  }
  return out;
}

}  // namespace

std::string gpt_config_of_gguf(const gguf_outline& all) {
  const auto architecture = all.metadata.text("general.architecture", "");
  gguf_reader_of in(all, architecture);
  const bool experts = in.size("expert_count", 0) > 0;
  const auto* const kind
      = std::find_if(std::begin(gguf_kinds), std::end(gguf_kinds), [&](const gguf_kind& x) {
          return x.architecture == architecture && x.experts == experts;
        });
  if (kind == std::end(gguf_kinds))
    in.refuse("expert_count", experts ? "0" : "1 or more");
  auto out = kind->type == "gpt2" ? gpt2_of(in) : llama_of(in, all, *kind);
  out["model_type"] = kind->type;
  in.size("vocab_size", all.vocabulary);
  out["vocab_size"] = all.vocabulary;
  out["tie_word_embeddings"] = !all.has("output.weight");
  in.require_all_read();
  return json_text(out, 2) + "\n";
}

}  // namespace troupe::runtime
