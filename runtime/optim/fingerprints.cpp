#include "runtime/optim/fingerprints.hpp"

namespace troupe::runtime {

std::vector<digest> fingerprints_of(stream& on,
                                    const std::vector<kernels::fingerprint<float>::piece>& pieces) {
  auto results = tensor::empty<std::uint64_t>(on, {2 * std::int64_t(pieces.size())});
  on.run(kernels::fingerprint<float>{
      results.data<std::uint64_t>(), pieces.data(), std::int64_t(pieces.size())});
  const auto words = elements_of<std::uint64_t>(on, results);
  std::vector<digest> out;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    out.push_back({words[2 * i], words[2 * i + 1]});
  return out;
}

}  // namespace troupe::runtime
