#include "runtime/data/blended_dataset.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::runtime {

blended_dataset::blended_dataset(const data_blend& blend,
                                 std::optional<std::uint64_t> samples,
                                 const dataset_opener& open) {
  ensure(!blend.empty() && (blend.weights.empty() || samples.has_value()),
         "BLEND-1: a blend has data sets, and a size when they have weights");
  if (blend.weights.empty())
    order_by_sizes(blend, samples, open);
  else
    order_by_weights(blend, *samples, open);
  for (const auto& set : sets_)
    ensure(set->schema() == schema(), "BLEND-1: the data sets of a blend have one schema");
  require_enough(blend);
}

void blended_dataset::order_by_weights(const data_blend& blend,
                                       std::uint64_t samples,
                                       const dataset_opener& open) {
  const auto weights = normalized(blend.weights);
  const auto sizes = blend_sizes(weights, samples);
  for (std::size_t d = 0; d < blend.prefixes.size(); ++d)
    sets_.push_back(open(blend.prefixes[d], with_surplus(sizes[d])));
  // Megatron-LM normalises twice.
  order_ = build_blend(normalized(weights),
                       std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
}

void blended_dataset::order_by_sizes(const data_blend& blend,
                                     std::optional<std::uint64_t> samples,
                                     const dataset_opener& open) {
  std::vector<std::uint64_t> sizes;
  for (const auto& prefix : blend.prefixes) {
    sets_.push_back(open(prefix, std::nullopt));
    sizes.push_back(sets_.back()->size());
    if (sizes.back() == 0)
      throw input_error(
          "cannot blend '{}': it is shorter than one sample; leave it out, or give it a weight",
          prefix.string());
  }
  const auto total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  if (samples)
    order_ = build_blend(normalized({sizes.begin(), sizes.end()}), std::min(*samples, total));
  else
    order_ = build_exhaustive_blend(sizes);
}

// A very short blend by weights can need one sample more than the surplus covers.
void blended_dataset::require_enough(const data_blend& blend) const {
  std::vector<std::uint64_t> taken(sets_.size());
  for (const auto set : order_.dataset)
    ++taken[std::size_t(set)];
  for (std::size_t d = 0; d < sets_.size(); ++d)
    if (taken[d] > sets_[d]->size())
      throw input_error(
          "cannot blend: {} samples of '{}' are needed, but it has {}; give it a smaller weight, "
          "or "
          "change the number of steps",
          taken[d],
          blend.prefixes[d].string(),
          sets_[d]->size());
}

void blended_dataset::fill(std::uint64_t i, const sample_view& out) const {
  if (i >= size())
    throw input_error(
        "cannot read sample {} of a blend of {} samples; train for fewer, or give the data sets "
        "weights, which allow more than one epoch",
        i,
        size());
  sets_[std::size_t(order_.dataset[i])]->fill(std::uint64_t(order_.sample[i]), out);
}

void blended_dataset::expect(std::uint64_t i) const {
  if (i < size())
    sets_[std::size_t(order_.dataset[i])]->expect(std::uint64_t(order_.sample[i]));
}

}  // namespace troupe::runtime
