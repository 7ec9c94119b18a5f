#include "runtime/data/masking.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace troupe::runtime {
namespace {

using indices = std::vector<std::int32_t>;

constexpr double spanbert = 0.2;  // of the geometric distribution

/// numpy's sum of at most 128 doubles: eight partial sums.
double numpy_sum(std::span<const double> x) {
  if (x.size() < 8)
    return std::accumulate(x.begin(), x.end(), 0.0);
  std::array<double, 8> r;
  std::copy_n(x.begin(), 8, r.begin());
  std::size_t i = 8;
  for (; i < x.size() - x.size() % 8; ++i)
    r[i % 8] += x[i];
  const auto pairs = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  return std::accumulate(x.begin() + std::ptrdiff_t(i), x.end(), pairs);
}

/// numpy's choice among n-grams: the cumulative probabilities, which are proportional to 1 / n.
std::vector<double> cumulative_ngrams(const masking_settings& how) {
  std::vector<double> p(std::size_t(how.max_ngram));
  for (std::size_t i = 0; i < p.size(); ++i)
    p[i] = 1.0 / double(i + 1);
  for (int twice = 0; twice < 2; ++twice)  // as megatron-core, for the same bits
    for (const auto sum = numpy_sum(p); auto& x : p)
      x /= sum;
  if (how.longer_ngrams)
    std::reverse(p.begin(), p.end());
  std::partial_sum(p.begin(), p.end(), p.begin());
  for (const auto all = p.back(); auto& x : p)
    x /= all;
  return p;
}

class ngrams {
 public:
  ngrams(std::span<const std::int32_t> tokens,
         const masking_settings& how,
         const masking_vocabulary& vocabulary)
      : how_(how), cumulative_(cumulative_ngrams(how)) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto id = tokens[i];
      if (id == vocabulary.classify || id == vocabulary.separator)
        continue;
      if (!(vocabulary.continues[std::size_t(id)] && how.whole_words && !starts_.empty()))
        starts_.push_back(std::int32_t(members_.size()));
      members_.push_back(std::int32_t(i));
    }
    order_.resize(starts_.size());
    std::iota(order_.begin(), order_.end(), 0);
    starts_.push_back(std::int32_t(members_.size()));
  }

  void shuffle(numpy_random_state& draws) { draws.shuffle(std::span(order_)); }
  /// The candidates, in the order of the shuffles.
  const indices& order() const { return order_; }

  std::int64_t drawn_length(numpy_random_state& draws, bool geometric) const {
    if (geometric)
      return std::min(draws.geometric(spanbert), how_.max_ngram);
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), draws.random());
    return found - cumulative_.begin() + 1;
  }

  /// The tokens of the longest n-gram of the candidate with at most `length` candidates and `room`
  /// tokens; empty: there is none.
  std::span<const std::int32_t> fitting(std::int32_t candidate,
                                        std::int64_t length,
                                        double room) const {
    for (auto n = length; n > 0; --n) {
      const auto last = std::min(candidate + n, std::int64_t(starts_.size()) - 1);
      const auto begin = starts_[std::size_t(candidate)], end = starts_[std::size_t(last)];
      if (double(end - begin) <= room)
        return std::span(members_).subspan(std::size_t(begin), std::size_t(end - begin));
    }
    return {};
  }

 private:
  const masking_settings& how_;
  std::vector<double> cumulative_;
  indices members_;  ///< positions of the tokens of all candidates
  indices starts_;   ///< of each candidate in members_, and the end
  indices order_;
};

/// The number of masks, which is not always whole.
double masks_of(std::size_t tokens, std::int64_t longest, double probability) {
  return std::min(probability * double(longest),
                  std::max(1.0, std::nearbyint(double(tokens) * probability)));
}

bool any_in(std::span<const std::int32_t> at, const std::vector<bool>& taken) {
  return std::ranges::any_of(at, [&](auto i) { return taken[std::size_t(i)]; });
}

