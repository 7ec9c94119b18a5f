#include "runtime/hub/hub_listing.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <array>
#include <fmt/ranges.h>

namespace troupe::runtime {
namespace {

constexpr const char* config_name = "config.json";
constexpr std::array tokenizer_names
    = {"tokenizer.json", "vocab.json", "tokenizer.model", "tiktoken.model", "vocab.txt"};

/// A file name without a folder.
bool is_plain_name(std::string_view text) {
  return !text.empty() && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'
           || c == '_' || c == '.';
  });
}

template <class Has>
bool has_tokenizer_file(const Has& has) {
  return std::ranges::any_of(tokenizer_names, has);
}

bool has_weights(const hub_cache& cache, const std::string& commit) {
  if (cache.has(commit, hub_weights))
    return true;
  if (!cache.has(commit, hub_index))
    return false;
  const auto file = cache.snapshot(commit) / hub_index;
  return std::ranges::all_of(shards_in(read_text(file), file.string()),
                             [&](const auto& x) { return cache.has(commit, x); });
}

}  // namespace

hub_listing parse_hub_listing(std::string_view json, const std::string& where) {
  const auto found = json_value_or_discarded(json);
  const auto member = [&](const nlohmann::json& of, const char* key) {
    const auto at = of.is_object() ? of.find(key) : of.end();
    return at != of.end() && at->is_string() ? at->template get<std::string>() : std::string();
  };
  hub_listing out{.commit = member(found, "sha")};
  const auto files = found.is_object() ? found.find("siblings") : found.end();
  if (!is_hub_commit(out.commit) || files == found.end() || !files->is_array())
    throw io_error(
        "cannot use the answer of {}: it has no \"sha\" and \"siblings\", as answers of a "
        "Hugging Face Hub have; check HF_ENDPOINT",
        where);
  for (const auto& file : *files)
    out.files.insert(member(file, "rfilename"));
  return out;
}

const std::vector<std::string>& hub_small_files() {
  static const std::vector<std::string> names = {config_name,
                                                 "generation_config.json",
                                                 "tokenizer.json",
                                                 "tokenizer_config.json",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "vocab.txt",
                                                 "tokenizer.model",
                                                 "tiktoken.model",
                                                 "chat_template.jinja"};
  return names;
}

std::vector<std::string> further_templates_in(const hub_listing& listing) {
  constexpr std::string_view folder = "additional_chat_templates/";
  std::vector<std::string> out;
  for (const auto& file : listing.files)
    if (file.starts_with(folder) && file.ends_with(".jinja")
        && is_plain_name(std::string_view(file).substr(folder.size())))
      out.push_back(file);
  return out;
}

std::set<std::string> shards_in(std::string_view index_json, const std::string& where) {
  const auto index = json_value_or_discarded(index_json);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    throw io_error("'{}' is not an index of safetensors files: it has no \"weight_map\"", where);
  std::set<std::string> out;
  for (const auto& file : *map) {
    if (!file.is_string() || !is_plain_name(file.template get<std::string>()))
      throw io_error("'{}' names a file that is not in the same folder", where);
    out.insert(file.template get<std::string>());
  }
  return out;
}

void require_needed(const hub_listing& listing, const hub_name& name, hub_files files) {
  const auto has = [&](const char* file) { return listing.files.contains(file); };
  if (files == hub_files::tokenizer) {
    if (!has_tokenizer_file(has))
      throw input_error("'{}' has no tokenizer that this build reads: none of {}",
                        to_string(name),
                        fmt::join(tokenizer_names, ", "));
    return;
  }
  if (!has(config_name))
    throw input_error("'{}' is not a model folder: it has no {}", to_string(name), config_name);
  if (files == hub_files::model && !has(hub_weights) && !has(hub_index))
    throw input_error("'{}' has neither {} nor {}; only models saved as safetensors are read",
                      to_string(name),
                      hub_weights,
                      hub_index);
}

bool has_required(const hub_cache& cache, const std::string& commit, hub_files files) {
  const auto has = [&](const char* file) { return cache.has(commit, file); };
  if (files == hub_files::tokenizer)
    return has_tokenizer_file(has);
  return has(config_name) && (files == hub_files::shape || has_weights(cache, commit));
}

bool has_everything(const hub_cache& cache, const std::string& commit, hub_files files) {
  return has_required(cache, commit, files)
         && std::ranges::all_of(hub_small_files(), [&](const auto& x) {
              return cache.has(commit, x) || cache.lacks(commit, x);
            });
}

}  // namespace troupe::runtime
