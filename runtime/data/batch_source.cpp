#include "runtime/data/batch_source.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace troupe::runtime {
namespace {

template <class T>
tensor tensor_of(const std::vector<T>& from, memory_pool& pool) {
  tensor out(pool.allocate(from.size() * sizeof(T)), dtype_of<T>(), {std::int64_t(from.size())});
  std::copy(from.begin(), from.end(), out.data<T>());
  return out;
}

/// `filled`: every document has rows.
void require_order(const std::vector<std::int32_t>& cuts, std::int64_t T, bool filled) {
  std::int32_t before = 0;
  bool in_order = true;
  for (const auto cut : cuts) {
    in_order = in_order && (filled ? before < cut && cut < T : before <= cut && cut <= T);
    before = cut;
  }
  ensure(in_order, "SCHEMA-2: documents begin in order, within their sample");
}

}  // namespace

bundle dataset_source::microbatch(const microbatch_address& at) const {
  const auto B = layout_.micro_batch_size;
  const auto borders = schema_.borders();
  auto out = empty_batch(schema_, std::int64_t(B), pool_);
  // Starts at n = 0, so that the rows of this micro-batch are fetched in parallel. Micro-batches of
  // the next step are numbered as if this step had more of them.
  for (std::uint64_t n = 0; ahead_ > 0 && n <= ahead_; ++n)
    for (std::uint64_t b = 0; b < B; ++b)
      data_->expect(sampler_.sample({at.consumed, at.microbatch + n, at.replica}, b));
  std::map<std::string, std::vector<std::int32_t>> documents;
  std::vector<std::uint64_t> document_samples;
  for (std::uint64_t b = 0; b < B; ++b) {
    document_cuts cuts;
    const sample_view row(out, std::int64_t(b), &cuts);
    const auto number = sample_position(layout_, at.consumed, at.microbatch, at.replica, b);
    row.at<std::uint64_t>("samples").front() = number;
    data_->fill(sampler_.sample(at, b), row);
    for (const auto& [name, of] : borders) {
      const auto T = schema_.rows_of(of);
      require_order(cuts[name], T, schema_.more_documents.empty());
      ensure(cuts[name].size() == cuts[borders.front().first].size(),
             "SCHEMA-3: a sample has the same documents in all tensors that they divide");
      auto& starts = documents[name];
      starts.push_back(std::int32_t(std::int64_t(b) * T));
      for (const auto cut : cuts[name])
        starts.push_back(std::int32_t(std::int64_t(b) * T) + cut);
    }
    if (!borders.empty())
      document_samples.insert(
          document_samples.end(), cuts[borders.front().first].size() + 1, number);
  }
  for (const auto& [name, of] : borders) {
    documents[name].push_back(std::int32_t(std::int64_t(B) * schema_.rows_of(of)));
    out.add(name, tensor_of(documents[name], pool_));
  }
  if (!borders.empty())
    out.add("document_samples", tensor_of(document_samples, pool_));
  return out;
}

}  // namespace troupe::runtime
