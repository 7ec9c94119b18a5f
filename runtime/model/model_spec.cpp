#include "runtime/model/model_spec.hpp"

#include "runtime/core/error.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <algorithm>

namespace troupe::runtime {

unit_letters model_spec::letters() const {
  unit_letters out;
  for (const auto& unit : units) {
    const bool layer = unit.layer >= 0;
    if (out.empty() || out.back().letter != unit.letter || out.back().layers != layer)
      out.push_back({unit.letter, 0, layer});
    ++out.back().units;
  }
  return out;
}

const stream_spec& model_spec::stream_of(std::string_view name) const {
  for (const auto& x : streams)
    if (x.name == name)
      return x;
  throw broken_promise("MODEL-2: a unit works on a stream of its model");
}

std::vector<loss_spec> losses_of(const model_spec& model) {
  std::vector<loss_spec> out;
  const auto add = [&out](const model_unit& unit) {
    for (const auto& x : unit.module.traits().losses) {
      const auto found
          = std::ranges::find_if(out, [&x](const auto& one) { return one.name == x.name; });
      ensure(x.name.ends_with("loss") && (found == out.end() || found->weight == x.weight),
             "MODEL-6: a loss has one weight, and its name ends in 'loss'");
      if (found == out.end())
        out.push_back(x);
    }
  };
  if (!model.units.empty())
    add(model.units.back());
  for (const auto& unit : model.units)
    add(unit);
  return out;
}

bool is_only_lm_loss(const std::vector<loss_spec>& losses) {
  return losses.size() == 1 && losses.front().name == lm_loss && losses.front().weight == 1;
}

void model_spec::missing_part() {
  throw broken_promise("MODEL-3: a model has the part that is asked for");
}

}  // namespace troupe::runtime
