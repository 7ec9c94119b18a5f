#include "runtime/optim/fingerprints.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {

void read_fingerprints(reads& by,
                       const std::vector<fingerprint_piece>& pieces,
                       std::int64_t grain,
                       std::function<void(const std::vector<digest>&)> then) {
  auto results = tensor::empty<std::uint64_t>(by.stream(), {std::int64_t(pieces.size()), 2});
  by.stream().run(kernels::fingerprint<float>{results.data<std::uint64_t>(),
                                              pieces.data(),
                                              std::int64_t(pieces.size()),
                                              std::max<std::int64_t>(1, grain)});
  read_fingerprints(by, results, std::move(then));
}

void read_fingerprints(reads& by,
                       const tensor& results,
                       std::function<void(const std::vector<digest>&)> then) {
  by.add<std::uint64_t>(results, [then = std::move(then)](std::span<const std::uint64_t> words) {
    std::vector<digest> out;
    for (std::size_t i = 0; i < words.size(); i += 2)
      out.push_back({words[i], words[i + 1]});
    then(out);
  });
}

std::int64_t words_of(dtype type, std::int64_t elements) {
  const auto bytes = elements * std::int64_t(size_of(type));
  ensure(bytes % 4 == 0, "DIGEST-1: a digest is of every byte");
  return bytes / 4;
}

}  // namespace troupe::runtime
