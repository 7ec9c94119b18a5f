#include "runtime/data/batch_source.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <functional>
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

bundle dataset_source::microbatch(const microbatch_address& at) const {
  const auto B = layout_.micro_batch_size;
  const bool limited = !schema_.documents_of.empty();
  const auto T = limited ? schema_.rows_of(schema_.documents_of) : 0;
  auto out = empty_batch(schema_, std::int64_t(B), pool_);
  // Starts at n = 0, so that the rows of this micro-batch are fetched in parallel. Micro-batches of
  // the next step are numbered as if this step had more of them.
  for (std::uint64_t n = 0; ahead_ > 0 && n <= ahead_; ++n)
    for (std::uint64_t b = 0; b < B; ++b)
      data_->expect(sampler_.sample({at.consumed, at.microbatch + n, at.replica}, b));
  std::vector<std::int32_t> documents, cuts;
  std::vector<std::uint64_t> document_samples;
  for (std::uint64_t b = 0; b < B; ++b) {
    cuts = {0};
    const sample_view row(out, std::int64_t(b), &cuts);
    const auto number = sample_position(layout_, at.consumed, at.microbatch, at.replica, b);
    row.at<std::uint64_t>("samples").front() = number;
    data_->fill(sampler_.sample(at, b), row);
    ensure(std::ranges::adjacent_find(cuts, std::greater_equal()) == cuts.end()
               && (!limited || cuts.back() < T),
           "SCHEMA-2: documents begin in order, within their sample");
    for (const auto cut : cuts) {
      documents.push_back(std::int32_t(std::int64_t(b) * T) + cut);
      document_samples.push_back(number);
    }
  }
  if (limited) {
    documents.push_back(std::int32_t(std::int64_t(B) * T));
    out.add("documents", tensor_of(documents, pool_));
    out.add("document_samples", tensor_of(document_samples, pool_));
  }
  return out;
}

}  // namespace troupe::runtime
