// Fingerprints of arrays, computed by the reference, for tests of updates and norms.

#pragma once

#include "kernels/reference/reference.hpp"
#include "tests/support/numbers.hpp"

#include <random>
#include <vector>

namespace troupe::tests {

/// Keys for `arrays` arrays of n elements each.
inline std::vector<std::uint64_t> keys_for(std::int64_t arrays,
                                           std::int64_t n,
                                           std::int64_t grain) {
  std::mt19937_64 draw(5);
  std::vector<std::uint64_t> out;
  for (std::int64_t i = arrays * kernels::grains_in(n, grain); i > 0; --i)
    out.push_back(draw());
  return out;
}

/// All arrays have the same size.
inline std::vector<std::uint64_t> fingerprints_of(const std::vector<std::vector<float>>& arrays,
                                                  const std::vector<std::uint64_t>& keys,
                                                  std::int64_t grain) {
  std::vector<kernels::fingerprint<float>::piece> pieces;
  for (const auto& x : arrays)
    pieces.push_back(
        {x.data(),
         std::int64_t(x.size()),
         keys.data()
             + std::int64_t(pieces.size()) * kernels::grains_in(std::int64_t(x.size()), grain)});
  std::vector<std::uint64_t> out(2 * arrays.size());
  kernels::reference::run(
      kernels::fingerprint<float>{out.data(), pieces.data(), std::int64_t(pieces.size()), grain});
  return out;
}

/// Square norms and fingerprints of several arrays. Fingerprints cover the bits of the elements,
/// norms their values.
class normed_arrays {
 public:
  normed_arrays(const std::vector<std::int64_t>& sizes, std::int64_t grain) : grain_(grain) {
    for (const auto n : sizes) {
      grains_ += kernels::grains_in(n, grain);
      x.push_back(normal<float>(std::size_t(n), std::uint32_t(x.size() + 1)));
    }
    keys = keys_for(1, grains_, 1);
  }

  /// `at(i)` is the address of array i; keys begin at `key`.
  template <class At>
  kernels::square_norms<float> operation(const At& at, const std::uint64_t* key) {
    pieces_.clear();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto n = std::int64_t(x[i].size());
      pieces_.push_back({at(i), n, key});
      key += kernels::grains_in(n, grain_);
    }
    return {.results = nullptr,
            .pieces = pieces_.data(),
            .count = std::int64_t(pieces_.size()),
            .grain = grain_};
  }
  std::int64_t grains() const { return grains_; }

  /// Computed by the reference.
  std::vector<double> norms() {
    std::vector<double> out(std::size_t(grains_), -1);
    auto op = operation([&](std::size_t i) { return x[i].data(); }, keys.data());
    op.results = out.data();
    kernels::reference::run(op);
    return out;
  }
  std::vector<std::uint64_t> fingerprints() {
    std::vector<std::uint64_t> out(2 * x.size(), 1);
    std::vector<double> ignored(static_cast<std::size_t>(grains_));
    auto op = operation([&](std::size_t i) { return x[i].data(); }, keys.data());
    op.results = ignored.data();
    op.fingerprints = out.data();
    kernels::reference::run(op);
    return out;
  }

  std::vector<std::vector<float>> x;
  std::vector<std::uint64_t> keys;

 private:
  std::int64_t grain_, grains_ = 0;
  std::vector<kernels::square_norms<float>::piece> pieces_;
};

inline kernels::momentum_step<float> momentum_like(kernels::momentum_rule rule) {
  const bool lion = rule == kernels::momentum_rule::lion;
  return {.x = nullptr,
          .m = nullptr,
          .dx = nullptr,
          .n = 0,
          .rule = rule,
          .gradient_scale = 0.5F,
          .rate = 0.25F,
          .beta1 = lion ? 0.95F : 0.9F,
          .beta2 = lion ? 0.98F : 0.0F,
          .weight_decay = 0.1F};
}

}  // namespace troupe::tests
