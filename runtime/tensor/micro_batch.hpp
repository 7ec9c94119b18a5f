// A micro-batch: the rows that pass a stage at once, one value from the data set to the stage.

#pragma once

#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

/// One row of a micro-batch, T elements each, to be filled.
struct micro_batch_row {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> labels;
  std::span<float> mask;
  std::span<std::int32_t> positions;
  /// Gets the tokens before which attention is cut, ascending, above 0; null: nobody asks.
  std::vector<std::int32_t>* cuts = nullptr;
};

/// Filled by its maker, and immutable once it is handed on. Where only inputs are needed the other
/// tensors may be empty.
struct micro_batch {
  micro_batch() = default;
  /// B rows of T tokens in host memory, elements undefined.
  micro_batch(std::int64_t B, std::int64_t T, memory_pool& pool);

  /// Row b of one in host memory.
  micro_batch_row row(std::int64_t b);

  tensor tokens;     ///< (B, T) i32
  tensor labels;     ///< (B, T) i32
  tensor mask;       ///< (B, T) f32, 0 or 1: what counts in the loss
  tensor positions;  ///< (B, T) i32
  tensor samples;    ///< (B) u64, numbers of the samples in the whole run
  /// Where attention ends at documents, else empty: (D + 1) i32, the first of the B T rows of each
  /// of the D documents, then B T; and (D) u64, the sample of each.
  tensor documents, document_samples;
};

/// What a chunk with the embedding takes: "tokens", "positions", "samples"; and "documents" with
/// "document_samples" where attention ends at them.
void add_inputs(bundle& to, const micro_batch& x);
/// What a chunk with the head takes beside hidden states: "labels", "mask".
void add_labels(bundle& to, const micro_batch& x);
/// Both.
bundle to_bundle(const micro_batch& x);

}  // namespace troupe::runtime
