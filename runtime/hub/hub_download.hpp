// Downloads the needed files of a Hugging Face Hub model into the local cache.

#pragma once

#include "runtime/hub/hub_name.hpp"
#include "runtime/hub/hub_service.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace troupe::runtime {

enum class hub_files {
  tokenizer,  ///< config.json, tokenizer and chat templates
  shape,      ///< the same; config.json is required, a tokenizer is not
  model,      ///< these and the safetensors files
};

/// Receives notes for the user, a line each: what is downloaded, and a wait for another process.
using hub_notes = std::function<void(const std::string&)>;

/// Returns the folder of the model's snapshot with at least these files; downloads what the cache
/// lacks. Draws a progress bar on a terminal.
///
/// A commit that is complete in the cache is used without network, and so is a branch or tag when
/// the service is offline or unreachable. Continues an interrupted download. Compares each file
/// with its SHA-256 (LFS) or git hash before it becomes visible (DOWNLOAD-2).
///
/// Throws input_error if the user can correct it: no such model, revision or file, no access,
/// offline without a copy. Throws io_error if the service or the disk fails, or if a hash differs.
std::filesystem::path hub_folder(const hub_name& name,
                                 hub_files files,
                                 const hub_service& service,
                                 const hub_notes& note);

/// The name with the commit that the cache has for its revision; unchanged if it has none.
hub_name pinned(const hub_name& name, const hub_service& service);

}  // namespace troupe::runtime
