#include "runtime/data/sft_dataset.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/numpy_random.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

namespace troupe::runtime {

bool has_label(const conversation_source& source, std::int64_t conversation, std::int64_t length) {
  return std::ranges::any_of(source.answers(conversation), [&](const token_range& answer) {
    return std::max(answer.first, 1) < std::min<std::int64_t>(answer.second, length);
  });
}

sft_dataset::sft_dataset(std::shared_ptr<const conversation_source> source,
                         const split_matrix& split,
                         data_split part,
                         const sft_dataset_options& options)
    : source_(std::move(source)), options_(options), part_(part) {
  const auto& tokens = source_->tokens();
  if (options.sequence_length < 1)
    throw input_error("cannot pack conversations into samples of {} tokens: the minimum is 1",
                      options.sequence_length);
  if (tokens.sequences() > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
    throw input_error("cannot pack the {} conversations of '{}': the maximum is 2^32 - 1",
                      tokens.sequences(),
                      tokens.prefix().string());
  const auto range = split.of(part, tokens.sequences());
  std::int64_t all = 0;
  for (auto i = range.begin; i < range.end; ++i)
    all += tokens.length(i);
  if (all == 0)
    throw input_error("cannot make the {} data: there is no conversation for them in '{}'",
                      to_string(part),
                      tokens.prefix().string());
  const auto learnt = [&] {
    for (auto i = range.begin; i < range.end; ++i)
      if (has_label(*source_, i, options.sequence_length))
        return true;
    return false;
  };
  if (!learnt())
    throw input_error(
        "cannot make the {} data: no conversation for them in '{}' has a token of an answer within "
        "the first {}, so there is nothing to learn; give a longer `model.sequence`",
        to_string(part),
        tokens.prefix().string(),
        options.sequence_length);
  starts_ = {0};
  // The last sample does not count, because the next epoch may extend it.
  for (std::uint64_t epoch = 0;
       epoch == 0 || (options.samples && starts_.size() <= *options.samples);
       ++epoch)
    add_epoch(range, epoch);
  if (!options.samples)
    starts_.push_back(order_.size());
}

std::int64_t sft_dataset::used(std::int64_t conversation) const {
  return std::min<std::int64_t>(source_->tokens().length(conversation), options_.sequence_length);
}

std::int64_t sft_dataset::padding() const {
  std::int64_t out = std::int64_t(size()) * options_.sequence_length;
  for (std::uint64_t k = 0; k < starts_.back(); ++k)
    out -= used(order_[k]);
  return out;
}

void sft_dataset::add_epoch(sequence_range of, std::uint64_t epoch) {
  const auto before = order_.size();
  order_.resize(before + std::size_t(of.size()));
  const auto added = std::span(order_).subspan(before);
  std::iota(added.begin(), added.end(), std::uint32_t(of.begin));
  numpy_random_state(std::uint32_t(options_.seed + epoch)).shuffle(added);
  for (std::size_t k = before; k < order_.size(); ++k) {
    if (k % 65536 == 0)
      options_.stop.throw_if_cancelled();
    const auto length = used(order_[k]);
    if (filled_ + length > options_.sequence_length) {
      starts_.push_back(k);
      filled_ = 0;
    }
    filled_ += length;
  }
}

void sft_dataset::lay(std::int64_t conversation, std::int64_t at, const token_row& out) const {
  const auto n = std::size_t(used(conversation)), begin = std::size_t(at);
  const auto ids = out.tokens.subspan(begin, n);
  source_->tokens().get(conversation, 0, ids);
  for (std::size_t t = 0; t < n; ++t)
    if (ids[t] < 0 || ids[t] >= options_.vocabulary)
      throw input_error(
          "cannot use token {} of {}: its id {} is outside the vocabulary of {} ids; give the "
          "tokenizer that the conversations were written with",
          t,
          source_->tokens().place(conversation),
          ids[t],
          options_.vocabulary);
  std::copy(ids.begin() + (n > 0 ? 1 : 0), ids.end(), out.labels.begin() + at);
  std::iota(out.positions.begin() + at, out.positions.begin() + at + std::ptrdiff_t(n), 0);
  for (const auto& [from, to] : source_->answers(conversation))
    for (auto t = std::max(from, 1); t < std::min<std::int64_t>(to, std::int64_t(n)); ++t)
      out.mask[begin + std::size_t(t) - 1] = 1;
}

void sft_dataset::fill(std::uint64_t i, const sample_view& to) const {
  const auto S = std::size_t(options_.sequence_length);
  const token_row out(to);
  ensure(out.has_room_for(options_.sequence_length), "SFT-1: a row has room for one sequence");
  if (i >= size())
    throw input_error(
        "cannot read sample {} of the {} data: it has {} samples; request more when the data set "
        "is "
        "made, or train for fewer",
        i,
        to_string(part_),
        size());
  std::ranges::fill(out.tokens, 0);
  std::ranges::fill(out.labels, 0);
  std::ranges::fill(out.mask, 0.0F);
  std::int64_t at = 0;
  for (auto k = starts_[i]; k < starts_[i + 1]; ++k) {
    const auto length = used(order_[k]);
    if (length == 0)
      continue;
    if (at > 0)
      to.cut(at);
    lay(order_[k], at, out);
    at += length;
  }
  if (at > 0 && std::size_t(at) < S)
    to.cut(at);
  std::iota(out.positions.begin() + at, out.positions.end(), 0);
}

void sft_dataset::expect(std::uint64_t i) const {
  if (i >= size())
    return;
  for (auto k = starts_[i]; k < starts_[i + 1]; ++k)
    source_->expect(order_[k], std::size_t(used(order_[k])));
}

}  // namespace troupe::runtime
