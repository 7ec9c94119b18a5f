#include "runtime/inference/sampling.hpp"

#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/sample.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace troupe::runtime {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();
constexpr float largest_penalty = 2, largest_bias = 100;  // as in OpenAI's API

void require_between(const char* what, double x, double least, double most) {
  if (!(x >= least && x <= most))
    throw input_error("{} {} is out of range: give a number from {} to {}", what, x, least, most);
}

bool is_changed(const token_place& at, const sampling_settings& x) {
  return !x.bias.empty() || x.repetition_penalty != 1 || x.presence_penalty != 0
         || x.frequency_penalty != 0 || !at.allowed.empty() || !at.banned.empty();
}

void penalize(std::span<float> logits, const token_place& at, const sampling_settings& x) {
  const auto known
      = [&](std::int32_t token) { return token >= 0 && std::size_t(token) < logits.size(); };
  if (x.repetition_penalty != 1) {
    const std::unordered_set<std::int32_t> seen(at.so_far.begin(), at.so_far.end());
    for (const auto token : seen)
      if (known(token)) {
        auto& logit = logits[std::size_t(token)];
        logit = logit > 0 ? logit / x.repetition_penalty : logit * x.repetition_penalty;
      }
  }
  if (x.presence_penalty != 0 || x.frequency_penalty != 0) {
    std::unordered_map<std::int32_t, int> count;
    for (const auto token : at.so_far.subspan(at.prompt))
      ++count[token];
    for (const auto& [token, n] : count)
      if (known(token))
        logits[std::size_t(token)] -= float(n) * x.frequency_penalty + x.presence_penalty;
  }
}

/// The logits to draw from.
std::vector<float> changed(const token_place& at,
                           std::span<const float> from,
                           const sampling_settings& x) {
  std::vector<float> out(from.begin(), from.end());
  for (const auto& [token, bias] : x.bias)
    if (token >= 0 && std::size_t(token) < out.size())
      out[std::size_t(token)] += bias;
  penalize(out, at, x);
  if (!at.allowed.empty())
    for (std::size_t i = 0; i < out.size(); ++i)
      if (i / 64 >= at.allowed.size() || (at.allowed[i / 64] >> (i % 64) & 1) == 0)
        out[i] = never;
  for (const auto token : at.banned)
    if (token >= 0 && std::size_t(token) < out.size())
      out[std::size_t(token)] = never;
  ensure(std::any_of(out.begin(), out.end(), [](float logit) { return logit > never; }),
         "CHOOSE-1: one token or more is allowed");
  return out;
}

std::vector<std::int32_t> most_probable(std::span<const float> logits, std::int64_t count) {
  std::vector<std::int32_t> all(logits.size());
  std::iota(all.begin(), all.end(), 0);
  const auto end = all.begin() + std::clamp<std::int64_t>(count, 0, std::int64_t(all.size()));
  std::partial_sort(all.begin(), end, all.end(), [&](std::int32_t a, std::int32_t b) {
    const auto x = logits[std::size_t(a)], y = logits[std::size_t(b)];
    return x != y ? x > y : a < b;
  });
  all.erase(end, all.end());
  return all;
}

float log_probability(stream& host, std::span<const float> logits, std::int32_t token) {
  float loss = 0;
  const auto V = std::int64_t(logits.size());
  host.run(kernels::cross_entropy_forward<float>{.loss = &loss,
                                                 .lse = nullptr,
                                                 .logits = logits.data(),
                                                 .target = &token,
                                                 .R = 1,
                                                 .V = V,
                                                 .vocabulary = V});
  return -loss;
}

}  // namespace

void require_sampling(const sampling_settings& x, std::int64_t ids) {
  require_between("the temperature", x.temperature, 0, 1e6);
  if (x.top_k < 0)
    throw input_error("top-k {} is below 0: give 0 for all tokens, or how many to keep", x.top_k);
  require_between("top-p", x.top_p, 0, 1);
  require_between("min-p", x.min_p, 0, 1);
  require_between("the repetition penalty", x.repetition_penalty, 1e-3, 1e3);
  require_between("the presence penalty", x.presence_penalty, -largest_penalty, largest_penalty);
  require_between("the frequency penalty", x.frequency_penalty, -largest_penalty, largest_penalty);
  for (const auto& [token, bias] : x.bias) {
    if (token < 0 || token >= ids)
      throw input_error("there is no token {} to bias: give an id from 0 to {}", token, ids - 1);
    require_between("a bias", bias, -largest_bias, largest_bias);
  }
}

double draw_of(std::uint64_t seed,
               std::uint64_t request,
               std::uint64_t copy,
               std::uint64_t position) {
  const auto name = copy == 0 ? std::string("generate") : fmt::format("generate {}", copy);
  return uniform(random_key(seed, name, request), position);
}

token_choice choose(stream& host, const token_place& at, const sampling_settings& x) {
  const auto ids = at.ids > 0 ? std::min(at.ids, std::int64_t(at.logits.size()))
                              : std::int64_t(at.logits.size());
  auto from = at.logits.first(std::size_t(ids));
  std::vector<float> own;
  if (is_changed(at, x)) {
    own = changed(at, from, x);
    from = own;
  }
  const bool most_probable_only = x.temperature == 0;
  std::int32_t token = 0;
  host.run(kernels::sample_token<float>{.token = &token,
                                        .logits = from.data(),
                                        .vocabulary = ids,
                                        .temperature = most_probable_only ? 1 : x.temperature,
                                        .top_k = most_probable_only ? 1 : x.top_k,
                                        .top_p = x.top_p,
                                        .min_p = x.min_p,
                                        .uniform = at.draw});
  if (at.alternatives)
    return choice_of(host, at.logits, token, *at.alternatives);
  return {.token = token, .log_probability = std::numeric_limits<float>::quiet_NaN()};
}

token_choice choice_of(stream& host,
                       std::span<const float> logits,
                       std::int32_t token,
                       std::int64_t alternatives) {
  token_choice out{.token = token, .log_probability = log_probability(host, logits, token)};
  if (alternatives > 0)
    for (const auto one : most_probable(logits, alternatives))
      out.alternatives.emplace_back(one, log_probability(host, logits, one));
  return out;
}

std::vector<std::size_t> best_first(std::span<const std::vector<float>> log_probabilities) {
  std::vector<double> mean;
  for (const auto& text : log_probabilities)
    mean.push_back(text.empty()
                       ? -std::numeric_limits<double>::infinity()
                       : std::accumulate(text.begin(), text.end(), 0.0) / double(text.size()));
  std::vector<std::size_t> out(mean.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::stable_sort(
      out.begin(), out.end(), [&](std::size_t a, std::size_t b) { return mean[a] > mean[b]; });
  return out;
}

}  // namespace troupe::runtime
