#include "runtime/family/model_description.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"

#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

constexpr const char* family_key = "family";

}  // namespace

model_description::model_description() : model_description(default_family().defaults()) {}

model_spec model_description::spec(const extension& own) const {
  return family_->spec(*this, own);
}

std::int64_t model_description::sequence() const {
  return family_->sizes(*this).sequence;
}

std::int64_t model_description::vocabulary() const {
  return family_->sizes(*this).vocabulary;
}

std::int64_t model_description::padded_vocabulary() const {
  return family_->sizes(*this).padded_vocabulary;
}

std::int64_t model_description::layers() const {
  return family_->sizes(*this).layers;
}

unit_letters model_description::letters() const {
  return family_->letters(*this);
}

void model_description::refuse_type() const {
  throw broken_promise("FAMILY-1: settings of family " + std::string(family_->name())
                       + " are read as those of another one");
}

std::int64_t padded_vocabulary_size(std::int64_t vocabulary,
                                    std::int64_t divisor,
                                    std::int64_t tensor_parallel) {
  const auto multiple = divisor * tensor_parallel;
  ensure(vocabulary >= 0 && divisor > 0 && tensor_parallel > 0,
         "VOCABULARY-1: a vocabulary is padded to a positive multiple");
  return (vocabulary + multiple - 1) / multiple * multiple;
}

std::vector<std::string> validate(const model_description& model) {
  auto out = model.family().validate(model);
  if (out.empty() && model.layers() < 1)
    out.push_back(
        fmt::format("`model.layers` is {}: stages share at least 1 unit", model.layers()));
  return out;
}

std::string to_json(const model_description& model) {
  const auto& family = model.family();
  auto own = family.to_json(model);
  if (&family == &default_family())
    return own;
  nlohmann::ordered_json out = {{family_key, family.name()}};
  out.update(ordered_json_value(own));
  return json_text(out);
}

model_description model_from_json(const std::string& text) {
  auto in = json_value_or_discarded(text);
  if (!in.is_object() || !in.contains(family_key))
    return default_family().from_json(text);
  const auto& name = in[family_key];
  if (!name.is_string())
    throw input_error("model configuration: 'family' should be a text");
  const auto& family = find_family(name.get_ref<const std::string&>());
  in.erase(family_key);
  return family.from_json(json_text(in));
}

std::int64_t parameter_count(const model_description& model) {
  return model.family().parameter_count(model);
}

}  // namespace troupe::runtime
