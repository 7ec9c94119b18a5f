#include "runtime/data/masked_dataset.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// Throws input_error for invalid settings.
void require_valid(const masking_settings& x) {
  std::vector<std::string> wrong;
  validate_masking(x, wrong);
  if (!wrong.empty())
    throw input_error("cannot mask samples: {}", wrong.front());
}

}  // namespace

masked_dataset::masked_dataset(std::shared_ptr<const document_source> source,
                               const split_matrix& split,
                               data_split part,
                               masked_dataset_options options,
                               std::int64_t longest,
                               std::int64_t least_sentences)
    : source_(std::move(source)),
      options_(std::move(options)),
      part_(part),
      longest_(longest),
      least_sentences_(least_sentences) {
  require_valid(options_.masking);
  if (longest < 2)
    throw input_error("samples have room for {} besides the added ones: give a longer sequence",
                      counted(longest, "token"));
  const sentence_index_request request{.documents = split.of(part, source_->documents()),
                                       .longest = longest,
                                       .least_sentences = least_sentences,
                                       .short_sequences = options_.masking.short_sequences,
                                       .samples = options_.samples,
                                       .seed = options_.seed};
  try {
    index_ = options_.cache ? load_or_build_sentence_index(
                 *source_, request, part, *options_.cache, options_.stop)
                            : build_sentence_index(*source_, request, options_.stop);
  } catch (const input_error& e) {
    throw input_error("cannot make the {} data: {}", to_string(part), e.what());
  }
}

numpy_random_state masked_dataset::draws_of(std::uint64_t i) const {
  return numpy_random_state(std::uint32_t(options_.seed + i));
}

// Checks every value: a cached index can be forged with a matching digest.
masked_dataset::run masked_dataset::run_of(std::uint64_t i) const {
  if (i >= size())
    throw input_error(
        "cannot read sample {} of the {} data: it has {} samples; request more when the data set "
        "is made, or train for fewer",
        i,
        to_string(part_),
        size());
  const run out{.begin = index_[3 * i], .end = index_[3 * i + 1], .target = index_[3 * i + 2]};
  if (out.begin < 0 || out.end - out.begin < least_sentences_ || out.end > source_->sequences()
      || out.target < 2 || out.target > longest_)
    throw input_error(
        "cannot read sample {} of the {} data: the cached index in '{}' points outside the data; "
        "remove the folder to build it again",
        i,
        to_string(part_),
        options_.cache.value_or("").string());
  return out;
}

void masked_dataset::check_ids(std::span<const std::int32_t> ids, std::int64_t sentence) const {
  const auto vocabulary = std::int64_t(options_.vocabulary.continues.size());
  for (const auto id : ids)
    if (id < 0 || id >= vocabulary)
      throw input_error(
          "cannot use {}: its id {} is outside the vocabulary of {} ids; give the vocabulary that "
          "the data was tokenized with, or tokenize it again",
          source_->place(sentence),
          id,
          vocabulary);
}

masked_dataset::sentences masked_dataset::read(std::uint64_t i) const {
  const auto found = run_of(i);
  sentences out{.tokens = {}, .target = found.target};
  for (auto s = found.begin; s < found.end; ++s) {
    auto& one = out.tokens.emplace_back(std::size_t(source_->length(s)));
    source_->get(s, 0, one);
    check_ids(one, s);
  }
  return out;
}

void masked_dataset::expect(std::uint64_t i) const {
  if (i >= size())
    return;
  try {
    const auto found = run_of(i);
    for (auto s = found.begin; s < found.end; ++s)
      source_->expect(s, 0, std::size_t(source_->length(s)));
  } catch (const input_error&) {  // the read reports the damaged index
  }
}

}  // namespace troupe::runtime
