// Builds an AdamW step over several arrays that also writes fingerprints of its results.

#pragma once

#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <random>

namespace troupe::tests {

/// The owners in `of` outlive it.
template <class Memory>
class fingerprinted {
 public:
  fingerprinted(std::vector<Memory>& of, std::int64_t grain)
      : of_(of), grain_(grain), results(6 * of.size(), 1) {
    std::mt19937_64 draw(5);
    for (const auto& one : of)
      for (std::int64_t g = 3 * kernels::grains_in(one.n, grain); g > 0; --g)
        keys.push_back(draw());
  }

  /// The step; keys and results are host arrays.
  kernels::adamw_pieces<float> step() {
    pieces.clear();
    const auto* key = keys.data();
    for (auto& one : of_) {
      const auto op = one.step();
      pieces.push_back({op.x, op.m, op.v, op.dx, op.rounded, op.n, op.weight_decay, key});
      key += 3 * kernels::grains_in(one.n, grain_);
    }
    Memory any{.n = 1};
    const auto like = any.step();
    return {.pieces = pieces.data(),
            .count = std::int64_t(pieces.size()),
            .rounded_to = like.rounded_to,
            .gradient_scale = like.gradient_scale,
            .rate = like.rate,
            .beta1 = like.beta1,
            .beta2 = like.beta2,
            .eps = like.eps,
            .correction1 = like.correction1,
            .correction2 = like.correction2,
            .fingerprints = results.data(),
            .grain = grain_};
  }

  /// Fingerprints of the owners' current arrays, computed by the reference.
  std::vector<std::uint64_t> expected() const {
    std::vector<kernels::fingerprint<float>::piece> arrays;
    const auto* key = keys.data();
    for (const auto& one : of_)
      for (const auto* const array : {&one.x, &one.m, &one.v}) {
        arrays.push_back({array->data(), one.n, key});
        key += kernels::grains_in(one.n, grain_);
      }
    std::vector<std::uint64_t> out(results.size());
    kernels::reference::run(kernels::fingerprint<float>{
        out.data(), arrays.data(), std::int64_t(arrays.size()), grain_});
    return out;
  }

 private:
  std::vector<Memory>& of_;
  std::int64_t grain_;

 public:
  std::vector<std::uint64_t> keys, results;
  std::vector<typename kernels::adamw_pieces<float>::piece> pieces;
};

}  // namespace troupe::tests
