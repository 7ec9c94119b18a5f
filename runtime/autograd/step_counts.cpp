#include "runtime/autograd/step_counts.hpp"

#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

namespace troupe::runtime {

counted_choices step_counts::add(
    stream& by, int segment, const tensor& counts, std::int64_t rows, bool accumulates) {
  const auto E = channels_of(counts);
  auto all = counts;
  if (replicas_ != nullptr) {
    all = tensor::empty<std::uint64_t>(by, {replicas() * counts.size()});
    replicas_->all_gather(
        by, counts.raw(), all.raw(), equal_ends(std::int64_t(all.bytes()), replicas()));
  }
  const auto found = elements_of<std::uint64_t>(by, all);
  if (replicas_ != nullptr)
    replicas_->check();
  auto& sum = of_segment_[segment];
  if (!accumulates)
    sum = {};
  sum.counts.resize(std::size_t(E));
  for (std::size_t i = 0; i < found.size(); ++i)
    sum.counts[i % std::size_t(E)] += found[i];
  sum.rows += replicas() * rows;
  return {uploaded(by, sum.counts, {E}), double(sum.rows)};
}

}  // namespace troupe::runtime
