// Head of a language model: final norm, logits, loss. BERT has a product with an activation before
// the norm, and a bias of the logits.

#pragma once

#include "runtime/model/layers/norm.hpp"

#include <optional>

namespace troupe::runtime {

struct head_spec {
  std::optional<kernels::activation> dense = {};  ///< of a product (C, C) before the norm
  norm_spec norm;                                 ///< with its full name: "decoder.final_layernorm"
  std::int64_t hidden = 0;                        ///< C
  std::int64_t vocabulary = 0;                    ///< real tokens
  std::int64_t padded_vocabulary = 0;             ///< V: rows of the weight
  std::string tied_to = {};  ///< parameter that shares the weight; empty: not tied
  bool bias = false;         ///< of the logits: "output_layer.bias"
  double dropout = 0;        ///< after the norm
  double scale = 1;          ///< of the rows after the norm
  double init_std = 0;
  std::function<decltype(cross_entropy)> loss = cross_entropy;  ///< same contract as cross_entropy
  loss_spec reported = {.name = "lm loss", .has_perplexity = true};
};

/// Reads pass::hidden, "labels" and "mask" of the batch, and writes its loss; without labels it
/// writes pass::logits. Parameters: those of the norm, "output_layer.weight" and, if it has them,
/// "output_layer.bias" and those of "lm_head.dense". The builder's name is empty.
void add(module_builder& to, const head_spec& x);
module_traits traits_of(const head_spec& x);
module_flops forward_flops(const head_spec& x, std::int64_t T);

}  // namespace troupe::runtime
