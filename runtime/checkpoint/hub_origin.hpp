// The settings of a model of the Hugging Face hub that Troupe does not use: special ids, defaults
// of generation, unknown fields. A run keeps them beside its checkpoints and an export writes them
// back.

#pragma once

#include "runtime/checkpoint/stored_type.hpp"
#include "runtime/model/gpt/gpt_config.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

/// Texts of files of the imported folder. An empty text means that the file is not there.
struct hub_origin {
  std::string config;             ///< config.json
  std::string generation_config;  ///< generation_config.json
};

/// Copies both files of `hub` to `run`/hub, in place of those that are there. Throws input_error
/// where one cannot be read, and io_error.
void keep_hub_origin(const std::filesystem::path& hub, const std::filesystem::path& run);

/// Copies `from`/hub to `run`/hub where only the first exists: a run that begins with the
/// checkpoint of another one.
void pass_on_hub_origin(const std::filesystem::path& from, const std::filesystem::path& run);

/// What `run`/hub has. Throws input_error where a file cannot be read.
hub_origin kept_hub_origin(const std::filesystem::path& run);

/// Whether the origin describes `model`. Dropouts, padding, the number of ids and the way in which
/// gains are stored may differ.
bool describes(const hub_origin& origin, const gpt_config& model);

/// The config.json of an export of the model that `origin` describes: the origin's own, with the
/// type of the elements, the number of ids and the architecture of what is written. `end` becomes
/// one more id to stop at, unless it is one already. Throws input_error where the ids to stop at
/// are no numbers.
std::string returned_config(const hub_origin& origin,
                            const gpt_config& model,
                            std::optional<std::int32_t> end,
                            stored_type type);

/// The generation_config.json, with the same rule for `end`; an empty text where there is none.
std::string returned_generation_config(const hub_origin& origin, std::optional<std::int32_t> end);

}  // namespace troupe::runtime
