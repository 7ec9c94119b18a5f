#include "runtime/serving/token_picker.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace troupe::runtime::serving {
namespace {

/// Equal values are ordered by their ids, so the order is always the same.
std::vector<std::int32_t> most_probable(const std::vector<float>& of, std::size_t count) {
  std::vector<std::int32_t> out(of.size());
  std::iota(out.begin(), out.end(), 0);
  count = std::min(count, out.size());
  std::ranges::partial_sort(out, out.begin() + std::ptrdiff_t(count), [&](auto a, auto b) {
    return of[std::size_t(a)] != of[std::size_t(b)] ? of[std::size_t(a)] > of[std::size_t(b)]
                                                    : a < b;
  });
  out.resize(count);
  return out;
}

void penalise(std::vector<float>& logits,
              const sampling_settings& how,
              std::span<const std::int32_t> so_far,
              std::size_t prompt) {
  if (how.repetition_penalty != 1)
    for (const auto token : std::set(so_far.begin(), so_far.end())) {
      auto& x = logits[std::size_t(token)];
      x = x > 0 ? x / how.repetition_penalty : x * how.repetition_penalty;
    }
  if (how.presence_penalty != 0 || how.frequency_penalty != 0) {
    std::map<std::int32_t, int> counts;
    for (const auto token : so_far.subspan(prompt))
      ++counts[token];
    for (const auto& [token, count] : counts)
      logits[std::size_t(token)] -= how.presence_penalty + how.frequency_penalty * float(count);
  }
  for (const auto& [token, more] : how.bias)
    logits[std::size_t(token)] += more;
}

}  // namespace

token_choice choice_of(std::span<const float> logits,
                       std::int32_t token,
                       std::int64_t alternatives) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const auto x : logits)
    sum += std::exp(double(x) - most);
  const auto log_probability = [&](std::int32_t id) {
    return float(double(logits[std::size_t(id)]) - most - std::log(sum));
  };
  token_choice out{.token = token, .log_probability = log_probability(token)};
  if (alternatives > 0)
    for (const auto id : most_probable({logits.begin(), logits.end()}, std::size_t(alternatives)))
      out.alternatives.emplace_back(id, log_probability(id));
  return out;
}

std::int32_t pick(std::span<const float> logits,
                  const sampling_settings& how,
                  std::span<const std::int32_t> so_far,
                  std::size_t prompt,
                  std::span<const std::int32_t> banned,
                  double uniform) {
  std::vector<float> own(logits.begin(), logits.end());
  penalise(own, how, so_far, prompt);
  for (const auto token : banned)
    own[std::size_t(token)] = -std::numeric_limits<float>::infinity();
  if (how.temperature == 0 || how.top_k == 1)
    return most_probable(own, 1).front();
  const auto all = own.size();
  const bool limits = how.top_k > 0 || how.top_p < 1;
  auto ids = most_probable(own, how.top_k > 0 ? std::size_t(how.top_k) : limits ? all : 0);
  if (!limits) {
    ids.resize(all);
    std::iota(ids.begin(), ids.end(), 0);
  }
  const double most = *std::ranges::max_element(own);
  std::vector<double> weights;
  for (const auto id : ids)
    weights.push_back(std::exp((double(own[std::size_t(id)]) - most) / double(how.temperature)));
  if (how.top_p < 1) {
    const auto enough = double(how.top_p) * std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t count = 0;
    for (double sum = 0; count < weights.size() && sum < enough;)
      sum += weights[count++];
    weights.resize(std::max<std::size_t>(count, 1));
  }
  for (auto& x : weights)  // the largest weight is 1
    x = x < double(how.min_p) ? 0 : x;
  auto left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  auto chosen = std::size_t(0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0)
      continue;
    chosen = i;
    if ((left -= weights[i]) < 0)
      break;
  }
  return ids[chosen];
}

}  // namespace troupe::runtime::serving
