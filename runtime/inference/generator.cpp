#include "runtime/inference/generator.hpp"

#include "kernels/op/sample.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/inference/score.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::runtime {
namespace {

tensor whole_numbers(stream& stream, shape extents, std::int32_t first, std::int32_t step) {
  std::vector<std::int32_t> out(std::size_t(extents.size()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = first + std::int32_t(i) * step;
  return uploaded(stream, out, extents);
}

std::vector<attention_cache> empty_caches(const std::vector<shape>& entries,
                                          std::int64_t sequences,
                                          std::int64_t capacity,
                                          dtype type,
                                          stream& stream) {
  std::vector<attention_cache> out;
  const auto rows = sequences * capacity;
  for (const auto& entry : entries) {
    shape extents{rows};
    for (int i = 0; i < entry.rank(); ++i)
      extents.push_back(entry[i]);
    auto& cache = out.emplace_back();
    cache.entries
        = with_element(type, [&]<class T>(T) { return tensor::empty<T>(stream, extents); });
    // Unwritten rows are masked by their position, but must be finite.
    stream.pool().clear(cache.entries.raw(), cache.entries.bytes());
    cache.positions = whole_numbers(stream, {rows}, std::numeric_limits<std::int32_t>::max(), 0);
    cache.starts = whole_numbers(stream, {sequences + 1}, 0, std::int32_t(capacity));
  }
  return out;
}

std::int32_t draw(std::span<const float> logits,
                  std::int64_t vocabulary,
                  const sampling_settings& settings,
                  double number,
                  stream& stream) {
  std::int32_t token = 0;
  stream.run(kernels::sample_token<float>{.token = &token,
                                          .logits = logits.data(),
                                          .vocabulary = vocabulary,
                                          .temperature = settings.temperature,
                                          .top_k = settings.top_k,
                                          .top_p = settings.top_p,
                                          .uniform = number});
  return token;
}

std::size_t longest(std::span<const std::vector<std::int32_t>> tokens) {
  std::size_t out = 0;
  for (const auto& x : tokens)
    out = std::max(out, x.size());
  return out;
}

void require_finite(std::span<const float> logits, std::size_t tokens, dtype precision) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    throw input_error(
        "the model's output after {} tokens is not finite: {}", tokens, why_not_finite(precision));
}

/// Maximum number of tokens that the request can get.
std::int64_t tokens_allowed(const generation_request& what, const model_spec& model) {
  if (model.positions() == 0)
    return what.tokens;
  // The last token is never an input.
  return std::min(what.tokens, model.positions() - std::int64_t(what.prompt.size()) + 1);
}

/// Number of ids to draw from: the last rows of a padded vocabulary have no token.
std::int64_t drawn_from(const generation_request& what, const model_spec& model) {
  const auto all = model.head().vocabulary;
  return what.ids > 0 ? std::min(what.ids, all) : all;
}

/// State of one of the texts that grow together.
struct growing_text {
  const generation_request* what = nullptr;
  std::int64_t most = 0;
  std::uint64_t key = 0;
  std::int64_t drawn = 0;
  std::optional<generation_end> end = {};

  void settle() {
    if (!end && drawn == most)
      end = most < what->tokens ? generation_end::end_of_positions : generation_end::enough;
  }
};

}  // namespace

decoder::decoder(const chunk& whole,
                 parameter_store& store,
                 stream& stream,
                 std::int64_t capacity,
                 bool cached,
                 std::size_t sequences)
    : chunk_(whole),
      plan_(whole, {}),
      store_(store),
      stream_(stream),
      capacity_(capacity),
      so_far_(cached ? 0 : sequences),
      filled_(sequences, 0) {
  if (cached)
    caches_ = empty_caches(whole.caches(), std::int64_t(sequences), capacity, store.type(), stream);
}

/// Pads shorter sequences at the end. Earlier tokens do not attend to the padding, and the next
/// token overwrites it.
bundle decoder::input(std::span<const std::vector<std::int32_t>> tokens) {
  const auto B = std::int64_t(tokens.size()), T = std::int64_t(longest(tokens));
  std::vector<std::int32_t> ids(std::size_t(B * T)), positions, places;
  const auto& model = chunk_.model();
  const auto last = model.positions() > 0 ? model.positions() - 1 : capacity_;
  for (std::int64_t b = 0; b < B; ++b) {
    const auto& own = tokens[std::size_t(b)];
    const auto first = caches_ ? filled_[std::size_t(b)] : 0;
    std::copy(own.begin(), own.end(), ids.begin() + b * T);
    for (std::int64_t t = 0; t < T; ++t) {
      positions.push_back(std::int32_t(std::min(first + t, last)));
      places.push_back(std::int32_t(b * capacity_ + std::min(first + t, capacity_ - 1)));
    }
  }
  const auto rows = uploaded(stream_, places, {B * T});
  bundle in;
  in.add("tokens", uploaded(stream_, ids, {B, T}));
  in.add("positions", uploaded(stream_, positions, {B, T}));
  in.add("samples", uploaded(stream_, std::vector<std::uint64_t>(std::size_t(B)), {B}));
  if (caches_)
    for (auto& cache : *caches_)
      cache.rows = rows;
  return in;
}

void decoder::keep_last(const tensor& logits, std::span<const std::vector<std::int32_t>> tokens) {
  const auto words = std::size_t(chunk_.model().head().padded_vocabulary), rows = longest(tokens);
  logits_.resize(tokens.size() * words);
  with_element(store_.type(), [&]<class T>(T) {
    std::vector<T> row(words);
    for (std::size_t b = 0; b < tokens.size(); ++b) {
      const auto first = (b * rows + tokens[b].size() - 1) * words;
      stream_.read(row.data(), logits.template data<T>() + first, words * sizeof(T));
      std::transform(row.begin(), row.end(), logits_.begin() + std::ptrdiff_t(b * words), [](T x) {
        return float(x);
      });
    }
  });
}

std::span<const float> decoder::advance(std::span<const std::vector<std::int32_t>> tokens) {
  ensure(tokens.size() == filled_.size(), "DECODE-1: every sequence is given its tokens");
  for (std::size_t b = 0; b < tokens.size(); ++b)
    ensure(!tokens[b].empty() && filled_[b] + std::int64_t(tokens[b].size()) <= capacity_,
           "DECODE-2: a sequence grows by one token or more, up to its capacity");
  const pass_settings settings{.training = false,
                               .losses = false,
                               .limits_experts = false,
                               .records_choices = keeps_choices_};
  chunk_pass pass(chunk_, plan_, stream_, store_, settings);
  for (std::size_t b = 0; b < so_far_.size(); ++b)
    so_far_[b].insert(so_far_[b].end(), tokens[b].begin(), tokens[b].end());
  const auto seen = caches_ ? tokens : std::span<const std::vector<std::int32_t>>(so_far_);
  const auto logits = pass.forward(input(seen), caches_ ? &*caches_ : nullptr).at("logits");
  keep_last(logits, seen);
  choices_.clear();
  for (auto& [segment, choice] : pass.take_choices())
    choices_.push_back(std::move(choice));
  appended_.clear();
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    appended_.push_back(std::int64_t(tokens[b].size()));
    filled_[b] += appended_.back();
  }
  return logits_;
}

