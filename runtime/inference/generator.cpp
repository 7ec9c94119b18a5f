#include "runtime/inference/generator.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::runtime {
namespace {

tensor whole_numbers(stream& on, shape extents, std::int32_t first, std::int32_t step) {
  auto out = tensor::empty<std::int32_t>(on, extents);
  for (std::int64_t i = 0; i < out.size(); ++i)
    out.data<std::int32_t>()[i] = first + std::int32_t(i) * step;
  return out;
}

std::vector<attention_cache> empty_caches(const gpt_config& c,
                                          std::int64_t capacity,
                                          dtype type,
                                          stream& on) {
  std::vector<attention_cache> out(std::size_t(c.layers));
  for (auto& cache : out) {
    cache.entries = with_element(type, [&]<class T>(T) {
      return tensor::empty<T>(on, {capacity, c.groups, 2, c.head_size});
    });
    // Rows that nobody has written are masked by their position; what they hold must be finite.
    on.pool().clear(cache.entries.raw(), cache.entries.bytes());
    cache.positions = whole_numbers(on, {capacity}, std::numeric_limits<std::int32_t>::max(), 0);
    cache.starts = whole_numbers(on, {2}, 0, std::int32_t(capacity));
  }
  return out;
}

std::int32_t draw(std::span<const float> logits,
                  std::int64_t vocabulary,
                  const sampling& how,
                  double number,
                  stream& on) {
  std::int32_t token = 0;
  on.run(kernels::sample_token<float>{.token = &token,
                                      .logits = logits.data(),
                                      .vocabulary = vocabulary,
                                      .temperature = how.temperature,
                                      .top_k = how.top_k,
                                      .top_p = how.top_p,
                                      .uniform = number});
  return token;
}

}  // namespace

decoder::decoder(
    const chunk& whole, parameter_store& store, stream& on, std::int64_t capacity, bool cached)
    : chunk_(whole), route_(whole, {}), store_(store), stream_(on) {
  if (cached)
    caches_ = empty_caches(whole.config(), capacity, store.type(), on);
}

std::span<const float> decoder::advance(std::span<const std::int32_t> tokens) {
  so_far_.insert(so_far_.end(), tokens.begin(), tokens.end());
  const auto first = caches_ ? filled_ : 0;
  const auto rows = std::int64_t(so_far_.size()) - first;
  bundle in;
  auto tokens_in = tensor::empty<std::int32_t>(stream_, {1, rows});
  std::copy_n(so_far_.begin() + first, rows, tokens_in.data<std::int32_t>());
  in.add("tokens", tokens_in);
  in.add("positions", whole_numbers(stream_, {1, rows}, std::int32_t(first), 1));
  auto sample = tensor::empty<std::uint64_t>(stream_, {1});
  sample.data<std::uint64_t>()[0] = 0;
  in.add("samples", sample);
  if (caches_)
    for (auto& cache : *caches_)
      cache.rows = whole_numbers(stream_, {rows}, std::int32_t(first), 1);

  chunk_pass pass(chunk_, route_, stream_, store_, {.training = false});
  const auto logits = pass.forward(in, caches_ ? &*caches_ : nullptr).at("logits");
  filled_ = std::int64_t(so_far_.size());
  const auto& config = chunk_.config();
  const auto words = std::size_t(config.padded_vocabulary);
  with_element(store_.type(), [&]<class T>(T) {
    const auto last = logits.elements<T>().last(words);
    logits_.clear();
    for (const T& x : last)
      logits_.push_back(float(x));
  });
  const auto real = std::span(logits_).first(std::size_t(config.vocabulary));
  if (!std::all_of(real.begin(), real.end(), [](float x) { return std::isfinite(x); }))
    throw input_error(
        "the model's output after {} tokens is not finite: its training has diverged; load an "
        "earlier checkpoint",
        filled_);
  return logits_;
}

generation_end generate(const chunk& whole,
                        parameter_store& store,
                        stream& on,
                        const generation_request& what,
                        const std::function<void(std::int32_t)>& visit) {
  const auto& config = whole.config();
  const auto prompt = std::int64_t(what.prompt.size());
  if (prompt == 0)
    throw input_error("a prompt needs at least one token, such as the end of a document");
  const bool bounded = config.position == position_embedding::learned_absolute;
  if (bounded && prompt > config.sequence)
    throw input_error(
        "the prompt has {} tokens, but the model has learned positions for {}: shorten it",
        prompt,
        config.sequence);
  const auto most = bounded ? std::min(what.tokens, config.sequence - prompt + 1) : what.tokens;
  const auto key = random_key(what.how.seed, "generate", 0);
  decoder state(whole, store, on, prompt + std::max<std::int64_t>(most, 1), what.cached);
  std::vector<std::int32_t> fresh = what.prompt;
  for (std::int64_t i = 0; i < most; ++i) {
    const auto logits = state.advance(fresh);
    const auto number = uniform(key, std::uint64_t(i));
    fresh = {draw(logits, config.vocabulary, what.how, number, on)};
    if (fresh[0] == what.end_of_document)
      return generation_end::end_of_document;
    visit(fresh[0]);
  }
  return most < what.tokens ? generation_end::end_of_positions : generation_end::enough;
}

}  // namespace troupe::runtime
