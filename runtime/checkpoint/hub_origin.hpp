// Settings of a Hugging Face Hub model that are no part of Troupe's: special ids, generation
// defaults, unknown fields. A run keeps them beside its checkpoints, and an export writes them
// back.

#pragma once

#include "runtime/family/model_description.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Contents of files of the imported folder; empty if a file does not exist.
struct hub_origin {
  std::string config;             ///< config.json
  std::string generation_config;  ///< generation_config.json
};

/// Copies both files of `hub` to `run`/hub and replaces existing ones. Throws input_error if a file
/// cannot be read. Throws io_error.
void keep_hub_origin(const std::filesystem::path& hub, const std::filesystem::path& run);

/// Copies `from`/hub to `run`/hub if only the first exists: for a run that starts from another
/// run's checkpoint.
void pass_on_hub_origin(const std::filesystem::path& from, const std::filesystem::path& run);

/// Reads both files of `folder`. Throws input_error if a file cannot be read.
hub_origin hub_origin_in(const std::filesystem::path& folder);
/// Reads `run`/hub. Throws input_error if a file cannot be read.
hub_origin kept_hub_origin(const std::filesystem::path& run);

/// The ids that end a text, "eos_token_id": of the file of generation, else of config.json, as in
/// transformers. Throws input_error, with the folder `where`, unless it is an id or a list of ids.
std::vector<std::int32_t> end_ids(const hub_origin& origin, const std::filesystem::path& where);

/// True if the origin describes `model`. Dropouts, padding, the number of ids and the storage of
/// norm gains may differ.
bool describes(const hub_origin& origin, const model_description& model);

/// Returns the config.json for an export of the model that `origin` describes. It is the origin's,
/// with the element type, the number of ids and the architecture of `exported`. Adds `end` to the
/// stop ids if missing. Throws input_error if the stop ids are not numbers.
std::string returned_config(const hub_origin& origin,
                            const std::string& exported,
                            std::optional<std::int32_t> end);

/// Returns the generation_config.json with the same rule for `end`; empty if there is none.
std::string returned_generation_config(const hub_origin& origin, std::optional<std::int32_t> end);

}  // namespace troupe::runtime
