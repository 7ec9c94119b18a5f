#include "runtime/data/masked_spans.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/data/token_schema.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

using span_ids = std::vector<std::int32_t>;

void put(const span_ids& from, std::span<std::int32_t> to) {
  std::ranges::fill(std::ranges::copy(from, to.begin()).out, to.end(), 0);
}

}  // namespace

void require_sentinels(const masked_span_tokens& tokens, std::int64_t rows, double probability) {
  const auto longest = std::max<std::int64_t>(rows - masked_spans::kept_free, 0);
  const auto spans = most_masked(longest, probability);
  if (const auto have = std::int64_t(tokens.sentinels.size()); have < spans)
    throw input_error(
        "cannot mask spans in texts of {} tokens: they have up to {}, and each needs a sentinel "
        "such as <extra_id_0>, but there are {}; give {} with `model.extra_ids`, or lower "
        "`model.masking.probability`",
        longest,
        counted(spans, "span"),
        counted(have, "sentinel"),
        spans);
}

masked_spans::masked_spans(std::shared_ptr<const document_source> source,
                           const split_matrix& split,
                           data_split part,
                           masked_dataset_options options,
                           masked_span_tokens tokens,
                           batch_schema schema)
    : masked_dataset(std::move(source),
                     split,
                     part,
                     std::move(options),
                     schema.rows_of("encoder_tokens") - kept_free,
                     1),
      tokens_(std::move(tokens)),
      schema_(std::move(schema)) {
  require_sentinels(
      tokens_, schema_.rows_of("encoder_tokens"), this->options().masking.probability);
  const auto D = schema_.rows_of("tokens");
  if (D < 3)
    throw input_error(
        "cannot mask spans: a text of the decoder has {}, and a span needs 3; give a longer one",
        counted(D, "token"));
}

void masked_spans::fill(std::uint64_t i, const sample_view& to) const {
  const token_row out(to);
  const auto [sentences, target] = read(i);
  auto draws = draws_of(i);
  span_ids text;
  for (const auto& one : sentences)
    text.insert(text.end(), one.begin(), one.end());
  text.resize(std::min(text.size(), std::size_t(target)));
  const auto masked = mask_tokens(
      text,
      target,
      options().masking,
      options().vocabulary,
      [](numpy_random_state&) { return std::optional<std::int32_t>(); },
      draws);

  span_ids encoder, decoder{tokens_.begin}, labels;
  const auto& spans = masked.spans;
  const auto begin = masked.tokens.begin();
  auto rest = begin;
  for (std::size_t k = 0; k < spans.size(); ++k) {
    const auto& [positions, answer] = spans[k];
    if (decoder.size() + 1 + answer.size() > out.tokens.size())
      break;
    const auto sentinel = tokens_.sentinels[k];
    encoder.insert(encoder.end(), rest, begin + positions.front());
    encoder.push_back(sentinel);
    for (auto* const half : {&decoder, &labels}) {
      half->push_back(sentinel);
      half->insert(half->end(), answer.begin(), answer.end());
    }
    rest = begin + positions.back() + 1;
  }
  encoder.insert(encoder.end(), rest, masked.tokens.end());
  labels.push_back(tokens_.end);

  const auto encoder_tokens = to.at<std::int32_t>("encoder_tokens"),
             encoder_positions = to.at<std::int32_t>("encoder_positions");
  ensure(
      out.has_room_for(std::int64_t(out.tokens.size())) && encoder.size() <= encoder_tokens.size(),
      "SAMPLE-2: a row has room for one sequence");
  put(encoder, encoder_tokens);
  put(decoder, out.tokens);
  put(labels, out.labels);
  std::iota(encoder_positions.begin(), encoder_positions.end(), 0);
  std::iota(out.positions.begin(), out.positions.end(), 0);
  for (std::size_t t = 0; t < out.mask.size(); ++t)
    out.mask[t] = t < decoder.size() ? 1.0F : 0.0F;
  to.cut(std::int64_t(decoder.size()));
  to.cut(std::int64_t(encoder.size()), "encoder_documents");
}

}  // namespace troupe::runtime
