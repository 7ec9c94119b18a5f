// A tiny encoder and decoder of text.
//
//   unit    0        1        2          3        4        5
//           words    layer    embedding  layer    layer    head
//   stream  encoder  encoder  decoder    decoder  decoder  decoder
//
// Each layer of the decoder adds the first or second row of the encoder's stream, by turns, to the
// rows of its own.

#pragma once

#include "runtime/inference/beam_search.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/tiny_gpt.hpp"

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

inline runtime::own_sublayer reads_given_text() {
  return {.name = "encoder",
          .build =
              [](runtime::module_builder& to) {
                to.segment("add", [](runtime::tape& tape, runtime::pass& p) {
                  const auto& from = p.streams.at("encoder").data;
                  const auto B = from.extents()[0], P = from.extents()[1], C = from.extents()[2];
                  const auto T = p.rows.T();
                  const auto order
                      = runtime::elements_of<std::int32_t>(tape.stream(), p.rows.order);
                  auto rows = runtime::tensor::empty<float>(tape.stream(), {B, T, C});
                  for (std::int64_t i = 0; i < B * T; ++i)
                    std::copy_n(from.data<float>() + (i / T * P + order[std::size_t(i)] % 2) * C,
                                C,
                                rows.data<float>() + i * C);
                  p.hidden = dropout_add(tape,
                                         tape.make(std::move(rows), runtime::placement::replicated),
                                         p.hidden,
                                         0,
                                         0,
                                         p.rows);
                });
              },
          .reads = {"encoder"},
          .host_only = true};
}

/// `reads` counts the passes of the encoder.
inline runtime::model_spec text_encoder(const runtime::gpt_config& config,
                                        const std::shared_ptr<int>& reads) {
  auto out = runtime::gpt_spec(config);
  const runtime::layer_spec encoder = out.part<runtime::layer_spec>();
  for (const std::size_t l : {0, 1})
    out.part<runtime::layer_spec>(l).sublayers.emplace_back(reads_given_text());
  out.streams.insert(out.streams.begin(),
                     {.name = "encoder", .width = config.hidden, .positions = "given_positions"});
  const auto insert = [&](std::ptrdiff_t at, std::string name, auto module) {
    out.units.insert(out.units.begin() + at,
                     {.letter = 'e',
                      .name = name,
                      .prefix = name,
                      .stream = "encoder",
                      .module = std::move(module)});
  };
  insert(0, "words", given_words{config.hidden, config.vocabulary, reads});
  insert(1, "encoder.layers.0", encoder);
  return out;
}

inline runtime::given_text text_before() {
  return {.tokens = "given_tokens", .positions = "given_positions", .documents = ""};
}

/// The greedy text of a request and the sum of its log-probabilities, by a pass over both texts for
/// each token.
inline runtime::beam_text text_over_all(const runtime::chunk& model,
                                        runtime::parameter_store& store,
                                        runtime::stream& stream,
                                        const runtime::generation_request& what) {
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
    give("given_tokens", what.given);
    give("given_positions", counted(what.given.size()));
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
