#include "runtime/inference/beam_search.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

double log_of_sum(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const auto x : logits)
    sum += std::exp(double(x) - largest);
  return largest + std::log(sum);
}

}  // namespace

beam_search::beam_search(const beam_settings& settings,
                         std::int64_t most,
                         std::int64_t ids,
                         std::vector<std::int32_t> ends)
    : settings_(settings), most_(most), ids_(ids), ends_(std::move(ends)), done_(most <= 0) {
  ensure(settings.beams > 0 && settings.returned > 0 && settings.returned <= settings.beams,
         "BEAM-1: a search returns one text or more, and at most one for each beam");
}

/// So many that as many as beams go on if all ends of each beam are among them.
std::vector<beam_search::continuation> beam_search::best(std::span<const float> logits,
                                                         std::int64_t stride,
                                                         std::int64_t vocabulary) const {
  std::vector<continuation> out;
  out.reserve(beams_.size() * std::size_t(ids_));
  for (std::size_t b = 0; b < beams_.size(); ++b) {
    const auto own = logits.subspan(b * std::size_t(stride), std::size_t(vocabulary));
    const auto rest = beams_[b].score - log_of_sum(own);
    for (std::int32_t id = 0; id < ids_; ++id)
      out.push_back({rest + double(own[std::size_t(id)]), b, id});
  }
  const auto each = 1 + std::max<std::size_t>(1, ends_.size());
  const auto kept = std::min(out.size(), each * std::size_t(settings_.beams));
  std::partial_sort(out.begin(),
                    out.begin() + std::ptrdiff_t(kept),
                    out.end(),
                    [](const continuation& a, const continuation& b) {
                      if (a.score != b.score)
                        return a.score > b.score;
                      return a.source != b.source ? a.source < b.source : a.token < b.token;
                    });
  out.resize(kept);
  return out;
}

double beam_search::final_score(double score, std::int64_t tokens) const {
  return score / std::pow(double(tokens), settings_.length_penalty);
}

bool beam_search::is_end(std::int32_t token) const {
  return std::ranges::find(ends_, token) != ends_.end();
}

void beam_search::keep(const continuation& x) {
  beam_text text{.tokens = beams_[x.source].tokens,
                 .score = final_score(x.score, steps_),
                 .ended = is_end(x.token)};
  if (!text.ended)
    text.tokens.push_back(x.token);
  const auto after = std::ranges::find_if(
      ended_, [&](const beam_text& other) { return other.score < text.score; });
  ended_.insert(after, std::move(text));
  if (std::int64_t(ended_.size()) > settings_.beams)
    ended_.pop_back();
}

bool beam_search::may_improve() const {
  if (std::int64_t(ended_.size()) < settings_.beams)
    return true;
  if (settings_.stop == beam_stop::full)
    return false;
  const bool longest = settings_.stop == beam_stop::never && settings_.length_penalty > 0;
  return final_score(beams_.front().score, longest ? most_ : steps_) > ended_.back().score;
}

void beam_search::advance(std::span<const float> logits,
                          std::int64_t stride,
                          std::int64_t vocabulary) {
  ensure(!done_ && ids_ <= vocabulary, "BEAM-2: a search that goes on gets logits of all ids");
  const auto all = best(logits, stride, vocabulary);
  ++steps_;
  std::vector<beam> next;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto& x = all[rank];
    if (is_end(x.token) || steps_ == most_) {
      if (std::int64_t(rank) < settings_.beams)
        keep(x);
    } else if (std::int64_t(next.size()) < settings_.beams) {
      next.push_back({beams_[x.source].tokens, x.score, x.source});
      next.back().tokens.push_back(x.token);
    }
  }
  beams_ = std::move(next);
  done_ = beams_.empty() || !may_improve();
}

std::vector<beam_text> beam_search::texts() const {
  ensure(done_, "BEAM-3: a search that goes on has no texts");
  const auto count = std::min(ended_.size(), std::size_t(settings_.returned));
  return {ended_.begin(), ended_.begin() + std::ptrdiff_t(count)};
}

}  // namespace troupe::runtime
