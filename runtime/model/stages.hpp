// Splits a model over pipeline stages: evenly, with uneven ends, or by a layout string. Its
// embedding, each layer and its loss are one unit each.

#pragma once

#include "runtime/model/chunk.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Differences of the first and the last stage from the others.
struct uneven_ends {
  std::optional<std::int64_t> first, last;  ///< layers of the first and the last stage
  bool embedding_counts = false;            ///< the embedding counts as a layer
  bool loss_counts = false;                 ///< the loss counts as a layer
};

/// Splits `layers` over `stages`: the given ends, and equal shares for the rest. Throws
/// input_error, naming the settings, if the rest is not divisible.
std::vector<chunk_range> split_layers(std::int64_t layers, int stages, const uneven_ends& ends);

/// Parses Megatron-LM's layout string, for example "Et*3|(tt|)*5L":
///
/// E embedding, t layer, L loss, | next stage
/// *n repeats the letter or the parenthesized group before it
/// commas are ignored
///
/// A stage may be empty. `each` is the number of stages per rank; 0 accepts any multiple of
/// `ranks`, and a negative value any number. Throws input_error with a caret under the mistake.
std::vector<chunk_range> stages_from_text(std::string_view text,
                                          std::int64_t layers,
                                          int ranks,
                                          int each = 1);

/// Layers per stage of a layout string with any number of stages. Accepts m (multi-token
/// prediction) as one layer. Used for schedules that are only displayed. Messages name `flag`.
std::vector<std::int64_t> layers_of_stages(std::string_view text, std::string_view flag);

/// The letters of a model with an embedding, `layers` layers and a loss: "EttL".
std::string letters_of(std::int64_t layers);

/// The layers among the units of a chunk, counted from the first layer of the model.
chunk_range layers_in(const chunk_range& chunk, std::string_view letters);

/// The layout string that stages_from_text parses back. `letters`: those of the model's units.
std::string to_text(const std::vector<chunk_range>& stages, std::string_view letters);

}  // namespace troupe::runtime
