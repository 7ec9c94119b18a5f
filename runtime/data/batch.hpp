// What a model is trained on at once.

#pragma once

#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/sampler.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

struct batch {
  std::int64_t B = 0;
  std::int64_t T = 0;
  std::vector<std::int32_t> tokens;        ///< (B, T)
  std::vector<std::int32_t> labels;        ///< (B, T)
  std::vector<float> loss_mask;            ///< (B, T), 0 or 1
  std::vector<std::int32_t> position_ids;  ///< (B, T)
  std::vector<std::uint64_t> positions;    ///< (B) numbers of the samples in the whole run
};

/// Fills `out`, whose memory is reused, with the samples of these numbers. Throws input_error when
/// one is beyond the end of the data set: the order never wraps around.
void fill(batch& out, const gpt_dataset& data, std::span<const std::uint64_t> positions);

/// The micro-batch that `sample_position` describes.
void fill(batch& out,
          const gpt_dataset& data,
          const batch_layout& layout,
          std::uint64_t consumed,
          std::uint64_t micro_batch,
          std::uint64_t replica);

}  // namespace troupe::runtime
