#include "runtime/family/families.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/family/hub_translation.hpp"
#include "runtime/family/t5/t5.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

std::vector<const model_family*>& registry() {
  static std::vector<const model_family*> all = {
      &gpt_family(),
      &bert_family(),
      &t5_family(),
  };
  return all;
}

const model_family* known(std::string_view name) {
  const auto& all = registry();
  const auto found
      = std::ranges::find_if(all, [&](const auto* family) { return family->name() == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace

const std::vector<const model_family*>& families() {
  return registry();
}

const model_family& find_family(std::string_view name) {
  if (const auto* const found = known(name))
    return *found;
  std::string names;
  for (const auto* family : registry())
    names += (names.empty() ? "" : ", ") + std::string(family->name());
  throw input_error(
      "unknown model family '{}'; known: {}. A program registers its own families in each of its "
      "processes",
      name,
      names);
}

const model_family& default_family() {
  return *registry().front();
}

void add_family(const model_family& family) {
  if (known(family.name()) != nullptr)
    throw input_error("cannot register the model family '{}': there is one of this name",
                      family.name());
  registry().push_back(&family);
}

model_description hub_config(std::string_view config_json, const std::string& where) {
  const auto in = parse_json(config_json, where);
  const auto type = in.is_object() && in.contains("model_type") && in["model_type"].is_string()
                        ? in["model_type"].get<std::string>()
                        : std::string();
  for (const auto* family : registry())
    if (const auto* const hub = family->hub(); hub != nullptr && hub->reads(type))
      return hub->model_of(config_json, where);
  return default_family().hub()->model_of(config_json, where);  // refuses the type
}

const hub_translation& gguf_translation(std::string_view architecture, const std::string& where) {
  std::vector<std::string_view> all;
  for (const auto* family : registry())
    if (const auto* const hub = family->hub(); hub != nullptr) {
      const auto read = hub->gguf_architectures();
      if (std::ranges::find(read, architecture) != read.end())
        return *hub;
      all.insert(all.end(), read.begin(), read.end());
    }
  throw input_error(
      "{}: its general.architecture is {}, which is not supported ({} are); convert the model to a "
      "folder of Hugging Face",
      where,
      shown(nlohmann::json(architecture)),
      fmt::join(all, ", "));
}

}  // namespace troupe::runtime
