// Made-up tokens with something to learn in them.

#pragma once

#include "runtime/core/random.hpp"
#include "runtime/trainer/reference_trainer.hpp"

namespace troupe::tests {

/// Token (sample, t) is a function of its place, with a little structure to learn.
class formula_source final : public runtime::batch_source {
 public:
  formula_source(const runtime::recipe& how, bool masked) : how_(how), masked_(masked) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    const auto B = how_.batch.micro, T = how_.model.sequence;
    runtime::batch x;
    x.B = B;
    x.T = T;
    for (std::int64_t b = 0; b < B; ++b) {
      const auto sample
          = runtime::sample_position({std::uint64_t(B), std::uint64_t(how_.batch.data_parallel)},
                                     at.consumed,
                                     at.microbatch,
                                     at.replica,
                                     std::uint64_t(b));
      x.positions.push_back(sample);
      for (std::int64_t t = 0; t < T; ++t) {
        x.tokens.push_back(token(sample, t));
        x.labels.push_back(token(sample, t + 1));
        x.loss_mask.push_back(masked_ && (sample + std::uint64_t(t)) % 5 == 0 ? 0.0F : 1.0F);
        x.position_ids.push_back(std::int32_t(t));
      }
    }
    return runtime::to_bundle(x, pool_);
  }

 private:
  std::int32_t token(std::uint64_t sample, std::int64_t t) const {
    const auto noise = runtime::uniform(sample, std::uint64_t(t));
    const auto period = std::int64_t(sample % 3) + 2;
    return noise < 0.2 ? std::int32_t(noise * 5 * double(how_.model.vocabulary))
                       : std::int32_t((t % period) * 3 % how_.model.vocabulary);
  }

  runtime::recipe how_;
  bool masked_;
  mutable runtime::memory_pool pool_;
};

}  // namespace troupe::tests
