// The input by which an encoder turns a text into a vector.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

struct embedded_text {
  std::vector<std::int32_t> before, after;  ///< tokens around a text
  std::int32_t nothing = 0;                 ///< stands for a text without tokens
  /// Further tensors of the batch, (B, T) i32, that are 0.
  std::vector<std::string> zeros = {};
};

}  // namespace troupe::runtime
