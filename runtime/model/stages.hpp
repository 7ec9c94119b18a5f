// Which layers each pipeline stage holds: as even as possible, uneven at the ends, or as written.

#pragma once

#include "runtime/model/chunk.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// How the ends differ from the stages between them.
struct uneven_ends {
  std::optional<std::int64_t> first, last;  ///< layers of the first and of the last stage
  bool embedding_counts = false;            ///< the embedding takes the place of a layer
  bool loss_counts = false;                 ///< so does the loss
};

/// `layers` over `stages`: ends as they are told, the rest the same everywhere. Throws input_error,
/// naming Megatron-LM's flags, when this does not come out even.
std::vector<chunk_range> split_layers(std::int64_t layers, int stages, const uneven_ends& ends);

/// From Megatron-LM's layout string, e.g. "Et*3|(tt|)*5L": E embedding, t layer, L loss, | the next
/// stage, *n repeats what stands before it, a letter or a group in parentheses; commas are only for
/// the eye. A stage may be empty. There are as many for each of `ranks` as `each` says; 0: any
/// multiple of `ranks`; below 0: any number. Throws input_error with a caret under the place.
std::vector<chunk_range> stages_from_text(std::string_view text,
                                          std::int64_t layers,
                                          int ranks,
                                          int each = 1);

/// Layers of each stage of a layout string, however many there are; m, a layer that predicts
/// several tokens, counts as one: for schedules that are looked at, not run. `flag` stands in
/// messages.
std::vector<std::int64_t> layers_of_stages(std::string_view text, std::string_view flag);

/// As a layout string, which stages_from_text reads back.
std::string to_text(const std::vector<chunk_range>& stages);

}  // namespace troupe::runtime
