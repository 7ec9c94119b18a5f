#include "runtime/data/batch_source.hpp"

namespace troupe::runtime {

micro_batch dataset_source::microbatch(const microbatch_address& at) const {
  const auto B = layout_.micro_batch_size;
  micro_batch out(std::int64_t(B), data_->sequence_length(), pool_);
  auto* const samples = out.samples.data<std::uint64_t>();
  for (std::uint64_t b = 0; b < B; ++b) {
    samples[b] = sample_position(layout_, at.consumed, at.microbatch, at.replica, b);
    data_->row(samples[b], out.row(std::int64_t(b)));
  }
  return out;
}

}  // namespace troupe::runtime
