// A micro-batch: the rows that a stage processes at once, passed by value from the data set to it.

#pragma once

#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

/// One row of a micro-batch, to be filled: T elements each.
struct micro_batch_row {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> labels;
  std::span<float> mask;
  std::span<std::int32_t> positions;
  /// Output: positions at which attention restarts, ascending, above 0. Null if not needed.
  std::vector<std::int32_t>* cuts = nullptr;
};

/// The maker fills it; after that it is immutable. Tensors that only the loss needs may be empty.
struct micro_batch {
  micro_batch() = default;
  /// B rows of T tokens in host memory; elements are undefined.
  micro_batch(std::int64_t B, std::int64_t T, memory_pool& pool);

  /// Row b; the micro-batch must be in host memory.
  micro_batch_row row(std::int64_t b);

  tensor tokens;     ///< (B, T) i32
  tensor labels;     ///< (B, T) i32
  tensor mask;       ///< (B, T) f32; 1 where the token counts in the loss, else 0
  tensor positions;  ///< (B, T) i32
  tensor samples;    ///< (B) u64, sample numbers within the run
  /// Set only if attention is limited to documents. `documents`: (D + 1) i32, the first of the B *
  /// T rows of each document, then B * T. `document_samples`: (D) u64, the sample of each document.
  tensor documents, document_samples;
};

/// Adds the inputs of a chunk with the embedding: "tokens", "positions", "samples"; also
/// "documents" and "document_samples" if attention is limited to documents.
void add_inputs(bundle& to, const micro_batch& x);
/// Adds the inputs of a chunk with the head, besides hidden states: "labels", "mask".
void add_labels(bundle& to, const micro_batch& x);
/// Inputs and labels.
bundle to_bundle(const micro_batch& x);

}  // namespace troupe::runtime
