// Selects the files of a Hugging Face Hub model that are needed.

#pragma once

#include "runtime/hub/hub_cache.hpp"
#include "runtime/hub/hub_download.hpp"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// The Hub's answer about a revision.
struct hub_listing {
  std::string commit;
  std::set<std::string> files;  ///< paths in the repository
};

/// Parses the answer of /api/models/ORG/NAME/revision/REVISION. Throws io_error.
hub_listing parse_hub_listing(std::string_view json, const std::string& where);

inline constexpr const char* hub_weights = "model.safetensors";
inline constexpr const char* hub_index = "model.safetensors.index.json";

/// Files with fixed names that are used if they exist; without safetensors files.
const std::vector<std::string>& hub_small_files();

/// Further chat templates in the listing.
std::vector<std::string> further_templates_in(const hub_listing& listing);

/// The files that an index names, as file names in the same folder. Throws io_error.
std::set<std::string> shards_in(std::string_view index_json, const std::string& where);

/// Throws input_error if the listing lacks a file without which the folder is useless.
void require_needed(const hub_listing& listing, const hub_name& name, hub_files files);

/// True if the cache has the files without which the folder is useless.
bool has_required(const hub_cache& cache, const std::string& commit, hub_files files);

/// True if the cache has every needed file, or knows that the commit lacks it.
bool has_everything(const hub_cache& cache, const std::string& commit, hub_files files);

}  // namespace troupe::runtime
