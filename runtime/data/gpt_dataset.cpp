#include "runtime/data/gpt_dataset.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/gpt_index_cache.hpp"

#include <algorithm>
#include <vector>

namespace troupe::runtime {

gpt_dataset::gpt_dataset(std::shared_ptr<const token_source> source,
                         const split_matrix& split,
                         data_split part,
                         const gpt_dataset_options& options)
    : source_(std::move(source)), options_(options), part_(part) {
  if (options.vocabulary < 1 || options.end_of_document < 0
      || options.end_of_document >= options.vocabulary)
    throw input_error(
        "cannot read samples with the end-of-document id {} and a vocabulary of {} ids: give the "
        "vocabulary that belongs to the tokenizer of the data",
        options.end_of_document,
        options.vocabulary);
  const gpt_index_request request{
      .range = split.of(part, source_->sequences()),
      .sequence_length = options.sequence_length,
      .samples = options.samples,
      .seed = options.seed,
      .drop_last_partial = part != data_split::valid || options.drop_last_partial_validation};
  try {
    plan_ = plan_gpt_index(*source_, request);
  } catch (const input_error& e) {
    throw input_error("cannot make the {} data: {}", to_string(part), e.what());
  }
  index_ = options.cache ? load_or_build_gpt_index(*source_, request, plan_, part, *options.cache)
                         : build_gpt_index(*source_, request, plan_);
}

void gpt_dataset::check_ids(std::span<const std::int32_t> ids,
                            std::int64_t sequence,
                            std::int64_t offset) const {
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (ids[t] < 0 || ids[t] >= options_.vocabulary)
      throw input_error(
          "cannot use token {} of {}: its id {} is outside the vocabulary of {} ids; give the "
          "vocabulary that the data was tokenised with, or tokenise it again",
          offset + static_cast<std::int64_t>(t),
          source_->place(sequence),
          ids[t],
          options_.vocabulary);
}

void gpt_dataset::sample(std::uint64_t i, std::span<std::int32_t> text) const {
  ensure(text.size() == std::size_t(options_.sequence_length + 1),
         "SAMPLE-1: a sample has one token more than its sequence length");
  if (i >= size())
    throw input_error(
        "cannot read sample {} of the {} data: it has {} samples; ask for more when the data set "
        "is made, or train for fewer",
        i,
        to_string(part_),
        size());
  const auto j = static_cast<std::size_t>(index_.order[i]);
  auto document = index_.bounds[2 * j];
  auto offset = index_.bounds[2 * j + 1];
  const auto last = index_.bounds[2 * j + 2];
  const auto end = index_.bounds[2 * j + 3] + 1;  // the extra token

  std::size_t done = 0;
  for (; document <= last; ++document, offset = 0) {
    const auto sequence = index_.documents[static_cast<std::size_t>(document)];
    const auto stop = document == last ? end : source_->length(sequence);
    ensure(0 <= offset && offset <= stop && std::size_t(stop - offset) <= text.size() - done,
           "INDEX-3: a sample is no longer than its sequence length and one");
    const auto piece = text.subspan(done, static_cast<std::size_t>(stop - offset));
    source_->get(sequence, offset, piece);
    check_ids(piece, sequence, offset);
    done += piece.size();
  }
  std::fill(text.begin() + std::ptrdiff_t(done), text.end(), padding);
}

void gpt_dataset::row(std::uint64_t i, const gpt_row& out) const {
  const auto S = static_cast<std::size_t>(options_.sequence_length);
  ensure(out.tokens.size() == S && out.labels.size() == S && out.loss_mask.size() == S
             && out.position_ids.size() == S,
         "SAMPLE-2: a row has room for one sequence");
  std::vector<std::int32_t> text(S + 1);
  sample(i, text);

  std::int32_t position = 0;
  for (std::size_t t = 0; t < S; ++t) {
    const bool ends = text[t] == options_.end_of_document;
    const bool is_padding = text[t + 1] == padding;
    out.tokens[t] = std::max(text[t], 0);
    out.labels[t] = std::max(text[t + 1], 0);
    out.loss_mask[t] = (ends && options_.eod_mask_loss) || is_padding ? 0.0F : 1.0F;
    out.position_ids[t] = position;
    position = ends && options_.reset_position_ids ? 0 : position + 1;
  }
}

}  // namespace troupe::runtime
