// A tiny encoder and decoder of text, and a judge of the texts that it writes.

#pragma once

#include "runtime/inference/beam_search.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/crossing_gpt.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Begins the stream "encoder": the embedding of "given_tokens".
struct given_words {
  std::int64_t width = 0, vocabulary = 0;
  std::shared_ptr<int> reads;  ///< counts the passes
};

inline void add(runtime::module_builder& to, const given_words& x) {
  const int table = to.add({.name = "words",
                            .extents = {x.vocabulary, x.width},
                            .initial = runtime::distribution::normal(0.5)});
  to.segment("", [=](runtime::tape& tape, runtime::pass& p) {
    ++*x.reads;
    p.hidden = reduce_from_tensor_region(tape,
                                         embedding(tape,
                                                   p.batch.at("given_tokens"),
                                                   p.rows,
                                                   x.width,
                                                   x.vocabulary,
                                                   table,
                                                   runtime::no_parameter));
  });
}

inline runtime::module_traits traits_of(const given_words& x) {
  return {.width = x.width, .reads = {"given_tokens"}, .takes_stream = false};
}

/// crossing_gpt whose encoder reads text. `reads` counts the passes of the encoder.
inline runtime::model_spec text_encoder(const std::shared_ptr<int>& reads) {
  auto out = crossing_gpt();
  out.streams.front().positions = "given_positions";
  auto& words = out.part<runtime::embedding_spec>();
  words.init_std = 1;  // large, so that rounding decides no token
  out.units.front().module = given_words{words.hidden, words.vocabulary, reads};
  return out;
}

inline runtime::given_text text_before() {
  return {.tokens = "given_tokens", .positions = "given_positions"};
}

/// The greedy text of a request and the sum of its log-probabilities, by a pass over both texts for
/// each token.
inline runtime::beam_text text_over_all(const runtime::chunk& model,
                                        runtime::parameter_store& store,
                                        runtime::stream& stream,
                                        const runtime::generation_request& what,
                                        const runtime::given_text& names) {
  const auto V = model.model().head().padded_vocabulary;
  const runtime::recompute_plan plan(model, {});
  runtime::beam_text out;
  while (!out.ended && std::int64_t(out.tokens.size()) < what.tokens) {
    auto tokens = what.prompt;
    tokens.insert(tokens.end(), out.tokens.begin(), out.tokens.end());
    runtime::bundle in;
    const auto give = [&](const std::string& name, const std::vector<std::int32_t>& x) {
      in.add(name, runtime::uploaded(stream, x, {1, std::int64_t(x.size())}));
    };
    const auto counted = [](std::size_t n) {
      std::vector<std::int32_t> all(n);
      std::iota(all.begin(), all.end(), 0);
      return all;
    };
    give("tokens", tokens);
    give("positions", counted(tokens.size()));
    give(names.tokens, what.given);
    give(names.positions, counted(what.given.size()));
    in.add("samples", runtime::uploaded(stream, std::vector<std::uint64_t>{0}, {1}));
    runtime::chunk_pass pass(model, plan, stream, store, {.training = false, .losses = false});
    const auto logits = runtime::elements_of<float>(stream, pass.forward(in).at("logits"));
    const auto last = logits.end() - V;
    const auto best = std::max_element(last, last + what.ids);
    double sum = 0;
    for (auto x = last; x != last + model.model().head().vocabulary; ++x)
      sum += std::exp(double(*x));
    out.score += double(*best) - std::log(sum);
    out.ended = best - last == what.end_of_document;
    if (!out.ended)
      out.tokens.push_back(std::int32_t(best - last));
  }
  return out;
}

}  // namespace troupe::tests
