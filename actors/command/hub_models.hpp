// Models of the Hugging Face Hub in place of folders, for all flags that take a Hugging Face
// folder.

#pragma once

#include "actors/command/tokenizer_flags.hpp"
#include "runtime/hub/hub_download.hpp"

#include <filesystem>

namespace troupe::command {

/// True for ORG/NAME and ORG/NAME@REVISION, unless it exists here as a path, ORG is a folder here,
/// or NAME ends like a file.
bool names_hub_model(const std::filesystem::path& said);

/// The folder that a flag names: an existing path, the folder that stands for a GGUF file, or the
/// downloaded files of a model of the Hub.
/// Tells of downloads on standard error. Throws input_error if there is neither.
std::filesystem::path hub_or_local_folder(const char* flag,
                                          const std::filesystem::path& said,
                                          runtime::hub_files files);

/// Replaces a GGUF file by the folder that stands for it; other paths stay.
void take_gguf(std::filesystem::path& said);

/// True if these flags name a tokenizer of the Hub.
bool names_hub_model(const tokenizer_flags& flags);

/// ORG/NAME as ORG/NAME@COMMIT, after its download; other paths unchanged.
std::filesystem::path pinned_hub_model(const std::filesystem::path& said);

}  // namespace troupe::command
