#include "runtime/family/gpt/gpt_asked.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Reads Megatron-LM's tuple: two numbers, with or without parentheses.
std::int64_t window_from(const std::string& word) {
  auto inner = word;
  std::erase_if(inner, [](char c) { return c == '(' || c == ')' || c == ' '; });
  const auto comma = std::min(inner.find(','), inner.size());
  if (inner.substr(std::min(comma + 1, inner.size())) != "0")
    throw input_error(
        "cannot read `model.window` '{}': give LEFT,0: how many earlier tokens each token sees, "
        "and no later ones",
        word);
  const whole_range range{.least = -1};
  const auto left = number_in(range, inner.substr(0, comma));
  if (!left)
    throw input_error(
        "cannot read `model.window` '{}': give {}", inner.substr(0, comma), range_text(range));
  return *left;
}

}  // namespace

std::vector<bound_setting> bind(gpt_asked& to) {
  auto out = bind_settings(to, "model.");
  for (auto& x : out)
    if (x.name == "model.window")
      x.read_by([&to](const auto& words) { to.config.window = window_from(words.front()); });
    else if (x.name == "model.activation=swiglu")
      x.read_by([&to](const auto&) {
        to.config.activation = activation_kind::silu;
        to.config.gated = true;
      });
    else if (x.name == "model.activation=gelu_erf")
      x.read_by([&to](const auto&) {  // other activations take precedence
        if (auto& kind = to.config.activation; kind == activation_kind::gelu_tanh)
          kind = activation_kind::gelu_erf;
      });
  return out;
}

}  // namespace troupe::runtime
