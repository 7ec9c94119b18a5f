// The model of two_streams.hpp with frozen units.

#pragma once

#include "runtime/model/chunk.hpp"
#include "tests/support/two_streams.hpp"

#include <set>
#include <string>
#include <vector>

namespace troupe::tests {

using frozen_units = std::vector<std::size_t>;
/// The summary and a layer.
inline const frozen_units frozen_tower = {1, 3};
/// All units that use the table.
inline const frozen_units frozen_ties = {0, 4, 6};

inline runtime::model_spec frozen_streams(const frozen_units& which) {
  auto out = two_streams();
  for (const auto u : which)
    out.units[u].frozen = true;
  return out;
}

inline std::set<std::string> frozen_names(const runtime::model_spec& model) {
  std::set<std::string> out;
  const runtime::chunk all(model, {0, std::int64_t(model.units.size())});
  for (const auto& unit : all.units())
    for (const auto& x : unit.parameters)
      if (x.frozen)
        out.insert(x.name);
  return out;
}

}  // namespace troupe::tests
