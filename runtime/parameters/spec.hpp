// What parameters there are, before there is memory for them.

#pragma once

#include "runtime/tensor/shape.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

struct parameter_spec {
  std::string name;          ///< full and unsharded, e.g. "decoder.layers.3.mlp.linear_fc1.weight"
  shape extents;             ///< unsharded, padding rows included
  double init_std = 0;       ///< normal numbers with this deviation ...
  double init_constant = 0;  ///< ... or, where that is 0, this value
  bool decays = false;       ///< weight decay applies: it has two dimensions or more
  std::int64_t valid_rows = -1;  ///< rows from here on are padding, always zero; -1: none
  std::string tied_to = {};      ///< the parameter whose values these are; the gradient is its own
};

/// What is acquired, released and emitted together: a layer, the embedding, the head.
struct unit_spec {
  std::string name;
  std::vector<parameter_spec> parameters;
};

/// Elements that are not padding.
inline std::int64_t valid_size(const parameter_spec& x) {
  if (x.valid_rows < 0)
    return x.extents.size();
  return x.valid_rows * (x.extents.size() / x.extents[0]);
}

}  // namespace troupe::runtime
