// A tiny model with two streams and a table with three uses.
//
//   unit    0          1            2       3       4         5       6
//           embedding  summary      layer   layer   again     layer   head
//   stream  decoder    "summary"    decoder decoder decoder   decoder decoder
//
// The summary begins a second stream from the first. Each layer adds a norm of it. `again` adds the
// embedding once more, from a tied table; the head is tied to the same table.

#pragma once

#include "runtime/tensor/moves.hpp"
#include "tests/support/tiny_gpt.hpp"

namespace troupe::tests {

/// Begins the stream "summary": a norm of the decoder's.
struct summary {
  std::int64_t width = 0;
};

inline void add(runtime::module_builder& to, const summary& x) {
  const int gain = to.add(
      {.name = "gain", .extents = {x.width}, .initial = runtime::distribution::normal(0.5)});
  to.segment("", [=](runtime::tape& tape, runtime::pass& p) {
    p.hidden = norm(
        tape, p.streams.at("decoder"), {kernels::normalization::rms}, gain, runtime::no_parameter);
  });
}

inline runtime::module_traits traits_of(const summary& x) {
  return {.width = x.width, .reads = {"decoder"}, .takes_stream = false};
}

inline constexpr double echo_weight = 0.5;

/// Adds the embedding of the tokens, from a table that is tied to the embedding's. Its "echo loss"
/// is that of a head that reads the token from the stream; the first row of each micro-batch does
/// not count.
struct embedded_again {
  runtime::embedding_spec of;
};

inline void add(runtime::module_builder& to, const embedded_again& x) {
  const int table = to.add({.name = "words",
                            .extents = {x.of.padded_vocabulary, x.of.hidden},
                            .initial = runtime::distribution::normal(x.of.init_std),
                            .decays = true,
                            .embedding_or_output = true,
                            .valid_rows = x.of.vocabulary,
                            .tied_to = "embedding.word_embeddings.weight",
                            .placements = {{runtime::axis::tensor, runtime::row_sharded()}}});
  to.segment(
      "",
      [=, rows = x.of.padded_vocabulary / to.tensor_ranks()](runtime::tape& tape,
                                                             runtime::pass& p) {
        const auto words = embedding(
            tape, p.batch.at("tokens"), p.rows, x.of.hidden, rows, table, runtime::no_parameter);
        p.hidden
            = dropout_add(tape, reduce_from_tensor_region(tape, words), p.hidden, 0, 0, p.rows);
      });
  const int echo = to.add({.name = "echo",
                           .extents = {x.of.padded_vocabulary, x.of.hidden},
                           .initial = runtime::distribution::normal(x.of.init_std),
                           .decays = true,
                           .valid_rows = x.of.vocabulary,
                           .placements = {{runtime::axis::tensor, runtime::row_sharded()}}});
  to.segment("echo",
             [=, rows = x.of.padded_vocabulary / to.tensor_ranks()](runtime::tape& tape,
                                                                    runtime::pass& p) {
               if (!p.settings.losses)
                 return;
               const auto& tokens = p.batch.at("tokens");
               std::vector<float> counts(std::size_t(tokens.size()), 1);
               counts.front() = 0;
               auto logits = linear(tape,
                                    copy_to_tensor_region(tape, p.hidden),
                                    runtime::product::column,
                                    rows,
                                    echo,
                                    runtime::no_parameter);
               const auto placements = logits.placements;
               p.add_loss(
                   "echo loss",
                   placements,
                   cross_entropy(tape,
                                 std::move(logits),
                                 tokens,
                                 runtime::uploaded<float>(tape.stream(), counts, tokens.extents()),
                                 x.of.vocabulary,
                                 p.average(echo_weight)));
             });
}

inline runtime::module_traits traits_of(const embedded_again& x) {
  return {.width = x.of.hidden,
          .reads = {"tokens"},
          .tied_to = {"embedding.word_embeddings.weight"},
          .losses = {{.name = "echo loss", .weight = echo_weight, .has_perplexity = true}}};
}

/// Adds a norm of the summary to the decoder's stream.
inline runtime::own_sublayer reads_summary(std::int64_t width) {
  return {.name = "summary",
          .build =
              [width](runtime::module_builder& to) {
                const int gain = to.add({.name = "gain",
                                         .extents = {width},
                                         .initial = runtime::distribution::normal(0.5)});
                to.segment("add", [=](runtime::tape& tape, runtime::pass& p) {
                  const auto x = norm(tape,
                                      p.streams.at("summary"),
                                      {kernels::normalization::rms},
                                      gain,
                                      runtime::no_parameter);
                  p.hidden = dropout_add(tape, x, p.hidden, 0, 0, p.rows);
                });
              },
          .reads = {"summary"}};
}

/// Adds the patches of the micro-batch to the decoder's stream: patch t % patches to row t.
inline runtime::own_sublayer reads_patches() {
  return {.name = "patches",
          .build =
              [](runtime::module_builder& to) {
                to.segment("add", [](runtime::tape& tape, runtime::pass& p) {
                  const auto& from = p.batch.at("patches");
                  const auto all = runtime::elements_of<float>(tape.stream(), from);
                  const auto B = from.extents()[0], P = from.extents()[1], C = from.extents()[2];
                  const auto T = p.rows.positions.extents()[1];
                  std::vector<float> rows;
                  for (std::int64_t b = 0; b < B; ++b)
                    for (std::int64_t t = 0; t < T; ++t) {
                      const auto patch = all.begin() + (b * P + t % P) * C;
                      rows.insert(rows.end(), patch, patch + C);
                    }
                  const auto x = tape.make(runtime::uploaded(tape.stream(), rows, {B, T, C}),
                                           runtime::placement::replicated);
                  p.hidden = dropout_add(tape, x, p.hidden, 0, 0, p.rows);
                });
              },
          .reads = {"patches"}};
}

inline runtime::model_spec two_streams() {
  const auto config = tiny_gpt(3);
  auto out = runtime::gpt_spec(config);
  const auto C = config.hidden;
  for (std::size_t l = 0; l < 3; ++l)
    out.part<runtime::layer_spec>(l).sublayers.emplace_back(reads_summary(C));
  out.streams.push_back({"summary", C});
  const auto insert = [&](std::ptrdiff_t at, std::string name, std::string stream, auto module) {
    out.units.insert(out.units.begin() + at,
                     {.letter = 's',
                      .name = name,
                      .prefix = name,
                      .stream = std::move(stream),
                      .module = std::move(module)});
  };
  insert(1, "summary", "summary", summary{C});
  insert(4, "again", "decoder", embedded_again{out.embedding()});
  return out;
}

/// two_streams whose units 2 and 5 also read "patches", a tensor of another length than the tokens.
inline runtime::model_spec two_streams_with_patches() {
  auto out = two_streams();
  for (const std::size_t layer : {0, 2})
    out.part<runtime::layer_spec>(layer).sublayers.emplace_back(reads_patches());
  return out;
}

}  // namespace troupe::tests
