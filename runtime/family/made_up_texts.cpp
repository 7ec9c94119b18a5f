#include "runtime/family/made_up_texts.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/data/token_schema.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int64_t of_lengths = 1 << 30;  // random numbers that no token has

class made_up_texts : public sample_dataset {
 public:
  made_up_texts(batch_schema schema, std::int64_t vocabulary, const samples_request& from)
      : schema_(std::move(schema)),
        vocabulary_(vocabulary),
        part_(to_string(from.part)),
        samples_(from.samples.value_or(0)),
        seed_(from.seed) {}

  std::uint64_t size() const final { return samples_; }
  batch_schema schema() const final { return schema_; }

 protected:
  std::uint64_t key_of(std::uint64_t i) const {
    if (i >= samples_)
      throw input_error("the made-up data have {} samples, but not {}", samples_, i);
    return random_key(seed_, part_, i);
  }
  /// A whole number from 0 to end - 1: random number `number` of the key.
  static std::int64_t below(std::uint64_t key, std::int64_t number, std::int64_t end) {
    return std::int64_t(uniform(key, std::uint64_t(number)) * double(end));
  }

  batch_schema schema_;
  std::int64_t vocabulary_;

 private:
  std::string part_;
  std::uint64_t samples_, seed_;
};

class counting_sentences final : public made_up_texts {
 public:
  using made_up_texts::made_up_texts;

  void fill(std::uint64_t i, const sample_view& out) const override {
    const auto key = key_of(i);
    const token_row row(out);
    const auto T = std::int64_t(row.tokens.size());
    const std::int64_t ends = has_order_ ? 3 : 2;           // [CLS] and [SEP]s
    const auto n = below(key, 0, T / 2 + 1) + (T + 1) / 2;  // real tokens
    const auto words = std::max(n, ends + 2) - ends;
    const auto first = has_order_ ? 1 + below(key, 1, words - 1) : words;  // words of A
    const bool swapped = has_order_ && uniform(key, 2) < 0.5;
    std::ranges::fill(row.tokens, 0);
    std::ranges::fill(row.labels, 0);
    std::ranges::fill(row.mask, 0.0F);
    for (std::int64_t t = 0; t < T; ++t)
      row.positions[std::size_t(t)] = std::int32_t(t);
    const auto start = below(key, 3, kinds()), step = 1 + below(key, 4, 3);
    const auto certain = below(key, 5, words);  // is masked in any case
    std::size_t at = 0;
    row.tokens[at++] = begin;
    for (std::int64_t w = 0; w < words; ++w) {
      if (w == first)
        row.tokens[at++] = separator;
      const auto place = !swapped ? w : w < first ? words - first + w : w - first;
      const auto word = std::int32_t(special + (start + place * step) % kinds());
      const auto draw = uniform(key, std::uint64_t(10 + 2 * w));
      row.tokens[at] = word;
      if (draw < 0.15 || w == certain) {
        row.labels[at] = word;
        row.mask[at] = 1;
        const auto kind = uniform(key, std::uint64_t(11 + 2 * w));
        if (kind < 0.8)
          row.tokens[at] = masked;
        else if (kind >= 0.9)
          row.tokens[at] = std::int32_t(special + below(key, 10 + 2 * words + w, kinds()));
      }
      ++at;
    }
    row.tokens[at++] = separator;
    if (at < std::size_t(T))
      out.cut(std::int64_t(at));
    if (has_types_) {
      const auto types = out.at<std::int32_t>("types");
      const auto second = std::size_t(has_order_ ? first + 2 : T);
      for (std::size_t t = 0; t < types.size(); ++t)
        types[t] = second <= t && t < at ? 1 : 0;
    }
    if (has_order_)
      out.at<std::int32_t>("is_random").front() = swapped ? 1 : 0;
  }

 private:
  static constexpr std::int32_t begin = 0, separator = 1, masked = 2;
  static constexpr std::int64_t special = 3;

  std::int64_t kinds() const { return vocabulary_ - special; }

  bool has_order_ = schema_.find("is_random") != nullptr;
  bool has_types_ = schema_.find("types") != nullptr;
};

class texts_in_reverse final : public made_up_texts {
 public:
  using made_up_texts::made_up_texts;

  void fill(std::uint64_t i, const sample_view& out) const override {
    const auto key = key_of(i);
    const auto text = out.at<std::int32_t>("encoder_tokens");
    const auto length = std::int64_t(text.size());
    const auto used = length - below(key, of_lengths, (length + 1) / 2);
    for (std::int64_t t = 0; t < length; ++t)
      text[std::size_t(t)] = t < used ? std::int32_t(below(key, t, vocabulary_)) : 0;
    const auto positions = out.at<std::int32_t>("encoder_positions");
    std::iota(positions.begin(), positions.end(), 0);
    const token_row row(out);
    const auto T = std::int64_t(row.tokens.size()), said = std::min(used, T);
    for (std::int64_t t = 0; t < T; ++t) {
      const auto at = std::size_t(t);
      row.labels[at] = t < said ? text[std::size_t(used - 1 - t)] : 0;
      row.tokens[at] = t > 0 && t < said ? row.labels[at - 1] : 0;
      row.mask[at] = t < said ? 1.0F : 0.0F;
      row.positions[at] = std::int32_t(t);
    }
    out.cut(used, "encoder_documents");
    out.cut(said);
  }
};

}  // namespace

std::shared_ptr<const sample_dataset> made_up_sentences(batch_schema schema,
                                                        std::int64_t vocabulary,
                                                        const samples_request& from) {
  return std::make_shared<counting_sentences>(std::move(schema), vocabulary, from);
}

std::shared_ptr<const sample_dataset> reversed_texts(batch_schema schema,
                                                     std::int64_t vocabulary,
                                                     const samples_request& from) {
  return std::make_shared<texts_in_reverse>(std::move(schema), vocabulary, from);
}

}  // namespace troupe::runtime
