// The model families that tests play beside the default one. Those that only tests have are
// registered here, and named nowhere else.

#pragma once

#include "runtime/family/families.hpp"
#include "tests/family/toy/toy_family.hpp"

#include <vector>

namespace troupe::tests {

/// All families but the default one. The first call registers those of tests; it must come before
/// the first job of one.
inline const std::vector<const runtime::model_family*>& test_families() {
  static const std::vector<const runtime::model_family*> all = [] {
    runtime::add_family(toy::family());
    runtime::add_family(toy::mixture());
    auto out = runtime::families();
    std::erase(out, &runtime::default_family());
    return out;
  }();
  return all;
}

}  // namespace troupe::tests
