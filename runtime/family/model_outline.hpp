// The sizes of a model that decide its operations and parameters, for forecasts of time.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// How ranks divide a matrix: tensor ranks its columns, as for the first product of a pair, or its
/// rows, as for the second one. Those of experts are divided by expert tensor ranks.
enum class product_split : std::uint8_t { none, columns, rows, expert_columns, expert_rows };

/// A product of rows with a matrix of parameters.
struct product_outline {
  double inputs = 0, outputs = 0;
  product_split split = product_split::columns;
  double matrices = 1;  ///< of this size: the experts
  double rows = 1;      ///< of each token: the experts that it chooses

  bool is_of_experts() const {
    return split == product_split::expert_columns || split == product_split::expert_rows;
  }
  bool divides_inputs() const {
    return split == product_split::rows || split == product_split::expert_rows;
  }
};

/// Elements that kernels between products read and write for one token.
struct traffic_outline {
  double forward = 0, backward = 0;
};

struct layer_outline {
  std::vector<product_outline> products;
  int attention_products = 0;  ///< the first of them; the others are of the feed-forward part
  double score_width = 0;      ///< of all heads: sizes of a query and of a value
  double heads = 0;
  double keys_and_values = 0;  ///< elements of a token's keys and values, all groups
  double keys = 0;             ///< seen by a query, on average
  traffic_outline stream;      ///< on the residual stream; tensor ranks divide it with sequences
  traffic_outline inside;      ///< between the products of tensor ranks, which divide it
  traffic_outline routed;      ///< in rows of experts
  double dispatched = 0;       ///< elements of a token that travel to its experts
  int tensor_blocks = 2;       ///< parts with a gather before and a sum after their products
  double kept = 0;             ///< elements of a token that the backward pass needs, inside
  double kept_stream = 0;      ///< the same on the residual stream
  double kept_routed = 0;      ///< the same in rows of experts
  double vectors = 0;          ///< parameters outside of matrices
};

struct model_outline {
  double hidden = 0;
  double sequence = 0;    ///< T
  double vocabulary = 0;  ///< with padding
  double positions = 0;   ///< rows of a table of positions
  bool tied = false;      ///< embedding and head share their matrix
  bool drops = false;     ///< dropout reads and writes masks
  std::vector<layer_outline> kinds;
  std::vector<int> layers;  ///< the kind of each layer
};

}  // namespace troupe::runtime
