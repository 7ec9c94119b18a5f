// The names and metadata of GGUF files, as the family of a model translates them to those of the
// Hub. Files are read and written by runtime/checkpoint (gguf.hpp, gguf_model.hpp).

#pragma once

#include "runtime/family/hub_fields.hpp"

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// A file that is read.
struct gguf_outline {
  const hub_fields& metadata;
  std::function<bool(std::string_view)> has;  ///< a tensor
  std::int64_t vocabulary = 0;                ///< rows of the embedding
  std::vector<float> rotary_factors;          ///< "rope_freqs.weight", or nothing
};

/// The place of a tensor of the Hub.
struct gguf_place {
  std::string tensor;
  std::int64_t matrix = -1;  ///< of a stack of experts; -1: the whole tensor
  /// Size of heads whose rotary pairs are neighbours in the file; 0: rows are as in the Hub.
  std::int64_t paired = 0;
};

/// A model in GGUF.
struct gguf_plan {
  std::string architecture;
  nlohmann::ordered_json metadata;    ///< without the tokenizer
  std::vector<float> rotary_factors;  ///< for "rope_freqs.weight"; empty: no such tensor
  std::function<gguf_place(std::string_view source)> place;
};

}  // namespace troupe::runtime
