// Reads settings of Muon by their names in golden files.

#pragma once

#include "runtime/core/names.hpp"
#include "runtime/optim/optimizer_settings.hpp"

#include <string_view>

namespace troupe::tests {

inline runtime::muon_scale muon_scale_from(std::string_view name) {
  constexpr std::string_view names[] = {"spectral", "unit_rms_norm", "shape_scaling"};
  return runtime::value_named<runtime::muon_scale>(names, name).value();
}

inline runtime::muon_coefficients muon_coefficients_from(std::string_view name) {
  constexpr std::string_view names[] = {"simple", "quintic", "polar_express"};
  return runtime::value_named<runtime::muon_coefficients>(names, name).value();
}

}  // namespace troupe::tests
