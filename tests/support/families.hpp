// The model families that only tests have. Each is registered here, and named nowhere else.

#pragma once

#include "runtime/family/families.hpp"
#include "tests/family/toy/toy_family.hpp"

#include <vector>

namespace troupe::tests {

/// Registers them at its first call, which must come before the first job of one.
inline const std::vector<const runtime::model_family*>& test_families() {
  static const std::vector<const runtime::model_family*> all = [] {
    const std::vector<const runtime::model_family*> own = {&toy::family()};
    for (const auto* family : own)
      runtime::add_family(*family);
    return own;
  }();
  return all;
}

}  // namespace troupe::tests
