#include "runtime/model/layers/embedding.hpp"

#include <utility>

namespace troupe::runtime {

void add(module_builder& to, const embedding_spec& x) {
  const int words = to.add({.name = "word_embeddings.weight",
                            .extents = {x.padded_vocabulary, x.hidden},
                            .initial = distribution::normal(x.init_std),
                            .decays = true,
                            .embedding_or_output = true,
                            .valid_rows = x.vocabulary,
                            .placements = {{axis::tensor, row_sharded()}}});
  int positions = no_parameter;
  if (x.positions > 0)
    positions = to.add({.name = "position_embeddings.weight",
                        .extents = {x.positions, x.hidden},
                        .initial = distribution::normal(x.init_std),
                        .decays = true});
  // With several tensor ranks, positions are added after the sum, so that they count once.
  const bool together = to.tensor_ranks() == 1;
  to.segment("", [=, rows = x.padded_vocabulary / to.tensor_ranks()](tape& tape, pass& p) {
    p.x = embedding(tape,
                    p.batch.at("tokens"),
                    p.rows,
                    x.hidden,
                    rows,
                    words,
                    together ? positions : no_parameter);
  });
  to.segment("dropout", [=, name = to.name() + ".dropout"](tape& tape, pass& p) {
    auto sum = reduce_from_tensor_region(tape, std::exchange(p.x, {}));
    if (positions != no_parameter && !together)
      sum = add_positions(tape, sum, p.rows, positions);
    p.hidden = dropout(tape, sum, p.dropout_rate(x.dropout), p.dropout_key(name), p.rows);
  });
}

module_traits traits_of(const embedding_spec& x) {
  return {.width = x.hidden, .reads = {"tokens"}, .takes_stream = false, .reads_backward = false};
}

}  // namespace troupe::runtime
