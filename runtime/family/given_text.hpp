// The text that a model reads as a whole before it generates another one, such as an encoder's.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

struct given_text {
  /// Tensors of the batch, (B, T) i32. The streams that read them have stream_spec::documents, so
  /// that texts of all lengths follow each other without padding.
  std::string tokens, positions;
  std::vector<std::int32_t> after;  ///< tokens that follow the given text
  std::vector<std::int32_t> first;  ///< at least one token that begins the generated text
  std::int32_t end = -1;            ///< ends the generated text; -1: none
};

}  // namespace troupe::runtime
