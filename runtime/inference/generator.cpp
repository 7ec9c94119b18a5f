#include "runtime/inference/generator.hpp"

#include "runtime/core/error.hpp"
#include "runtime/inference/score.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace troupe::runtime {
namespace {

bool ends(const generation_request& what, std::int32_t token) {
  return token == what.end_of_document
         || std::ranges::find(what.other_ends, token) != what.other_ends.end();
}

/// State of one of the texts that grow together.
struct growing_text {
  const generation_request* what = nullptr;
  std::int64_t most = 0;
  std::vector<std::int32_t> so_far = {};  ///< prompt and text
  std::optional<generation_end> end = {};

  void settle() {
    if (!end && std::int64_t(so_far.size() - what->prompt.size()) == most)
      end = most < what->tokens ? generation_end::end_of_positions : generation_end::enough;
  }
};

}  // namespace

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
  if (model.positions() > 0 && std::int64_t(what.given.size()) > model.positions())
    throw input_error("prompt {} has {} tokens, but the model has {} learned positions: shorten it",
                      what.number + 1,
                      what.given.size(),
                      model.positions());
}

std::int64_t tokens_allowed(const generation_request& what, const model_spec& model) {
  if (model.positions() == 0)
    return what.tokens;
  // The last token is never an input.
  return std::min(what.tokens, model.positions() - std::int64_t(what.prompt.size()) + 1);
}

std::int64_t ids_allowed(const generation_request& what, const model_spec& model) {
  const auto all = model.head().vocabulary;
  return what.ids > 0 ? std::min(what.ids, all) : all;
}

void require_finite(std::span<const float> logits, std::size_t tokens, dtype precision) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    throw input_error(
        "the model's output after {} tokens is not finite: {}", tokens, why_not_finite(precision));
}

void read_given(decoder& to,
                stream& stream,
                std::span<const generation_request> what,
                const given_text& names) {
  std::vector<std::int32_t> tokens, positions, first = {0};
  for (const auto& x : what) {
    if (x.given.empty())
      throw input_error("prompt {} needs at least one token: write a text", x.number + 1);
    tokens.insert(tokens.end(), x.given.begin(), x.given.end());
    first.push_back(std::int32_t(tokens.size()));
    for (std::int32_t t = 0; t < std::int32_t(x.given.size()); ++t)
      positions.push_back(t);
  }
  const auto rows = std::int64_t(tokens.size());
  bundle in;
  in.add(names.tokens, uploaded(stream, tokens, {1, rows}));
  in.add(names.positions, uploaded(stream, positions, {1, rows}));
  to.read(in, std::move(first));
}

std::vector<generation_end> generate(const chunk& whole,
                                     parameter_store& store,
                                     stream& stream,
                                     std::span<const generation_request> what,
                                     const token_visitor& visit,
                                     bool cached,
                                     choice_text_writer* record,
                                     const given_text* given) {
  const auto& model = whole.model();
  std::vector<growing_text> texts;
  std::vector<std::vector<std::int32_t>> fresh;
  std::int64_t longest_prompt = 0, most = 0;
  for (const auto& x : what) {
    require_fitting(x, model);
    const auto allowed = tokens_allowed(x, model);
    texts.push_back({&x, allowed, x.prompt});
    fresh.push_back(x.prompt);
    longest_prompt = std::max(longest_prompt, std::int64_t(x.prompt.size()));
    most = std::max(most, allowed);
  }
  // Samples on the host.
  runtime::stream drawing(
      stream.queue() == nullptr ? stream.where() : kernels::backend::cpu, stream.threads(), {});
  decoder state(
      whole, store, stream, longest_prompt + std::max<std::int64_t>(most, 1), cached, what.size());
  if (given != nullptr)
    read_given(state, stream, what, *given);
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
      const auto own = logits.subspan(b * std::size_t(model.head().padded_vocabulary),
                                      std::size_t(model.head().vocabulary));
      require_finite(own, text.so_far.size(), store.type());
      const token_place place{
          .logits = own,
          .ids = ids_allowed(what[b], model),
          .so_far = text.so_far,
          .prompt = what[b].prompt.size(),
          .draw = draw_of(what[b].sampling.seed, what[b].number, 0, std::uint64_t(i))};
      fresh[b][0] = choose(drawing, place, what[b].sampling).token;
      text.so_far.push_back(fresh[b][0]);
      if (record != nullptr) {
        const auto at = std::int64_t(what[b].prompt.size()) + i;
        state.record(b, what[b].number, *record);
        record->write_tokens(what[b].number, at, fresh[b]);
      }
      if (ends(what[b], fresh[b][0]))
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
