// Names of backends, for folders that do not include the kernels.

#pragma once

#include "kernels/backend/backend.hpp"

#include <optional>
#include <string_view>

namespace troupe::runtime {

using backend_kind = kernels::backend;

constexpr std::string_view to_string(backend_kind x) {
  return x == backend_kind::reference ? "reference" : x == backend_kind::cpu ? "cpu" : "cuda";
}
constexpr std::optional<backend_kind> backend_from(std::string_view name) {
  for (const auto x : {backend_kind::reference, backend_kind::cpu, backend_kind::cuda})
    if (to_string(x) == name)
      return x;
  return std::nullopt;
}

}  // namespace troupe::runtime
