#include "runtime/model/counts.hpp"

#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::runtime {

std::vector<parameter_spec> unit_parameters(const model_unit& x) {
  unit_spec unit;
  std::vector<shape> caches;
  std::vector<segment> program;
  unit_under_construction whole{.unit = unit, .caches = caches, .program = program};
  module_builder to(whole, x.prefix);
  x.module.add_to(to);
  return std::move(unit.parameters);
}

std::int64_t parameter_count(const model_spec& model, bool with_padding_rows) {
  std::int64_t out = 0;
  for (const auto& x : model.units)
    for (const auto& parameter : unit_parameters(x))
      if (parameter.tied_to.empty())
        out += (with_padding_rows ? parameter.extents : whole_extents(parameter)).size();
  return out;
}

double training_flops(const model_spec& model, const batch_schema& schema, double samples) {
  double each = 0;
  for (const auto& unit : model.units) {
    const auto& positions = model.stream_of(unit.stream).positions;
    const bool known = schema.find(positions) != nullptr;
    const auto forward = unit.module.flops(known ? schema.rows_of(positions) : model.sequence);
    each += forward.parameters * (unit.frozen ? 2 : 3) + forward.activations * 3;
  }
  return samples * each;
}

std::vector<expert_load> loads_of(const model_spec& model,
                                  const std::vector<expert_rows>& counted,
                                  bool with_counts) {
  std::vector<expert_load> out;
  for (const auto& x : counted) {
    ensure(x.unit >= 0 && std::size_t(x.unit) < model.units.size(),
           "STEP-12: rows of experts are those of a unit of the model");
    out.push_back(load_of(x, model.units[std::size_t(x.unit)].name, with_counts));
  }
  return out;
}

}  // namespace troupe::runtime
