#include "runtime/model/layers/embedding.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* words_table = "word_embeddings.weight";
constexpr const char* positions_table = "position_embeddings.weight";

}  // namespace

void add(module_builder& to, const embedding_spec& x) {
  const auto owner = [&](const char* table) {
    return x.tied_to.empty() ? std::string() : x.tied_to + "." + table;
  };
  const int words = to.add({.name = words_table,
                            .extents = {x.padded_vocabulary, x.hidden},
                            .initial = distribution::normal(x.init_std),
                            .decays = true,
                            .embedding_or_output = true,
                            .valid_rows = x.vocabulary,
                            .tied_to = owner(words_table),
                            .placements = {{axis::tensor, row_sharded()}}});
  int positions = no_parameter;
  if (x.positions > 0)
    positions = to.add({.name = positions_table,
                        .extents = {x.positions, x.hidden},
                        .initial = distribution::normal(x.init_std),
                        .decays = true,
                        .tied_to = owner(positions_table)});
  // With several tensor ranks, positions are added after the sum, so that they count once.
  const bool together = to.tensor_ranks() == 1;
  to.segment("", [=, rows = x.padded_vocabulary / to.tensor_ranks()](tape& tape, pass& p) {
    p.x = embedding(tape,
                    p.batch.at(x.tokens),
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
  module_traits out{
      .width = x.hidden, .reads = {x.tokens}, .takes_stream = false, .reads_backward = false};
  if (!x.tied_to.empty())
    out.tied_to.push_back(x.tied_to + "." + words_table);
  if (!x.tied_to.empty() && x.positions > 0)
    out.tied_to.push_back(x.tied_to + "." + positions_table);
  return out;
}

}  // namespace troupe::runtime
