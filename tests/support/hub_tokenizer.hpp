// Writes a tokenizer as the model hub stores it: tokenizer.json and tokenizer_config.json.

#pragma once

#include "runtime/file/file.hpp"
#include "runtime/tokenizer/description.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/scratch_folder.hpp"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::tests {

/// `end`: the token that ends a text.
inline void write_hub_tokenizer(const std::filesystem::path& folder,
                                const nlohmann::json& file,
                                const std::string& end = "<|endoftext|>") {
  runtime::make_folder(folder);
  runtime::write_text(folder / "tokenizer.json", file.dump());
  runtime::write_text(folder / "tokenizer_config.json", nlohmann::json{{"eos_token", end}}.dump());
}

inline std::unique_ptr<const runtime::tokenizer> hub_tokenizer(const nlohmann::json& file,
                                                               const std::string& end
                                                               = "<|endoftext|>") {
  const scratch_folder folder;
  write_hub_tokenizer(folder.path(), file, end);
  return make_tokenizer(runtime::tokenizer_in(folder.path()));
}

}  // namespace troupe::tests
