// Token embedding, with learned positions where a model has them.

#pragma once

#include "runtime/model/layers/module_builder.hpp"

namespace troupe::runtime {

struct embedding_spec {
  std::int64_t hidden = 0;             ///< C
  std::int64_t vocabulary = 0;         ///< real tokens
  std::int64_t padded_vocabulary = 0;  ///< V: rows of the table
  std::int64_t positions = 0;          ///< rows of the learned position table; 0: there is none
  bool tied = false;                   ///< the head has the values of this table
  double dropout = 0;
  double init_std = 0;
};

/// Takes pass::tokens (B, T) and leaves pass::hidden. Parameters "word_embeddings.weight" and
/// "position_embeddings.weight".
void add(module_builder& to, const embedding_spec& x);

}  // namespace troupe::runtime
