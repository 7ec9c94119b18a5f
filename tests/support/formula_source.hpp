// A data source with made-up tokens that a model can learn.

#pragma once

#include "runtime/core/random.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/trainer/reference_trainer.hpp"

namespace troupe::tests {

/// Token (sample, t) is a function of sample and t: periodic, with 20 % noise.
class formula_source final : public runtime::batch_source {
 public:
  formula_source(const runtime::recipe& recipe, bool masked) : recipe_(recipe), masked_(masked) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    const auto B = recipe_.batch.micro, T = recipe_.model.sequence();
    auto x = runtime::empty_batch(runtime::token_schema(T), B, pool_);
    for (std::int64_t b = 0; b < B; ++b) {
      const auto sample
          = runtime::sample_position({std::uint64_t(B), std::uint64_t(recipe_.batch.data_parallel)},
                                     at.consumed,
                                     at.microbatch,
                                     at.replica,
                                     std::uint64_t(b));
      const runtime::sample_view view(x, b);
      view.at<std::uint64_t>("samples").front() = sample;
      const runtime::token_row row(view);
      for (std::int64_t t = 0; t < T; ++t) {
        const auto at_t = std::size_t(t);
        row.tokens[at_t] = token(sample, t);
        row.labels[at_t] = token(sample, t + 1);
        row.mask[at_t] = masked_ && (sample + std::uint64_t(t)) % 5 == 0 ? 0.0F : 1.0F;
        row.positions[at_t] = std::int32_t(t);
      }
    }
    return x;
  }

 private:
  std::int32_t token(std::uint64_t sample, std::int64_t t) const {
    const auto noise = runtime::uniform(sample, std::uint64_t(t));
    const auto period = std::int64_t(sample % 3) + 2;
    return noise < 0.2 ? std::int32_t(noise * 5 * double(recipe_.model.vocabulary()))
                       : std::int32_t((t % period) * 3 % recipe_.model.vocabulary());
  }

  runtime::recipe recipe_;
  bool masked_;
  mutable runtime::memory_pool pool_;
};

}  // namespace troupe::tests
