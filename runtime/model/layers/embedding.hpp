// Token embedding, with optional learned positions, types of tokens and a norm.
// Devlin et al.: "BERT", 2018.

#pragma once

#include "runtime/model/layers/norm.hpp"

#include <optional>

namespace troupe::runtime {

struct embedding_spec {
  std::int64_t hidden = 0;                ///< C
  std::int64_t vocabulary = 0;            ///< real tokens
  std::int64_t padded_vocabulary = 0;     ///< V: rows of the table
  std::int64_t positions = 0;             ///< rows of the learned position table; 0: none
  std::int64_t types = 0;                 ///< rows of the table of token types; 0: none
  std::optional<norm_options> norm = {};  ///< of the sum, before the dropout
  double dropout = 0;
  double init_std = 0;
  std::string tokens = "tokens";  ///< the tensor of the batch
  /// The name of an embedding before it, with whose tables it shares its values; empty: none.
  std::string tied_to = {};
};

/// Reads the tokens (B, T) of the batch, and "types" (B, T) if there are any. Writes pass::hidden.
/// Parameters: "word_embeddings.weight", "position_embeddings.weight",
/// "tokentype_embeddings.weight" and those of "layer_norm".
void add(module_builder& to, const embedding_spec& x);
module_traits traits_of(const embedding_spec& x);

}  // namespace troupe::runtime
