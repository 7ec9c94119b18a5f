#include "runtime/family/gpt/gpt_hub.hpp"

#include "runtime/core/number_range.hpp"
#include "runtime/family/gpt/gpt_gguf.hpp"
#include "runtime/family/hub_contradictions.hpp"

namespace troupe::runtime {
namespace {

class gpt_translation final : public hub_translation {
 public:
  bool reads(std::string_view model_type) const override { return is_hub_type(model_type); }

  model_description model_of(std::string_view config_json,
                             const std::string& where) const override {
    return gpt_from_hub(config_json, where);
  }

  std::string config_json(const model_description& model) const override {
    return gpt_to_hub(model.as<gpt_config>());
  }

  // The files of a GPT-2 without its head lack the prefix.
  std::vector<hub_recipe> recipes(const model_description& model,
                                  const std::function<bool(std::string_view)>& has) const override {
    const bool with_head = !has || has("transformer.wte.weight");
    return gpt_hub_recipes(model.as<gpt_config>(), with_head ? "transformer." : "");
  }

  bool is_constant(std::string_view source) const override {
    return source.ends_with(".attn.bias") || source.ends_with(".attn.masked_bias")
           || source.ends_with(".rotary_emb.inv_freq");
  }

  std::string copied_from(std::string_view source,
                          const std::vector<hub_recipe>& all) const override {
    return source == "lm_head.weight" ? all.front().rows.front().source : "";
  }

  bool is_left_out(const model_description& model, std::string_view source) const override {
    return is_beyond_deepseek(model.as<gpt_config>(), source);
  }

  float offset(const model_description& model, std::string_view parameter) const override {
    return parameter.ends_with("layernorm.weight") ? float(model.as<gpt_config>().gain_offset) : 0;
  }

  bool is_same_function(const model_description& there,
                        const model_description& here) const override {
    auto x = there.as<gpt_config>();
    const auto& y = here.as<gpt_config>();
    x.experts.balance = y.experts.balance;
    x.experts.balance_weights = y.experts.balance_weights;
    x.experts.z_weight = y.experts.z_weight;
    x.experts.jitter = y.experts.jitter;
    x.experts.bias_rate = y.experts.bias_rate;
    x.experts.quantile_decay = y.experts.quantile_decay;
    x.experts.capacity = y.experts.capacity;
    x.experts.pads = y.experts.pads;
    x.experts.drops = y.experts.drops;
    x.experts.layers = pattern_of(x.expert_layers());
    auto here_too = y;
    here_too.experts.layers = pattern_of(y.expert_layers());
    if (x.has_experts() && x.experts.layers == "1")
      here_too.ffn = x.ffn;  // no layer has it
    return differ_in_training(x, here_too, &gpt_config::vocabulary, &gpt_config::gain_offset);
  }

  std::vector<std::string_view> gguf_architectures() const override {
    std::vector<std::string_view> out;
    for (const auto& x : gguf_kinds)
      if (out.empty() || out.back() != x.architecture)
        out.push_back(x.architecture);
    return out;
  }
  std::string gguf_config(const gguf_outline& in) const override { return gpt_config_of_gguf(in); }
  gguf_plan gguf_of(const model_description& model) const override {
    return gguf_of_gpt(model.as<gpt_config>(), config_json(model));
  }

  std::int64_t longest(const model_description& model) const override {
    return model.as<gpt_config>().positions;
  }
};

}  // namespace

bool is_beyond_deepseek(const gpt_config& config, std::string_view source) {
  constexpr std::string_view stem = "model.layers.";
  if (!config.has_latents() || !config.experts.expert_bias || !source.starts_with(stem))
    return false;
  source.remove_prefix(stem.size());
  const auto layer = number_in(whole_range{}, source.substr(0, source.find('.')));
  return layer && *layer >= config.layers;
}

const hub_translation& gpt_hub() {
  static const gpt_translation only;
  return only;
}

}  // namespace troupe::runtime
