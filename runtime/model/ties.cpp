#include "runtime/model/ties.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// The unit before `end` with this parameter, by the prefix of its name.
std::int64_t unit_of(const model_spec& model, const std::string& parameter, std::int64_t end) {
  for (std::int64_t u = 0; u < end; ++u)
    if (const auto& prefix = model.units[std::size_t(u)].prefix;
        !prefix.empty() && parameter.starts_with(prefix + "."))
      return u;
  throw broken_promise("MODEL-1: a parameter is tied to one before it in the model: " + parameter);
}

}  // namespace

std::vector<tie> ties_of(const model_spec& model) {
  std::vector<tie> out;
  for (std::int64_t u = 0; u < std::int64_t(model.units.size()); ++u)
    for (const auto& owner : model.units[std::size_t(u)].module.traits().tied_to) {
      auto known = std::find_if(
          out.begin(), out.end(), [&](const tie& other) { return other.owner == owner; });
      if (known == out.end())
        known = out.insert(out.end(), {owner, {unit_of(model, owner, u)}});
      known->units.push_back(u);
    }
  return out;
}

}  // namespace troupe::runtime
