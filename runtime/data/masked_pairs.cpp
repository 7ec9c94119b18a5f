#include "runtime/data/masked_pairs.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/token_schema.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

using ids = std::vector<std::int32_t>;

ids joined(std::span<const ids> sentences) {
  ids out;
  for (const auto& one : sentences)
    out.insert(out.end(), one.begin(), one.end());
  return out;
}

/// The two halves of a sample, after their exchange and cut.
struct halves {
  std::span<const std::int32_t> a, b;

  /// Drops tokens at a random end of the longer half until both have `room` together.
  void cut(std::size_t room, numpy_random_state& draws) {
    while (a.size() + b.size() > room) {
      auto& longer = a.size() > b.size() ? a : b;
      const bool at_front = draws.random() < 0.5;
      longer = longer.subspan(at_front ? 1 : 0, longer.size() - 1);
    }
  }
};

}  // namespace

masked_pairs::masked_pairs(std::shared_ptr<const document_source> source,
                           const split_matrix& split,
                           data_split part,
                           masked_dataset_options options,
                           masked_pair_tokens tokens,
                           batch_schema schema)
    : masked_dataset(std::move(source),
                     split,
                     part,
                     std::move(options),
                     schema.rows_of("tokens") - added,
                     schema.find("is_random") == nullptr ? 1 : 2),
      tokens_(tokens),
      schema_(std::move(schema)),
      has_types_(schema_.find("types") != nullptr),
      has_pairs_(schema_.find("is_random") != nullptr) {}

void masked_pairs::fill(std::uint64_t i, const sample_view& to) const {
  const auto [sentences, target] = read(i);
  auto draws = draws_of(i);
  const auto count = sentences.size();
  auto pivot = count;
  bool exchanged = false;
  if (has_pairs_) {
    pivot = count >= 3 ? 1 + draws.interval(count - 2) : 1;
    exchanged = draws.random() < 0.5;
  }
  const auto first = joined(std::span(sentences).first(pivot)),
             second = joined(std::span(sentences).subspan(pivot));
  halves text{first, second};
  if (exchanged)
    std::swap(text.a, text.b);
  text.cut(std::size_t(target), draws);

  ids tokens{tokens_.classify};
  tokens.insert(tokens.end(), text.a.begin(), text.a.end());
  tokens.push_back(tokens_.separator);
  const auto begin_b = tokens.size();
  if (!text.b.empty()) {
    tokens.insert(tokens.end(), text.b.begin(), text.b.end());
    tokens.push_back(tokens_.separator);
  }
  const auto vocabulary = options().vocabulary.continues.size();
  const auto masked = mask_tokens(
      tokens,
      target,
      options().masking,
      options().vocabulary,
      [&](numpy_random_state& by) -> std::optional<std::int32_t> {
        if (by.random() < 0.8)
          return tokens_.mask;
        if (by.random() >= 0.5)
          return std::int32_t(by.interval(vocabulary - 1));
        return std::nullopt;
      },
      draws);

  const token_row out(to);
  const auto S = out.tokens.size(), length = tokens.size();
  ensure(length <= S && out.has_room_for(std::int64_t(S)),
         "SAMPLE-2: a row has room for one sequence");
  std::ranges::fill(out.tokens, 0);
  std::ranges::fill(out.labels, 0);
  std::ranges::fill(out.mask, 0.0F);
  std::iota(out.positions.begin(), out.positions.end(), 0);
  std::ranges::copy(masked.tokens, out.tokens.begin());
  if (has_types_) {
    const auto types = to.at<std::int32_t>("types");
    for (std::size_t t = 0; t < S; ++t)
      types[t] = begin_b <= t && t < length ? 1 : 0;
  }
  for (std::size_t k = 0; k < masked.positions.size(); ++k) {
    const auto at = std::size_t(masked.positions[k]);
    out.labels[at] = masked.labels[k];
    out.mask[at] = 1;
  }
  if (has_pairs_)
    to.at<std::int32_t>("is_random").front() = exchanged ? 1 : 0;
  if (length < S)
    to.cut(std::int64_t(length));
}

}  // namespace troupe::runtime
