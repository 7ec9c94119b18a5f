// The registry of model families.

#pragma once

#include "runtime/family/model_family.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// All families, in the order of their registration.
const std::vector<const model_family*>& families();

/// Throws input_error with the known names.
const model_family& find_family(std::string_view name);

/// The family of files that name none.
const model_family& default_family();

/// Registers a program's own family, which must outlive all jobs. Call it before the first job and
/// from one thread: later calls are not seen by running threads. Throws input_error if the name is
/// taken.
void add_family(const model_family& family);

/// The model of a config.json of the Hugging Face Hub. Throws input_error, beginning with `where`.
model_description hub_config(std::string_view config_json, const std::string& where);

/// The translation of the family that reads GGUF files of this architecture. Throws input_error,
/// beginning with `where`, for an unknown one, with those that are known.
const hub_translation& gguf_translation(std::string_view architecture, const std::string& where);

}  // namespace troupe::runtime
