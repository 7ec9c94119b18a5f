// Draws one token from a row of logits. The arrays are in host memory on every backend: one row is
// too little work for a device.
//
//   1. temperature: logits / temperature
//   2. top-k: keeps the k largest (0: off)
//   3. top-p: sorts by descending probability and removes the tokens after the first whose
//      cumulative probability exceeds p; keeps at least one (1: off)
//   4. min-p: removes the tokens whose probability is below min_p times the largest (0: off)
//   5. takes the token at which the cumulative probability first exceeds `uniform`
//
// Probabilities are over the remaining tokens. They are added in double, in rank order, most
// probable first. Equal logits rank by token, lowest first. top_k = 1 is greedy decoding. The
// caller guarantees that no logit is NaN.
//
// Holtzman et al.: "The Curious Case of Neural Text Degeneration", 2020.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct sample_token {
  std::int32_t* token;  ///< (1) written
  const T* logits;      ///< (vocabulary)
  std::int64_t vocabulary;
  float temperature = 1;  ///< above 0
  std::int64_t top_k = 0;
  float top_p = 1;
  float min_p = 0;     ///< at most 1
  double uniform = 0;  ///< in [0, 1)
};

template <class T>
constexpr std::int64_t flops(const sample_token<T>& op) {
  return op.vocabulary;  // the sum of the softmax
}
template <class T>
constexpr std::int64_t bytes_moved(const sample_token<T>& op) {
  return std::int64_t{sizeof(T)} * op.vocabulary;
}

/// Scratch: one (probability, token) pair per vocabulary entry.
template <class T>
constexpr std::size_t workspace_bytes(const sample_token<T>& op, int) {
  return 16 * std::size_t(op.vocabulary);
}

}  // namespace troupe::kernels
