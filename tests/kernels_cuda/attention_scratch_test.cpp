// The scratch memory of our own attention is bounded; it does not grow with the square of the
// sequence length.

#include "kernels/cuda/run.hpp"
#include "kernels/op/attention.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe::kernels;

namespace {

/// S sequences of T queries that see `keys` keys.
attention_shape sequences(
    std::int64_t S, std::int64_t T, std::int64_t keys, std::int64_t H, std::int64_t D) {
  return {.S = S,
          .H = H,
          .G = H,
          .D = D,
          .Dv = D,
          .query_rows = S * T,
          .key_rows = S * keys,
          .longest_query = T,
          .longest_key = keys};
}

}  // namespace

TEST_CASE("the scratch memory of our attention is bounded forward and linear backward",
          "[attention]") {
  const std::int64_t S = GENERATE(1, 3, 64), T = GENERATE(1, 63, 1024, 131072);
  const std::int64_t H = GENERATE(1, 12, 96), D = GENERATE(64, 128, 256);
  const std::int64_t keys = GENERATE(1024, 1048576);
  CAPTURE(S, T, H, D, keys);
  const auto shape = sequences(S, T, keys, H, D);
  // At most 2 * 132 blocks hold partial sums: D + 2 numbers for each of 64 rows.
  const std::size_t most = std::size_t{264} * 64 * std::size_t(D + 2) * sizeof(float) + 4096;
  CHECK(cuda::scratch(attention_forward<bf16>{.shape = shape}) <= most);
  CHECK(cuda::scratch(attention_forward<float>{.shape = shape}) <= most);
  // One number per query and head, and the tiles of the sequences.
  const auto rows = std::size_t(S * T);
  const auto linear = rows * std::size_t(H) * 4 + (rows / 64 + std::size_t(S) + 1) * 32 + 4096;
  CHECK(cuda::scratch(attention_backward<bf16>{.shape = shape}) <= linear);
  CHECK(cuda::scratch(attention_backward<float>{.shape = shape}) <= linear);
}
