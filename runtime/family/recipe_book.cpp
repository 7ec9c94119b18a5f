#include "runtime/family/recipe_book.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/counts.hpp"

#include <fmt/format.h>
#include <map>
#include <string_view>

namespace troupe::runtime {
namespace {

hub_recipe recipe_of(const parameter_spec& x, const hub_name& by, std::int64_t layer) {
  hub_recipe out{.name = x.name, .extents = whole_extents(x)};
  const auto* const kind = x.name.ends_with(".bias") ? by.bias : by.weight;
  const auto share = out.extents[0] / (by.groups * std::int64_t(by.theirs.size()));
  for (std::int64_t group = 0; group < by.groups; ++group)
    for (const auto& source : by.theirs)
      out.rows.push_back({fmt::format(fmt::runtime(source), layer) + "." + kind,
                          group * share,
                          share,
                          by.groups * share});
  return out;
}

}  // namespace

gguf_plan hub_translation::gguf_of(const model_description& model) const {
  throw input_error(
      "GGUF files of the family '{}' are not written: export the model as a folder of Hugging Face",
      model.family().name());
}

std::vector<hub_recipe> recipes_by_name(const model_spec& model,
                                        const std::vector<hub_name>& names) {
  std::map<std::string_view, const hub_name*> known;
  for (const auto& x : names)
    known.emplace(x.ours, &x);
  std::vector<hub_recipe> out;
  for (const auto& unit : model.units)
    for (const auto& x : unit_parameters(unit)) {
      auto stem = x.name.substr(0, x.name.rfind('.'));
      if (const auto number = std::to_string(unit.layer); unit.layer >= 0)
        stem.replace(unit.prefix.size() - number.size(), number.size(), "{}");
      if (const auto found = known.find(stem); found != known.end() && x.tied_to.empty())
        out.push_back(recipe_of(x, *found->second, unit.layer));
    }
  return out;
}

}  // namespace troupe::runtime
