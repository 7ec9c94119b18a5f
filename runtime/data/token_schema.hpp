// The tensors of a causal language model's samples.

#pragma once

#include "runtime/tensor/batch_schema.hpp"

#include <cstdint>
#include <span>

namespace troupe::runtime {

/// "tokens", "labels" and "positions": (S) i32; "mask": (S) f32, 1 where the label counts in the
/// loss, else 0. `documents`: attention is limited to documents.
batch_schema token_schema(std::int64_t S, bool documents = false);

/// These tensors of one sample: S elements each.
struct token_row {
  explicit token_row(const sample_view& of)
      : tokens(of.at<std::int32_t>("tokens")),
        labels(of.at<std::int32_t>("labels")),
        mask(of.at<float>("mask")),
        positions(of.at<std::int32_t>("positions")) {}

  /// True if each has room for S elements.
  bool has_room_for(std::int64_t S) const;

  std::span<std::int32_t> tokens, labels;
  std::span<float> mask;
  std::span<std::int32_t> positions;
};

}  // namespace troupe::runtime
