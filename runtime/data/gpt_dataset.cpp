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
  const bool looks_for_ends = options.eod_mask_loss || options.reset_position_ids
                              || options.reset_attention_mask || options.fim;
  if (options.vocabulary < 1 || options.end_of_document < (looks_for_ends ? 0 : -1)
      || options.end_of_document >= options.vocabulary)
    throw input_error(
        "cannot read samples with the end-of-document id {} and a vocabulary of {} ids: give the "
        "vocabulary that belongs to the tokenizer of the data",
        options.end_of_document,
        options.vocabulary);
  if (options.fim && options.fim->vocabulary_size() > options.vocabulary)
    throw input_error(
        "cannot fill in the middle: the tokenizer has {} ids, but the model's vocabulary has {}; "
        "give the tokenizer of the model",
        options.fim->vocabulary_size(),
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
  index_ = options.cache ? load_or_build_gpt_index(
               *source_, request, plan_, part, *options.cache, options.stop)
                         : build_gpt_index(*source_, request, plan_, options.stop);
}

void gpt_dataset::check_ids(std::span<const std::int32_t> ids,
                            std::int64_t sequence,
                            std::int64_t offset) const {
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (ids[t] < 0 || ids[t] >= options_.vocabulary)
      throw input_error(
          "cannot use token {} of {}: its id {} is outside the vocabulary of {} ids; give the "
          "vocabulary that the data was tokenized with, or tokenize it again",
          offset + static_cast<std::int64_t>(t),
          source_->place(sequence),
          ids[t],
          options_.vocabulary);
}

void gpt_dataset::refuse_index(std::uint64_t sample) const {
  const auto where = options_.cache
                         ? fmt::format("the cached index in '{}'", options_.cache->string())
                         : std::string("the index");
  throw input_error(
      "cannot read sample {} of the {} data: {} points outside the data; remove the folder to "
      "build "
      "it again",
      sample,
      to_string(part_),
      where);
}

// Checks every value: a cached index can be forged with a matching digest.
gpt_dataset::stretch gpt_dataset::stretch_of(std::uint64_t sample) const {
  const auto j = index_.order[sample];
  if (j < 0 || j >= plan_.samples)
    refuse_index(sample);
  const auto at = 2 * static_cast<std::size_t>(j);
  const stretch out{.document = index_.bounds[at],
                    .offset = index_.bounds[at + 1],
                    .last = index_.bounds[at + 2],
                    .end = index_.bounds[at + 3] + 1};  // the extra token
  if (out.document < 0 || out.last < out.document
      || out.last >= std::int64_t(index_.documents.size()))
    refuse_index(sample);
  return out;
}

template <class Visit>
void gpt_dataset::each_part(std::uint64_t i, const Visit& visit) const {
  if (i >= size())
    throw input_error(
        "cannot read sample {} of the {} data: it has {} samples; request more when the data set "
        "is "
        "made, or train for fewer",
        i,
        to_string(part_),
        size());
  auto room = options_.sequence_length + 1;
  const auto found = stretch_of(i);
  for (auto document = found.document; document <= found.last; ++document) {
    const auto sequence = index_.documents[static_cast<std::size_t>(document)];
    if (sequence < 0 || sequence >= source_->sequences())
      refuse_index(i);
    const auto all = std::int64_t{source_->length(sequence)};
    const auto offset = document == found.document ? found.offset : 0;
    const auto stop = document == found.last ? found.end : all;
    if (offset < 0 || offset > stop || stop > all || stop - offset > room)
      refuse_index(i);
    visit(sequence, offset, static_cast<std::size_t>(stop - offset));
    room -= stop - offset;
  }
}

std::size_t gpt_dataset::sample(std::uint64_t i, std::span<std::int32_t> text) const {
  ensure(text.size() == std::size_t(options_.sequence_length + 1),
         "SAMPLE-1: a sample has one token more than its sequence length");
  std::size_t done = 0;
  each_part(i, [&](std::int64_t sequence, std::int64_t offset, std::size_t tokens) {
    const auto piece = text.subspan(done, tokens);
    source_->get(sequence, offset, piece);
    check_ids(piece, sequence, offset);
    done += tokens;
  });
  std::fill(text.begin() + std::ptrdiff_t(done), text.end(), padding);
  return options_.fim ? options_.fim->apply(i, text.first(done)) : done;
}

void gpt_dataset::expect(std::uint64_t i) const {
  if (i >= size())
    return;
  try {
    each_part(i, [this](std::int64_t sequence, std::int64_t offset, std::size_t tokens) {
      source_->expect(sequence, offset, tokens);
    });
  } catch (const input_error&) {  // the read reports the damaged index
  }
}

void gpt_dataset::fill(std::uint64_t i, const sample_view& to) const {
  const auto S = static_cast<std::size_t>(options_.sequence_length);
  const token_row out(to);
  ensure(out.has_room_for(options_.sequence_length), "SAMPLE-2: a row has room for one sequence");
  std::vector<std::int32_t> text(S + 1);
  const auto used = sample(i, text);

  std::int32_t position = 0;
  for (std::size_t t = 0; t < S; ++t) {
    const bool ends = text[t] == options_.end_of_document;
    const bool is_padding = t + 1 >= used;
    out.tokens[t] = std::max(text[t], 0);
    out.labels[t] = std::max(text[t + 1], 0);
    out.mask[t] = (ends && options_.eod_mask_loss) || is_padding ? 0.0F : 1.0F;
    out.positions[t] = position;
    position = ends && options_.reset_position_ids ? 0 : position + 1;
    if (ends && options_.reset_attention_mask && t + 1 < S)
      to.cut(std::int64_t(t + 1));
  }
}

}  // namespace troupe::runtime
