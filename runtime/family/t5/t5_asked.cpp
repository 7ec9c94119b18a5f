#include "runtime/family/gated_activation.hpp"
#include "runtime/family/hub_contradictions.hpp"
#include "runtime/family/size_rules.hpp"
#include "runtime/family/t5/t5.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

void refuse_idle(const t5_config& x, const given_settings& given, sentences& wrong) {
  const auto refuse = [&](const char* setting, const char* without) {
    if (given.contains(setting))
      wrong.push_back(fmt::format("`{}` does nothing {}: leave it out", setting, without));
  };
  if (x.is_relative()) {
    refuse("model.positions", "with `model.position` relative");
  } else {
    refuse("model.buckets", "without `model.position` relative");
    refuse("model.most_distance", "without `model.position` relative");
  }
  if (x.init_by_width)
    refuse("model.init_std", "with `model.form` v1.0 or v1.1, whose weights begin by their widths");
}

}  // namespace

std::optional<t5_config> resolve(const t5_asked& asked,
                                 const given_settings& given,
                                 sentences& wrong) {
  auto out = t5_form(asked.form);
  for_each_field<t5_config>([&](const auto& row) {
    const auto setting = std::string("model.") + row.name;  // or a toggle of one of its values
    if (given.contains(setting) || !given_below(given, setting + "=").empty())
      out.*row.member = asked.config.*row.member;
  });
  out.masking = asked.config.masking;
  const auto has = [&given](const char* setting) { return given.contains(setting); };
  if (are_several(given,
                  {"model.activation=swiglu",
                   "model.activation=squared_relu",
                   "model.activation=gelu_erf"}))
    wrong.emplace_back(
        "`model.activation=swiglu`, `model.activation=squared_relu` and "
        "`model.activation=gelu_erf` are activations: give one");
  // Megatron-LM's fused kernel has the tanh formula and adds a bias, so it is off without biases.
  if (!out.linear_bias && out.activation == "gelu_tanh")
    out.activation = "gelu_erf";
  if (!out.tied_embeddings)  // as in Megatron-LM, and in version 1.1
    out.head_scaled = out.head_bias = false;
  if (has("model.layers") && has("model.encoder_layers") && has("model.decoder_layers"))
    wrong.emplace_back(
        "`model.layers` does nothing beside `model.encoder_layers` and `model.decoder_layers`: "
        "leave it out");
  if (!has("model.encoder_layers"))
    out.encoder_layers = asked.layers.value_or(0);
  if (!has("model.decoder_layers"))
    out.decoder_layers = asked.layers.value_or(out.encoder_layers);
  if (has("model.sequence") && has("model.encoder_sequence"))
    wrong.emplace_back(
        "`model.sequence` and `model.encoder_sequence` are the same length: give one");
  if (asked.sequence)
    out.encoder_sequence = *asked.sequence;
  if (has("model.hidden") && has("model.heads") && !has("model.head_size")) {
    require_multiple(out.hidden, out.heads, ", or the size of a head by `model.head_size`", wrong);
    out.head_size = std::max<std::int64_t>(out.hidden / out.heads, 1);
  }
  if (!has("model.ffn"))
    out.ffn = activation_named(out.activation).gated
                  ? std::max<std::int64_t>(gated_ffn(out.hidden), 64)
                  : 4 * out.hidden;
  refuse_idle(out, given, wrong);
  if (!has("model.positions") && !out.is_relative())
    out.positions = std::max(out.encoder_sequence, out.decoder_sequence);
  if (out.encoder_layers > 0 && has("model.hidden") && has("model.heads")
      && out.encoder_sequence > 0 && has("model.decoder_sequence"))
    return out;
  return std::nullopt;
}

t5_config resolve_hub(const t5_config& there,
                      const t5_asked& asked,
                      const given_settings& given,
                      const std::string& hub,
                      sentences& wrong) {
  auto out = there;
  const auto& said = asked.config;
  contradictions found(hub, wrong);
  const auto is_free = [](std::string_view member) {
    return member == "positions" || member == "extra_ids";  // no config.json has sentinels
  };
  compare_settings(said, there, given, is_free, found);
  found.require("model.form", given.contains("model.form"), false);
  if (asked.layers
      && (*asked.layers != there.encoder_layers || *asked.layers != there.decoder_layers))
    found.add("model.layers", *asked.layers, there.encoder_layers);
  if (asked.sequence)
    out.encoder_sequence = *asked.sequence;
  if (given.contains("model.extra_ids"))
    out.extra_ids = said.extra_ids;
  take_training(given, said, out);
  refuse_idle(out, given, wrong);
  return out;
}

void write_back(const t5_config& config, t5_asked& asked, given_settings& given, bool from_hub) {
  const auto decides = [&](const std::vector<std::string_view>& members) {
    decide_members(given, "model.", asked.config, config, members);
  };
  decides({"hidden_dropout", "attention_dropout", "decoder_sequence"});
  if (!asked.sequence)
    decides({"encoder_sequence"});
  if (from_hub)
    return;  // the rest of the shape is in the Hugging Face folder
  if (!asked.layers)
    decides({"decoder_layers"});
  decides({"head_size", "ffn", "position", "normalization", "norm_epsilon"});
  if (config.is_relative())
    decides({"buckets", "most_distance"});
  else
    decides({"positions"});
}

}  // namespace troupe::runtime
