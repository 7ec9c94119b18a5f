// The text that a model reads as a whole before it generates another one, such as an encoder's.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

struct given_text {
  /// Tensors of the batch: tokens and positions (B, T) i32; the borders of documents, which keep
  /// attention from padding (batch_schema::more_documents).
  std::string tokens, positions, documents;
  std::vector<std::int32_t> after;  ///< tokens that follow the given text
  std::vector<std::int32_t> first;  ///< at least one token that begins the generated text
  std::int32_t end = -1;            ///< ends the generated text; -1: none
};

}  // namespace troupe::runtime
