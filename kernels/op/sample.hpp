// Draws one token from a row of logits.
//
//   1. temperature: logits / temperature
//   2. top-k: all but the k largest are removed (0: none)
//   3. top-p: sorted by falling probability, tokens after the first whose cumulative probability
//      exceeds p are removed; the first always stays (0: none)
//   4. the token at which the cumulative probability first exceeds `uniform`
//
// Probabilities are those of the tokens that remain; they are added in double by rank, the most
// probable first. No logit is NaN: the caller has checked.
//
// Holtzman et al.: "The Curious Case of Neural Text Degeneration", 2020. Equal logits rank by
// token, lowest first. top_k = 1 is greedy decoding.

// One row is too little for a device: the arrays lie in host memory whatever the backend.

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
  float top_p = 0;
  double uniform = 0;  ///< in [0, 1)
};

template <class T>
constexpr std::int64_t flops(const sample_token<T>& op) {
  return op.vocabulary;  // the softmax's sum
}
template <class T>
constexpr std::int64_t bytes_moved(const sample_token<T>& op) {
  return std::int64_t{sizeof(T)} * op.vocabulary;
}

/// Scratch: one pair (probability, token) an entry of the vocabulary.
template <class T>
constexpr std::size_t workspace_bytes(const sample_token<T>& op, int) {
  return 16 * std::size_t(op.vocabulary);
}

}  // namespace troupe::kernels
