#include "runtime/checkpoint/initial_parameters.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/parameters/initial_values.hpp"

#include <utility>

namespace troupe::runtime {

initial_parameters::initial_parameters(const model_description& model, std::uint64_t seed)
    : model_(model), seed_(seed) {
  auto spec = model.spec();
  const auto range = all_of(spec);
  const chunk all(std::move(spec), range);
  for (const auto& unit : all.units())
    for (const auto& x : unit.parameters)
      parameters_.emplace(x.name, x);
}

const parameter_spec* initial_parameters::find(std::string_view name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : &found->second;
}

void initial_parameters::draw(const parameter_spec& x, const box& part, std::span<float> to) const {
  parameter_entry entry;
  entry.spec = x;
  entry.boxes = {part};
  initial_values(entry, seed_, 0, to);
}

std::vector<const parameter_spec*> initial_parameters::lacking(
    const std::function<bool(std::string_view)>& has) const {
  std::vector<const parameter_spec*> out;
  for (const auto& [name, x] : parameters_)
    if (x.tied_to.empty() && !has(name))
      out.push_back(&x);
  return out;
}

std::string initial_parameters::told(const std::function<bool(std::string_view)>& has,
                                     const std::string& from) const {
  const auto all = lacking(has);
  return all.empty() ? ""
                     : fmt::format("'{}' lacks {} of heads, such as '{}': {} with initial values",
                                   from,
                                   counted(std::int64_t(all.size()), "parameter"),
                                   all.front()->name,
                                   all.size() == 1 ? "it begins" : "they begin");
}

void initial_parameters::begin(const shard& to, const std::string& from) const {
  const auto* const x = find(to.name);
  if (x == nullptr || !model_.family().begins_anew(model_, to.name))
    throw input_error(
        "the pretrained model '{}' lacks '{}', which is no part of a new head: give the settings "
        "that it was trained with, or another model",
        from,
        to.name);
  draw(*x, to.part, to.elements);
}

}  // namespace troupe::runtime
