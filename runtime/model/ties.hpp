// Tied parameters: one parameter that several units use. Each use has its own gradient; the sum of
// all uses in model order updates the parameter.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/model/model_spec.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct tie {
  std::string owner;                ///< the parameter; the names of the other uses differ
  std::vector<std::int64_t> units;  ///< one per use, in model order; the owner's first
};

/// A tied parameter, by its owner's name, in a copy of the model.
using tied_copy = std::pair<std::string, copy_id>;
/// The member of a group that has each use of a tied parameter, in model order.
using tie_holders = std::map<tied_copy, std::vector<int>>;

/// All ties of a model, by module_traits::tied_to. Breaks MODEL-1 if a parameter is tied to one of
/// no unit before it.
std::vector<tie> ties_of(const model_spec& model);

}  // namespace troupe::runtime