void decoder::record(std::size_t sequence, std::uint64_t text, choice_text_writer& to) const {
  const auto count = appended_.at(sequence), first = filled_[sequence] - count;
  for (const auto& x : choices_) {
    const auto row = std::int64_t(sequence) * x.rows.positions + (caches_ ? 0 : first);
    to.write_choices(text, first, x, row, count);
  }
}

void require_fitting(const generation_request& what, const model_spec& model) {
  const auto prompt = std::int64_t(what.prompt.size());
  if (prompt == 0)
    throw input_error("prompt {} needs at least one token, such as the end of a document",
                      what.number + 1);
  if (model.positions() > 0 && prompt > model.positions())
    throw input_error("prompt {} has {} tokens, but the model has {} learned positions: shorten it",
                      what.number + 1,
                      prompt,
                      model.positions());
}

std::vector<generation_end> generate(const chunk& whole,
                                     parameter_store& store,
                                     stream& stream,
                                     std::span<const generation_request> what,
                                     const token_visitor& visit,
                                     bool cached,
                                     choice_text_writer* record) {
  const auto& model = whole.model();
  std::vector<growing_text> texts;
  std::vector<std::vector<std::int32_t>> fresh;
  std::int64_t longest_prompt = 0, most = 0;
  for (const auto& x : what) {
    require_fitting(x, model);
    const auto allowed = tokens_allowed(x, model);
    texts.push_back({&x, allowed, random_key(x.sampling.seed, "generate", x.number)});
    fresh.push_back(x.prompt);
    longest_prompt = std::max(longest_prompt, std::int64_t(x.prompt.size()));
    most = std::max(most, allowed);
  }
  // Samples on the host.
  runtime::stream drawing(
      stream.queue() == nullptr ? stream.where() : kernels::backend::cpu, stream.threads(), {});
  decoder state(
      whole, store, stream, longest_prompt + std::max<std::int64_t>(most, 1), cached, what.size());
  if (record != nullptr) {
    state.keep_choices();
    for (const auto& x : what)
      record->write_tokens(x.number, 0, x.prompt);
  }
  for (std::int64_t i = 0; i < most; ++i) {
    const auto logits = state.advance(fresh);
    bool going_on = false;
    for (std::size_t b = 0; b < texts.size(); ++b) {
      auto& text = texts[b];
      text.settle();
      fresh[b] = {0};  // an ended text continues with a dummy token
      if (text.end)
        continue;
      const auto own = logits.subspan(b * std::size_t(model.head().padded_vocabulary));
      require_finite(
          own.first(std::size_t(model.head().vocabulary)), what[b].prompt.size() + i, store.type());
      const auto number = uniform(text.key, std::uint64_t(text.drawn++));
      fresh[b][0] = draw(own, drawn_from(what[b], model), what[b].sampling, number, drawing);
      if (record != nullptr) {
        const auto at = std::int64_t(what[b].prompt.size()) + i;
        state.record(b, what[b].number, *record);
        record->write_tokens(what[b].number, at, fresh[b]);
      }
      if (fresh[b][0] == what[b].end_of_document)
        text.end = generation_end::end_of_document;
      else if (!visit(b, fresh[b][0]))
        text.end = generation_end::stopped;
      text.settle();
      going_on = going_on || !text.end;
    }
    if (!going_on)
      break;
  }
  std::vector<generation_end> out;
  for (auto& text : texts) {
    text.settle();
    out.push_back(text.end.value());
  }
  return out;
}

}  // namespace troupe::runtime
