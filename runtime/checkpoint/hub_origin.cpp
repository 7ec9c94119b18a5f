#include "runtime/checkpoint/hub_origin.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kept_folder = "hub";
constexpr const char* config_file = "config.json";
constexpr const char* generation_file = "generation_config.json";
constexpr std::int64_t largest_id = std::numeric_limits<std::int32_t>::max();

bool is_there(const fs::path& file) {
  std::error_code failure;
  return fs::exists(file, failure);
}

std::string text_of(const fs::path& file) {
  return is_there(file) ? read_text(file) : std::string();
}

/// Parses the fields and keeps their order.
ordered_json fields_of(const std::string& text, const char* file) {
  if (!parse_json(text, fmt::format("the kept {}", file)).is_object())
    throw input_error("cannot export: the kept {} is not a JSON object", file);
  return ordered_json_value(text);
}

/// Adds `end` to the stop ids.
void add_end(ordered_json& fields, std::int32_t end, const char* file) {
  auto& ids = fields["eos_token_id"];
  if (ids.is_null()) {
    ids = end;
    return;
  }
  if (!ids.is_array())
    ids = ordered_json::array({ids});
  if (!std::ranges::all_of(ids, [](const auto& id) { return id.is_number_integer(); }))
    throw input_error("cannot export: 'eos_token_id' in the kept {} is not an id or a list of ids",
                      file);
  if (std::ranges::find(ids, ordered_json(end)) == ids.end())
    ids.push_back(end);
  if (ids.size() == 1)
    ids = ordered_json(ids.front());
}

}  // namespace

void keep_hub_origin(const fs::path& hub, const fs::path& run) {
  make_folder(run / kept_folder);
  for (const auto* name : {config_file, generation_file})
    if (is_there(hub / name))
      write_text(run / kept_folder / name, read_text(hub / name));
    else if (is_there(run / kept_folder / name))
      fs::remove(run / kept_folder / name);
}

void pass_on_hub_origin(const fs::path& from, const fs::path& run) {
  if (is_there(from / kept_folder / config_file) && !is_there(run / kept_folder / config_file))
    keep_hub_origin(from / kept_folder, run);
}

hub_origin hub_origin_in(const fs::path& folder) {
  return {.config = text_of(folder / config_file),
          .generation_config = text_of(folder / generation_file)};
}

hub_origin kept_hub_origin(const fs::path& run) {
  return hub_origin_in(run / kept_folder);
}

std::vector<std::int32_t> end_ids(const hub_origin& origin, const fs::path& where) {
  std::vector<std::int32_t> out;
  for (const auto& [text, file] : {std::pair(&origin.generation_config, generation_file),
                                   std::pair(&origin.config, config_file)}) {
    const auto fields = text->empty() ? nlohmann::json() : parse_json(*text, file);
    const auto found = fields.find("eos_token_id");
    if (found == fields.end() || found->is_null())
      continue;
    for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
      if (!id.is_number_integer())
        throw input_error(
            "'eos_token_id' in {} of the model in '{}' should be an id or a list of ids, but is "
            "{}; correct it or remove it",
            file,
            where.string(),
            json_text(*found));
      if (const auto x = id.get<std::int64_t>(); x >= 0 && x <= largest_id)  // -1: no end
        out.push_back(std::int32_t(x));
    }
    break;
  }
  return out;
}

bool describes(const hub_origin& origin, const model_description& model) {
  if (origin.config.empty())
    return false;
  const auto there = hub_config(origin.config, "the kept config.json");
  return &there.family() == &model.family() && model.family().hub()->is_same_function(there, model);
}

std::string returned_config(const hub_origin& origin,
                            const std::string& exported,
                            std::optional<std::int32_t> end) {
  auto fields = fields_of(origin.config, config_file);
  const auto ours = ordered_json_value(exported);
  // A layer for further tokens is left out at an import.
  for (const auto* field : {"architectures", "vocab_size", "num_nextn_predict_layers"})
    if (ours.contains(field))
      fields[field] = ours.at(field);
  const bool renamed = fields.contains("dtype");  // name since transformers 5
  if (renamed)
    fields["dtype"] = ours.at("torch_dtype");
  if (!renamed || fields.contains("torch_dtype"))
    fields["torch_dtype"] = ours.at("torch_dtype");
  if (fields.erase("auto_map") > 0)  // refers to code that is not exported
    fields["model_type"] = ours.at("model_type");
  if (end)
    add_end(fields, *end, config_file);
  return json_text(fields, 2) + "\n";
}

std::string returned_generation_config(const hub_origin& origin, std::optional<std::int32_t> end) {
  if (origin.generation_config.empty())
    return {};
  auto fields = fields_of(origin.generation_config, generation_file);
  if (!end || !fields.contains("eos_token_id"))
    return origin.generation_config;
  add_end(fields, *end, generation_file);
  return json_text(fields, 2) + "\n";
}

}  // namespace troupe::runtime
