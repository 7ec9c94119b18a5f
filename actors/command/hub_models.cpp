#include "actors/command/hub_models.hpp"

#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/terminal_text.hpp"
#include "runtime/hub/hub_name.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

constexpr std::array file_extensions
    = {".json", ".model", ".txt", ".tiktoken", ".jinja", ".safetensors", ".gguf"};

bool exists_here(const fs::path& path) {
  std::error_code failure;
  return fs::exists(path, failure);
}

void tell_on_standard_error(const std::string& line) {
  std::fputs(("troupe: " + runtime::message_text(line) + "\n").c_str(), stderr);
}

}  // namespace

bool names_hub_model(const fs::path& said) {
  return runtime::parse_hub_name(said.string()) && !exists_here(said) && !exists_here(*said.begin())
         && std::ranges::find(file_extensions, said.extension()) == file_extensions.end();
}

void take_gguf(fs::path& said) {
  if (runtime::is_gguf_file(said))
    said = runtime::folder_of_gguf(said, runtime::hub_service_from_process().cache);
}

fs::path hub_or_local_folder(const char* flag, const fs::path& said, runtime::hub_files files) {
  if (exists_here(said)) {
    auto out = said;
    take_gguf(out);
    return out;
  }
  if (names_hub_model(said))
    return runtime::hub_folder(*runtime::parse_hub_name(said.string()),
                               files,
                               runtime::hub_service_from_process(),
                               tell_on_standard_error);
  if (runtime::parse_hub_name(said.string()) && exists_here(*said.begin()))
    throw runtime::input_error(
        "{} '{}': there is no such folder; '{}' exists here, so the name is not searched on the "
        "Hugging Face Hub",
        flag,
        said.string(),
        said.begin()->string());
  throw runtime::input_error(
      "{} '{}': there is no such folder; name a folder, a GGUF file, or a model of the Hugging "
      "Face "
      "Hub as ORG/NAME or ORG/NAME@REVISION",
      flag,
      said.string());
}

bool names_hub_model(const tokenizer_flags& flags) {
  const bool takes_folder = runtime::family_of(flags.type) == runtime::tokenizer_family::hub;
  return names_hub_model(flags.folder) || (takes_folder && names_hub_model(flags.model));
}

fs::path pinned_hub_model(const fs::path& said) {
  if (!names_hub_model(said))
    return said;
  return runtime::to_string(runtime::pinned(*runtime::parse_hub_name(said.string()),
                                            runtime::hub_service_from_process()));
}

}  // namespace troupe::command