/// Positions of tokens that are exchanged among each other, ascending.
indices permuted_positions(const ngrams& all,
                           double limit,
                           std::vector<bool> taken,
                           numpy_random_state& draws) {
  indices out;
  for (const auto candidate : all.order()) {
    if (double(out.size()) >= limit)
      break;
    const auto n = all.drawn_length(draws, false);
    const auto at = all.fitting(candidate, n, limit - double(out.size()));
    if (any_in(at, taken))
      continue;
    for (const auto i : at) {
      taken[std::size_t(i)] = true;
      out.push_back(i);
    }
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

void validate_masking(const masking_settings& x, std::vector<std::string>& wrong) {
  if (!(x.probability > 0 && x.probability < 1))
    wrong.push_back(fmt::format(
        "`model.masking.probability` {} must be above 0 and below 1, such as 0.15", x.probability));
  if (!(x.short_sequences >= 0 && x.short_sequences <= 1))
    wrong.push_back(fmt::format(
        "`model.masking.short_sequences` {} must be from 0 to 1, such as 0.1", x.short_sequences));
  if (x.max_ngram < 1 || x.max_ngram > 128)
    wrong.push_back(
        fmt::format("`model.masking.max_ngram` {} must be from 1 to 128, such as 3", x.max_ngram));
  if (x.geometric && x.permutation)
    wrong.emplace_back(
        "`model.masking.permutation` does not go with a geometric distribution of words that are "
        "masked "
        "together, which a T5 always has: leave it out");
}

std::int64_t most_masked(std::int64_t longest, double probability) {
  return std::int64_t(masks_of(std::size_t(longest), longest, probability));
}

void require_masks(std::int64_t longest, double probability) {
  if (most_masked(longest, probability) < 1)
    throw input_error(
        "cannot mask samples: {} of {}, besides the added ones, is less than one token; give at "
        "least {}, or raise `model.masking.probability`",
        probability,
        counted(longest, "token"),
        counted(std::int64_t(std::ceil(1 / probability)), "token"));
}

masked_text mask_tokens(std::span<const std::int32_t> tokens,
                        std::int64_t longest,
                        const masking_settings& how,
                        const masking_vocabulary& vocabulary,
                        const mask_choice& mask,
                        numpy_random_state& draws) {
  ensure(how.max_ngram >= 1 && how.max_ngram <= 128,
         "MASKING-1: the number of words to mask together is known");
  const auto limit = masks_of(tokens.size(), longest, how.probability);
  ngrams all(tokens, how, vocabulary);
  all.shuffle(draws);

  masked_text out{.tokens = {tokens.begin(), tokens.end()}};
  std::vector<bool> taken(tokens.size());
  std::size_t done = 0;
  for (const auto candidate : all.order()) {
    if (double(done) >= limit)
      break;
    const auto n = all.drawn_length(draws, how.geometric);
    const auto at = all.fitting(candidate, n, limit - double(done));
    if (at.empty() || any_in(at, taken))
      continue;
    masked_span span;
    for (const auto i : at) {
      const auto k = std::size_t(i);
      taken[k] = true;
      out.tokens[k] = mask(draws).value_or(tokens[k]);
      span.positions.push_back(i);
      span.labels.push_back(tokens[k]);
    }
    done += at.size();
    out.spans.push_back(std::move(span));
  }
  std::ranges::sort(out.spans, {}, [](const auto& x) { return x.positions.front(); });

  all.shuffle(draws);
  if (how.permutation) {
    const auto from = permuted_positions(all, limit, taken, draws);
    auto to = from;
    draws.shuffle(std::span(to));
    const auto before = out.tokens;
    for (std::size_t k = 0; k < from.size(); ++k) {
      out.tokens[std::size_t(from[k])] = before[std::size_t(to[k])];
      taken[std::size_t(from[k])] = true;
    }
  }
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (taken[i]) {
      out.positions.push_back(std::int32_t(i));
      out.labels.push_back(tokens[i]);
    }
  return out;
}

}  // namespace troupe::runtime
