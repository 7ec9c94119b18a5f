#include "runtime/model/layers/embedding.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* words_table = "word_embeddings.weight";
constexpr const char* positions_table = "position_embeddings.weight";
constexpr const char* types_table = "tokentype_embeddings.weight";

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
  const auto table = [&](const char* name, std::int64_t rows) {
    return rows == 0 ? no_parameter
                     : to.add({.name = name,
                               .extents = {rows, x.hidden},
                               .initial = distribution::normal(x.init_std),
                               .decays = true,
                               .tied_to = owner(name)});
  };
  const int positions = table(positions_table, x.positions);
  const int types = table(types_table, x.types);
  std::optional<norm_layer> last;
  if (x.norm)
    last = add_norm(to, {"layer_norm", *x.norm}, x.hidden);
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
    if (types != no_parameter) {
      auto rows = p.rows;
      rows.positions = p.batch.at("types");
      sum = add_positions(tape, sum, rows, types);
    }
    if (last)
      sum = (*last)(tape, sum);
    p.hidden = dropout(tape, sum, p.dropout_rate(x.dropout), p.dropout_key(name), p.rows);
  });
}

module_traits traits_of(const embedding_spec& x) {
  module_traits out{.width = x.hidden,
                    .reads = {x.tokens},
                    .takes_stream = false,
                    .reads_backward = x.norm.has_value()};
  if (x.types > 0)
    out.reads.emplace_back("types");
  const auto tie = [&](const char* table, std::int64_t rows) {
    if (!x.tied_to.empty() && rows > 0)
      out.tied_to.push_back(x.tied_to + "." + table);
  };
  tie(words_table, x.padded_vocabulary);
  tie(positions_table, x.positions);
  tie(types_table, x.types);
  return out;
}

}  // namespace troupe::runtime
