#include "runtime/optim/optimizer_settings.hpp"

#include "runtime/core/names.hpp"

#include <fmt/format.h>

namespace troupe::runtime {
namespace {

constexpr std::string_view kind_names[] = {"adam", "sgd", "lion", "muon"};
constexpr std::string_view scale_names[] = {"spectral", "unit_rms_norm", "shape_scaling"};
constexpr std::string_view coefficient_names[] = {"simple", "quintic", "polar_express"};
constexpr std::string_view mode_names[] = {"blockwise", "duplicated", "distributed"};

constexpr std::string_view two_moments[] = {"exp_avg", "exp_avg_sq"};
constexpr std::string_view one_moment[] = {"exp_avg"};
constexpr std::string_view momentum[] = {"momentum_buffer"};

}  // namespace

std::string_view to_string(optimizer_kind x) {
  return kind_names[std::size_t(x)];
}
std::string_view to_string(muon_scale x) {
  return scale_names[std::size_t(x)];
}
std::string_view to_string(muon_coefficients x) {
  return coefficient_names[std::size_t(x)];
}
std::string_view to_string(muon_tensor_mode x) {
  return mode_names[std::size_t(x)];
}
std::optional<optimizer_kind> optimizer_kind_from(std::string_view name) {
  return value_named<optimizer_kind>(kind_names, name);
}

optimizer_kind rule_of(const optimizer_settings& settings, const parameter_spec& parameter) {
  if (settings.kind != optimizer_kind::muon)
    return settings.kind;
  const bool matrices = parameter.extents.rank() == (parameter.stacked ? 3 : 2);
  return matrices && !parameter.embedding_or_output ? optimizer_kind::muon : settings.muon.others;
}

std::span<const std::string_view> state_names(optimizer_kind rule) {
  switch (rule) {
    case optimizer_kind::adam:
      return two_moments;
    case optimizer_kind::lion:
      return one_moment;
    case optimizer_kind::sgd:
    case optimizer_kind::muon:
      return momentum;
  }
  return {};
}

std::string state_kind(const optimizer_settings& settings) {
  const auto name = to_string(settings.kind);
  return settings.kind == optimizer_kind::muon
             ? fmt::format("{}, others by {}", name, to_string(settings.muon.others))
             : std::string(name);
}

}  // namespace troupe::runtime
