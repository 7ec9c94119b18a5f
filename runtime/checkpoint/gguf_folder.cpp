#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"
#include "runtime/tokenizer/gguf_tokenizer.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* folders = "troupe-gguf";  // in the cache

/// All keys. Whole numbers of signed types count as unsigned if they are not negative.
nlohmann::json object_of(const gguf_file& file) {
  auto out = nlohmann::json::object();
  for (const auto& [key, x] : file.metadata()) {
    auto& to = out[key] = x.value;
    if (to.is_number_integer() && !to.is_number_unsigned() && to.get<std::int64_t>() >= 0)
      to = std::uint64_t(to.get<std::int64_t>());
  }
  return out;
}

void require_one_file(const hub_fields& metadata) {
  if (metadata.size("split.count", 1, 0) > 1)
    throw input_error(
        "{}: the model is split into {} files; make one file with llama.cpp's `llama-gguf-split`, "
        "option merge",
        metadata.where(),
        metadata.size("split.count"));
}

std::string config_of(const gguf_file& file, const nlohmann::json& all, const std::string& where) {
  const hub_fields metadata(all, where);
  require_one_file(metadata);
  const auto& translation = gguf_translation(metadata.text("general.architecture", ""), where);
  const auto* const embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->extents.rank() != 2)
    throw input_error(
        "{}: tensor 'token_embd.weight' is missing or not a matrix; the file has no "
        "whole model",
        where);
  gguf_outline outline{metadata,
                       [&](std::string_view name) { return file.find_tensor(name) != nullptr; },
                       embedding->extents[0],
                       {}};
  if (const auto* const factors = file.find_tensor("rope_freqs.weight")) {
    constexpr std::int64_t most = 4096;
    if (factors->extents.size() < 1 || factors->extents.size() > most)
      throw input_error("{}: tensor 'rope_freqs.weight' has {} elements, but 1 to {} are expected",
                        where,
                        factors->extents.size(),
                        most);
    outline.rotary_factors.resize(std::size_t(factors->extents.size()));
    file.read(*factors, 0, outline.rotary_factors);
  }
  auto config = ordered_json_value(translation.gguf_config(outline));
  for (const auto& [key, field] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token_id"),
                                   std::pair("tokenizer.ggml.eos_token_id", "eos_token_id")})
    if (all.contains(key))
      config[field] = all.at(key);
  return json_text(config, 2) + "\n";
}

void put(const fs::path& file, const std::string& text) {
  std::error_code failure;
  if (fs::exists(file, failure) && read_text(file) == text)
    return;
  write_text(file, text);
}

}  // namespace

fs::path folder_of_gguf(const fs::path& path, const fs::path& cache) {
  const auto file = fs::absolute(path).lexically_normal();
  const gguf_file in(file);
  const auto where = "'" + file.string() + "'";
  const auto all = object_of(in);
  const auto config = config_of(in, all, where);
  hub_config(config, where);  // refuses what the family lacks, with the name of the file
  const auto tokenizer = tokenizer_of_gguf(all, where);
  digester name;
  name.add(file.string().data(), file.string().size());
  name.add(in.header().data(), in.header().size());
  in.require_intact();
  auto folder = cache / folders / to_string(name.result());
  try {
    make_folder(folder);
  } catch (const io_error& failure) {
    throw io_error("{}; set HF_HUB_CACHE to a folder that this process can write", failure.what());
  }
  if (!tokenizer.tokenizer.empty()) {
    put(folder / "tokenizer_config.json", tokenizer.configuration);
    put(folder / "tokenizer.json", tokenizer.tokenizer);
  }
  std::error_code failure;
  fs::create_symlink(file, folder / gguf_weights, failure);
  if (failure && fs::read_symlink(folder / gguf_weights, failure) != file)
    throw io_error("cannot link '{}' to '{}': {}",
                   (folder / gguf_weights).string(),
                   file.string(),
                   failure.message());
  put(folder / "config.json", config);  // the last one: the folder is complete
  return folder;
}

fs::path gguf_behind(const fs::path& folder) {
  std::error_code failure;
  auto file = fs::read_symlink(folder / gguf_weights, failure);
  return failure || folder.parent_path().filename() != folders ? folder : file;
}

}  // namespace troupe::runtime
