// Splits a model's units over pipeline stages: evenly, with uneven ends, or by a layout string.

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

/// Splits the layers over `stages`: the given ends, and equal shares for the rest. Other units go
/// with the layer after them; those after the last layer go with the last stage. Throws
/// input_error, naming the settings, if the rest is not divisible.
std::vector<chunk_range> split_layers(const unit_letters& letters,
                                      int stages,
                                      const uneven_ends& ends);

/// Parses Megatron-LM's layout string, for example "Et*3|(tt|)*5L":
///
/// a letter of the model's units, for a GPT: E embedding, t layer, L loss
/// | next stage
/// *n repeats the letter or the parenthesized group before it
/// commas are ignored
///
/// The letters are those of all units in order (STAGES-2). A stage may be empty. `each` is the
/// number of stages per rank; 0 accepts any multiple of `ranks`, and a negative value any number.
/// Throws input_error with a caret under the mistake.
std::vector<chunk_range> stages_from_text(std::string_view text,
                                          const unit_letters& letters,
                                          int ranks,
                                          int each = 1);

/// Layers per stage of a layout string with any number of stages. Accepts m (multi-token
/// prediction) as one layer. Used for schedules that are only displayed. Messages name `flag`.
std::vector<std::int64_t> layers_of_stages(std::string_view text, std::string_view flag);

/// Number of units.
std::int64_t units_of(const unit_letters& letters);

/// The layers among the units of a chunk, counted from the first layer of the model.
chunk_range layers_in(const chunk_range& chunk, const unit_letters& letters);

/// The layout string that stages_from_text parses back.
std::string to_text(const std::vector<chunk_range>& stages, const unit_letters& letters);

}  // namespace troupe::runtime
