#include "runtime/model/layers/head.hpp"

#include "runtime/model/layers/linear.hpp"

#include <utility>

namespace troupe::runtime {

void add(module_builder& to, const head_spec& x) {
  std::optional<linear_layer> dense;
  if (x.dense)
    dense = add_linear(to,
                       {.name = "lm_head.dense",
                        .outputs = x.hidden,
                        .inputs = x.hidden,
                        .init_std = x.init_std,
                        .bias = true,
                        .placement = {}});
  const auto last_norm = add_norm(to, x.norm, x.hidden);
  const linear_layer output{.kind = product::column,
                            .features = x.padded_vocabulary / to.tensor_ranks(),
                            .weight = to.add({.name = "output_layer.weight",
                                              .extents = {x.padded_vocabulary, x.hidden},
                                              .initial = distribution::normal(x.init_std),
                                              .decays = true,
                                              .embedding_or_output = true,
                                              .valid_rows = x.vocabulary,
                                              .tied_to = x.tied_to,
                                              .placements = {{axis::tensor, row_sharded()}}}),
                            .bias = x.bias ? to.add({.name = "output_layer.bias",
                                                     .extents = {x.padded_vocabulary},
                                                     .valid_rows = x.vocabulary,
                                                     .placements = {{axis::tensor, row_sharded()}}})
                                           : no_parameter};
  if (dense)
    to.segment("head.dense",
               [dense = *dense, by = kernels::epilogue_of(*x.dense)](tape& tape, pass& p) {
                 p.hidden = dense(tape, p.hidden, by);
               });
  const auto run_norm = [=, rate = x.dropout, scale = float(x.scale)](tape& tape, pass& p) {
    p.x = dropout(tape,
                  last_norm(tape, p),
                  p.dropout_rate(rate),
                  p.dropout_key("head.dropout"),
                  p.rows,
                  scale);
    p.hidden = {};
  };
  to.segment("head.norm", run_norm).adds = true;
  to.segment(
      "head",
      [=, loss = x.loss, reported = x.reported, vocabulary = x.vocabulary](tape& tape, pass& p) {
        auto logits = output(tape, std::exchange(p.x, {}));
        if (!p.batch.has("labels")) {
          p.logits = std::move(logits.data);
          return;
        }
        const auto rows = logits.placements;
        p.add_loss(reported.name,
                   rows,
                   loss(tape,
                        std::move(logits),
                        p.batch.at("labels"),
                        p.batch.at("mask"),
                        vocabulary,
                        p.average(reported.weight)));
      });
}

module_traits traits_of(const head_spec& x) {
  module_traits out{.width = x.hidden,
                    .reads = {"labels", "mask"},
                    .losses = {x.reported},
                    .gives_stream = false};
  if (!x.tied_to.empty())
    out.tied_to = {x.tied_to};
  return out;
}

module_flops forward_flops(const head_spec& x, std::int64_t T) {
  const auto outputs = double(x.padded_vocabulary) + (x.dense ? double(x.hidden) : 0);
  return {.parameters = 2 * double(T) * double(x.hidden) * outputs};
}

}  // namespace troupe::runtime
