#include "runtime/data/batch_source.hpp"

#include <algorithm>
#include <vector>

namespace troupe::runtime {
namespace {

template <class T>
tensor tensor_of(const std::vector<T>& from, memory_pool& pool) {
  tensor out(pool.allocate(from.size() * sizeof(T)), dtype_of<T>(), {std::int64_t(from.size())});
  std::copy(from.begin(), from.end(), out.data<T>());
  return out;
}

}  // namespace

micro_batch dataset_source::microbatch(const microbatch_address& at) const {
  const auto B = layout_.micro_batch_size;
  const auto T = data_->sequence_length();
  micro_batch out(std::int64_t(B), T, pool_);
  // Starts at n = 0, so that the rows of this micro-batch are fetched in parallel. Micro-batches of
  // the next step are numbered as if this step had more of them.
  for (std::uint64_t n = 0; ahead_ > 0 && n <= ahead_; ++n)
    for (std::uint64_t b = 0; b < B; ++b)
      data_->expect(sampler_.sample({at.consumed, at.microbatch + n, at.replica}, b));
  auto* const samples = out.samples.data<std::uint64_t>();
  std::vector<std::int32_t> documents, cuts;
  std::vector<std::uint64_t> document_samples;
  for (std::uint64_t b = 0; b < B; ++b) {
    samples[b] = sample_position(layout_, at.consumed, at.microbatch, at.replica, b);
    auto row = out.row(std::int64_t(b));
    cuts = {0};
    row.cuts = &cuts;
    data_->row(sampler_.sample(at, b), row);
    for (const auto cut : cuts) {
      documents.push_back(std::int32_t(std::int64_t(b) * T) + cut);
      document_samples.push_back(samples[b]);
    }
  }
  if (data_->cuts_attention()) {
    documents.push_back(std::int32_t(std::int64_t(B) * T));
    out.documents = tensor_of(documents, pool_);
    out.document_samples = tensor_of(document_samples, pool_);
  }
  return out;
}

}  // namespace troupe::runtime
