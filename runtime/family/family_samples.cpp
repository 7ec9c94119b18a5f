#include "runtime/family/family_samples.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/family/model_family.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

samples_text family_samples::describe(const model_description& model,
                                      const samples_request& all,
                                      std::int64_t /*tokens*/) const {
  return {.before = fmt::format("{} for {} from ",
                                counted(std::int64_t(all.samples.value_or(0)), "training sample"),
                                model.family().title()),
          .after = {}};
}

}  // namespace troupe::runtime
