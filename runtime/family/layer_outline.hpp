// The outline of a layer with attention, a feed-forward part and, in decoders, attention to another
// stream.

#pragma once

#include "runtime/family/model_outline.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {

struct layer_sizes {
  double hidden = 0;           ///< C
  double attention_width = 0;  ///< A: of all heads
  double heads = 0;
  double ffn = 0;  ///< F
  bool gated = false;
  bool drops = false;          ///< dropout of the residual stream
  double keys = 0;             ///< seen by a query, of both attentions together
  double rows = 1;             ///< of the layer for each token of the model
  double other_rows = 0;       ///< of the other stream; 0: no attention to one
  double vectors_of_norm = 0;  ///< elements of a norm
  bool has_biases = true;      ///< of the products
};

inline layer_outline outline_of(const layer_sizes& x) {
  const double C = x.hidden, A = x.attention_width, F = x.ffn, rows = x.rows;
  const double fan = x.gated ? 2 : 1, masks = x.drops ? 1 : 0;
  const bool reads_other = x.other_rows > 0;
  const int blocks = reads_other ? 3 : 2;
  layer_outline out;
  const auto add = [&](double inputs, double outputs, double times, product_split split) {
    out.products.push_back({inputs, outputs, split, 1, times});
    if (x.has_biases)
      out.vectors += outputs;
  };
  add(C, 3 * A, rows, product_split::columns);
  add(A, C, rows, product_split::rows);
  if (reads_other) {
    add(C, A, rows, product_split::columns);
    add(C, 2 * A, x.other_rows, product_split::columns);
    add(A, C, rows, product_split::rows);
  }
  out.attention_products = int(out.products.size());
  add(C, fan * F, rows, product_split::columns);
  add(F, C, rows, product_split::rows);
  out.score_width = 2 * A;
  out.heads = x.heads;
  out.keys = x.keys;
  // A norm reads and writes a row; a sum reads two rows and writes one, with a mask of bytes.
  const double each = rows * blocks;
  out.stream = {each * (5 + masks / 2) * C, each * (x.drops ? 6.5 : 5) * C};
  out.inside = {rows * (fan + 1) * F, rows * (2 * fan + 1) * F};
  out.tensor_blocks = std::max(1, int(std::lround(each)));
  out.kept
      = rows * (4 * A + (fan + 1) * F) + (reads_other ? 2 * rows * A + 2 * x.other_rows * A : 0);
  out.kept_stream = each * (2 + masks / 2) * C;
  out.vectors += blocks * x.vectors_of_norm;
  return out;
}

}  // namespace troupe::runtime
