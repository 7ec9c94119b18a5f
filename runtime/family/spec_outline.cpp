#include "runtime/family/spec_outline.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace troupe::runtime {
namespace {

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

/// `rows`: of the layer's stream in a sample.
layer_sizes sizes_of(const layer_spec& layer, double rows, double sequence, double texts) {
  layer_sizes out{.rows = rows / sequence};
  for (const auto& sublayer : layer.sublayers) {
    const auto* const part = sublayer.get_if<residual_sublayer>();
    if (part == nullptr)
      continue;
    out.drops = part->dropout > 0;
    if (const auto* const x = part->body.get_if<attention_spec>()) {
      const auto& norm = part->norm_before ? part->norm_before : part->norm_after;
      const bool centred = norm && norm->options.kind == kernels::normalization::layer;
      out.hidden = double(x->hidden);
      out.attention_width = double(x->heads * x->head_size);
      out.heads = double(x->heads);
      out.keys += out.rows * rows / texts / (x->causal ? 2 : 1);
      out.vectors_of_norm = out.hidden * (centred ? 2 : 1);
      out.has_biases = x->qkv_bias;
    } else if (const auto* const y = part->body.get_if<cross_attention_spec>()) {
      out.keys += double(y->key_rows);
      out.other_rows = double(y->key_rows) / sequence;
    } else if (const auto* const z = part->body.get_if<feed_forward_spec>()) {
      out.ffn = double(z->ffn);
      out.gated = z->gated;
    }
  }
  return out;
}

layer_outline outline_of(const layer_sizes& x) {
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

}  // namespace

model_outline outline_of(const model_spec& model,
                         const batch_schema& schema,
                         bool drops,
                         std::int64_t texts) {
  const auto& embedding = model.embedding();
  model_outline out{.hidden = double(embedding.hidden),
                    .sequence = double(model.sequence),
                    .vocabulary = double(embedding.padded_vocabulary),
                    .positions = double(embedding.positions + embedding.types),
                    .tied = true,
                    .drops = drops,
                    .kinds = {},
                    .layers = {}};
  std::string letters;  // of the kinds
  for (const auto& unit : model.units) {
    if (const auto* const head = unit.module.get_if<head_spec>())
      out.tied = !head->tied_to.empty();
    const auto* const layer = unit.module.get_if<layer_spec>();
    if (layer == nullptr)
      continue;
    if (letters.find(unit.letter) == std::string::npos) {
      const auto& positions = model.stream_of(unit.stream).positions;
      const auto rows = schema.rows_of(positions);
      letters += unit.letter;
      out.kinds.push_back(outline_of(sizes_of(*layer, double(rows), out.sequence, double(texts))));
    }
    out.layers.push_back(int(letters.find(unit.letter)));
  }
  return out;
}

}  // namespace troupe::runtime
