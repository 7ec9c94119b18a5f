#include "runtime/core/json_text.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/family/gpt/gpt_estimates.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "runtime/family/gpt/gpt_resolve.hpp"
#include "runtime/family/gpt/gpt_rules.hpp"
#include "runtime/family/gpt/gpt_text.hpp"
#include "runtime/family/typed_family.hpp"
#include "runtime/model/counts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

/// True if the formulas of other programs cover the model.
bool has_estimates(const gpt_config& x) {
  return !x.has_experts() && !x.has_latents();
}

class gpt final : public typed_family<gpt_config, gpt_asked> {
 public:
  std::string_view name() const override { return "gpt"; }
  std::string_view title() const override { return "a GPT"; }

  model_description smallest(int layers) const override {
    auto out = of_smallest_sizes();
    out.layers = layers;
    out.groups = 2;
    out.head_size = 8;
    out.sequence = out.positions = 6;
    return out;
  }

  std::optional<model_description> smallest_with_experts(int layers) const override {
    auto out = smallest(layers);
    auto& x = out.as<gpt_config>();
    x.linear_bias = false;
    x.experts = {.number = 4,
                 .ffn = 8,
                 .score = "sigmoid",
                 .balance_weights = {1e-2},
                 .z_weight = 1e-3,
                 .expert_bias = true};
    return out;
  }

  model_spec spec(const model_description& model, const extension& own) const override {
    return gpt_spec(config_of(model), own);
  }

  model_sizes sizes(const model_description& model) const override {
    const auto& x = config_of(model);
    return {x.sequence, x.vocabulary, x.padded_vocabulary, x.layers};
  }

  std::string to_json(const model_description& model) const override {
    return runtime::to_json(config_of(model));
  }

  model_description from_json(const std::string& text) const override {
    return gpt_config_from_json(text);
  }

  std::string essence(const model_description& model) const override {
    auto out = function_of(model);
    if (config_of(model).position != position_embedding::learned_absolute)
      out.erase("positions");
    if (const auto experts = out.find("experts"); experts != out.end())
      for (const auto* field :
           {"balance_weights", "z_weight", "jitter", "bias_rate", "quantile_decay"})
        experts->erase(field);
    return json_text(out);
  }

  unit_letters letters(const model_description& model) const override {
    return gpt_letters(config_of(model).layers);
  }

  std::int64_t parameter_count(const model_description& model) const override {
    return runtime::parameter_count(config_of(model));
  }

  std::int64_t fewest_parameters(const model_description& model) const override {
    const auto& x = config_of(model);
    return std::max(x.layers, x.heads);  // each has at least one
  }

  std::vector<shared_size> shared_by_tensor_ranks(const model_description& model) const override {
    const auto& x = config_of(model);
    std::vector<shared_size> out = {{"`model.heads`", x.heads, x.has_latents() ? 0 : x.hidden}};
    if (x.groups != x.heads)
      out.push_back({"`model.groups`", x.groups, x.heads});
    const auto experts = x.expert_layers();
    if (experts.empty() || std::find(experts.begin(), experts.end(), false) != experts.end())
      out.push_back({"`model.ffn`", x.ffn});
    if (x.experts.shared_ffn > 0)
      out.push_back({"`model.experts.shared_ffn`", x.experts.shared_ffn});
    if (x.qk_norm_rows)
      out.push_back({"the number of parts of `model.qk_norm_rows`", 1, 1});
    out.push_back({"the padded vocabulary", x.padded_vocabulary});
    return out;
  }

  std::vector<shared_size> shared_by_expert_ranks(const model_description& model) const override {
    const auto& x = config_of(model);
    if (!x.has_experts())
      return {};
    return {{"`model.experts.number`", x.experts.number, 0, axis::expert},
            {"`model.experts.ffn`", x.experts.ffn, 0, axis::expert_tensor}};
  }

  std::optional<dense_origin> dense_origin_of(const model_description& model,
                                              std::int64_t granularity,
                                              std::vector<std::string>& wrong) const override {
    return runtime::dense_origin_of(config_of(model), granularity, wrong);
  }

  std::string describe(const model_description& model, const extension& own) const override {
    return text_of(config_of(model), runtime::parameter_count(spec(model, own)));
  }

  const hub_translation* hub() const override { return &gpt_hub(); }

  std::optional<theoretical_memory> megatron_memory(const model_description& model,
                                                    const job_outline& job) const override {
    const auto& x = config_of(model);
    if (!has_estimates(x))
      return {};
    return gpt_megatron_memory(x, job);
  }

  std::optional<pytorch_memory> pytorch_estimate(const model_description& model,
                                                 const job_outline& job,
                                                 pytorch_mode mode) const override {
    const auto& x = config_of(model);
    if (!has_estimates(x))
      return {};
    return gpt_pytorch_memory(x, job, mode);
  }

  std::optional<model_outline> outline(const model_description& model) const override {
    return gpt_outline(config_of(model));
  }

  std::vector<bound_setting> bind(std::any& asked) const override {
    return runtime::bind(std::any_cast<gpt_asked&>(asked));
  }

  std::vector<setting_group> groups() const override {
    return {{"Model: its shape",
             "model.layers model.hidden model.heads model.ffn model.head_size "
             "model.grouped_queries model.groups model.sequence model.positions "
             "model.vocabulary_divisor checkpoints.load_hub"},
            {"Model: its layers",
             "model.position model.normalization model.norm_epsilon model.gain_offset "
             "model.qk_norm model.qk_norm_rows model.window model.*"},
            {"Model: rotary positions",
             "model.rotary_* model.scaling model.scaling_factor model.yarn_factor "
             "model.scaling_positions model.yarn_fast model.yarn_slow model.yarn_round "
             "model.yarn_*"},
            {"Model: latent attention", "model.latent_attention model.latent.*"},
            {"Model: mixture of experts",
             "model.experts.number model.experts.layers model.experts.ffn model.experts.*"}};
  }

  std::vector<required_setting> required() const override {
    return {{"model.layers", "2"},
            {"model.hidden", "64"},
            {"model.heads", "4"},
            {"model.sequence", "64"}};
  }
};

}  // namespace

const model_family& gpt_family() {
  static const gpt only;
  return only;
}

const model_family& family_of(const gpt_config& /*config*/) {
  return gpt_family();
}

}  // namespace troupe::runtime
