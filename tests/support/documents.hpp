// Batches with several documents per row; attention does not cross their borders.

#pragma once

#include "tests/support/formula_source.hpp"

#include <vector>

namespace troupe::tests {

/// `starts`: the first row of each document, then the number of rows. `samples`: the sample of each
/// document.
inline void add_documents(runtime::bundle& to,
                          const std::vector<std::int32_t>& starts,
                          const std::vector<std::uint64_t>& samples) {
  runtime::memory_pool pool;
  const auto filled = [&]<class T>(const std::vector<T>& from) {
    runtime::tensor out(pool.allocate(from.size() * sizeof(T)),
                        runtime::dtype_of<T>(),
                        {std::int64_t(from.size())});
    std::copy(from.begin(), from.end(), out.template data<T>());
    return out;
  };
  to.add("documents", filled(starts));
  to.add("document_samples", filled(samples));
}

/// Gives the tokens of a formula_source with two documents per row; the cut differs per sample.
class documents_source final : public runtime::batch_source {
 public:
  explicit documents_source(const runtime::recipe& recipe) : of_(recipe, true) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    auto out = of_.microbatch(at);
    const auto B = out.at("tokens").extents()[0], T = out.at("tokens").extents()[1];
    std::vector<std::int32_t> starts;
    std::vector<std::uint64_t> samples;
    for (std::int64_t b = 0; b < B; ++b) {
      const auto sample = out.at("samples").elements<std::uint64_t>()[std::size_t(b)];
      for (const auto first : {std::int64_t{0}, 1 + std::int64_t(sample) % (T - 1)}) {
        starts.push_back(std::int32_t(b * T + first));
        samples.push_back(sample);
      }
    }
    starts.push_back(std::int32_t(B * T));
    add_documents(out, starts, samples);
    return out;
  }

 private:
  formula_source of_;
};

}  // namespace troupe::tests
