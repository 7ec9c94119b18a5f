#include "runtime/data/batch.hpp"

namespace troupe::runtime {

void fill(batch& out, const gpt_dataset& data, std::span<const std::uint64_t> positions) {
  out.B = static_cast<std::int64_t>(positions.size());
  out.T = data.sequence_length();
  const auto T = static_cast<std::size_t>(out.T);
  const auto elements = positions.size() * T;
  out.tokens.resize(elements);
  out.labels.resize(elements);
  out.loss_mask.resize(elements);
  out.position_ids.resize(elements);
  out.positions.assign(positions.begin(), positions.end());
  for (std::size_t b = 0; b < positions.size(); ++b)
    data.row(positions[b],
             {std::span(out.tokens).subspan(b * T, T),
              std::span(out.labels).subspan(b * T, T),
              std::span(out.loss_mask).subspan(b * T, T),
              std::span(out.position_ids).subspan(b * T, T)});
}

void fill(batch& out,
          const gpt_dataset& data,
          const batch_layout& layout,
          std::uint64_t consumed,
          std::uint64_t micro_batch,
          std::uint64_t replica) {
  std::vector<std::uint64_t> positions(layout.micro_batch_size);
  for (std::uint64_t row = 0; row < layout.micro_batch_size; ++row)
    positions[row] = sample_position(layout, consumed, micro_batch, replica, row);
  fill(out, data, positions);
}

}  // namespace troupe::runtime
