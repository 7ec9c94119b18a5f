#include "runtime/family/family_samples.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/family/text_samples.hpp"

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

std::shared_ptr<const batch_source> made_up_batches(const model_description& model,
                                                    data_split part,
                                                    batch_layout layout,
                                                    std::uint64_t seed) {
  const auto& by = model.family().samples();
  if (&by == &text_samples())
    return nullptr;
  const data_settings data{.mock = true};
  return std::make_shared<dataset_source>(
      by.open(model, {.data = data, .part = part, .samples = 1 << 20, .seed = seed}),
      layout,
      memory_pool());
}

}  // namespace troupe::runtime
