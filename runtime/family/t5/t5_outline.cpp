#include "runtime/family/t5/t5.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {
namespace {

/// `rows`: rows of the layer for each token of the decoder.
layer_outline layer_of(const t5_config& m, bool decoder, double rows, double encoder_rows) {
  const double C = double(m.hidden), A = double(m.attention_width()), F = double(m.ffn);
  const double fan = activation_of(m).gated ? 2 : 1, masks = m.hidden_dropout > 0 ? 1 : 0;
  const int blocks = decoder ? 3 : 2;
  layer_outline out;
  const auto add = [&](double inputs, double outputs, double times, product_split split) {
    out.products.push_back({inputs, outputs, split, 1, times});
  };
  add(C, 3 * A, rows, product_split::columns);
  add(A, C, rows, product_split::rows);
  if (decoder) {
    add(C, A, rows, product_split::columns);
    add(C, 2 * A, encoder_rows, product_split::columns);
    add(A, C, rows, product_split::rows);
  }
  out.attention_products = int(out.products.size());
  add(C, fan * F, rows, product_split::columns);
  add(F, C, rows, product_split::rows);
  out.score_width = 2 * A;
  out.heads = double(m.heads);
  out.keys = decoder ? double(m.decoder_sequence) / 2 + double(m.encoder_sequence)
                     : rows * double(m.encoder_sequence);
  // A norm reads and writes a row; a sum reads two rows and writes one, with a mask of bytes.
  const double each = rows * blocks;
  out.stream = {each * (5 + masks / 2) * C, each * (masks > 0 ? 6.5 : 5) * C};
  out.inside = {rows * (fan + 1) * F, rows * (2 * fan + 1) * F};
  out.tensor_blocks = std::max(1, int(std::lround(each)));
  out.kept = rows * (4 * A + (fan + 1) * F) + (decoder ? 2 * rows * A + 2 * encoder_rows * A : 0);
  out.kept_stream = each * (2 + masks / 2) * C;
  out.vectors = blocks * (m.normalization == "LayerNorm" ? 2 : 1) * C;
  return out;
}

}  // namespace

model_outline t5_outline(const t5_config& m) {
  const double longer = double(m.encoder_sequence) / double(m.decoder_sequence);
  model_outline out{.hidden = double(m.hidden),
                    .sequence = double(m.decoder_sequence),
                    .vocabulary = double(m.padded_vocabulary),
                    .positions = m.is_relative() ? 0 : double(m.positions),
                    .tied = m.tied_embeddings,
                    .drops = m.hidden_dropout > 0 || m.attention_dropout > 0,
                    .kinds = {layer_of(m, false, longer, 0), layer_of(m, true, 1, longer)},
                    .layers = {}};
  out.layers.assign(std::size_t(m.encoder_layers), 0);
  out.layers.insert(out.layers.end(), std::size_t(m.decoder_layers), 1);
  return out;
}

}  // namespace troupe::runtime
