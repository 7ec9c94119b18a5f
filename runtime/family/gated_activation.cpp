#include "runtime/family/gated_activation.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace troupe::runtime {
namespace {

struct named_activation {
  std::string_view name;
  gated_activation value;
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

const named_activation* find_activation(std::string_view name) {
  const auto* const found = std::ranges::find(activations, name, &named_activation::name);
  return found == std::end(activations) ? nullptr : found;
}

}  // namespace

gated_activation activation_named(std::string_view name) {
  if (const auto* const found = find_activation(name))
    return found->value;
  throw input_error("`model.activation` '{}' is unknown", name);
}

void require_activation(std::string_view name, std::vector<std::string>& out) {
  if (find_activation(name) != nullptr)
    return;
  std::string names;
  for (const auto& known : activations)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  out.push_back(fmt::format("`model.activation` is '{}'; give one of {}", name, names));
}

}  // namespace troupe::runtime
