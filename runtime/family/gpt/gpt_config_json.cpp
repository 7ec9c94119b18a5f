#include "runtime/family/config_json.hpp"
#include "runtime/family/gpt/gpt_config.hpp"

namespace troupe::runtime {
namespace {

constexpr enum_name position_names[]
    = {{"learned_absolute", int(position_embedding::learned_absolute)},
       {"rope", int(position_embedding::rope)},
       {"none", int(position_embedding::none)}};
constexpr enum_name scaling_names[] = {{"none", int(rope_scaling::none)},
                                       {"llama3", int(rope_scaling::llama3)},
                                       {"yarn", int(rope_scaling::yarn)}};

}  // namespace

std::span<const enum_name> names_of(position_embedding) {
  return position_names;
}
std::span<const enum_name> names_of(rope_scaling) {
  return scaling_names;
}

// The gated silu has had the name "swiglu" since before other activations could be gated.
std::string to_json(const gpt_config& config) {
  auto out = config_json::written(config);
  if (config.gated && config.activation == kernels::activation::silu) {
    out["activation"] = "swiglu";
    out.erase("gated");
  }
  return json_text(out);
}

gpt_config gpt_config_from_json(const std::string& text) {
  auto in = json_value_or_discarded(text);
  if (!in.is_object() || in.value("activation", nlohmann::json()) != "swiglu")
    return config_from_json<gpt_config>(text, "a GPT");
  in["activation"] = kernels::text(kernels::activation::silu);
  in["gated"] = true;
  return config_from_json<gpt_config>(json_text(in), "a GPT");
}

}  // namespace troupe::runtime
