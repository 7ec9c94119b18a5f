#include "runtime/model/layers/module_builder.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {

std::string module_builder::full(const std::string& name) const {
  return name_.empty() || name.empty() ? name_ + name : name_ + "." + name;
}

module_builder module_builder::within(const std::string& name, recompute_module module) const {
  return {in_, full(name), module};
}

int module_builder::add(parameter_spec x, bool all_rows) {
  auto& all = in_.unit.parameters;
  x.name = full(x.name);
  if (std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.name == x.name; }))
    throw input_error("a unit has two parameters named '{}'; names must be unique", x.name);
  auto& along_tensor = x.placements[axis::tensor];
  if (in_.sequence_parallel && !all_rows && !along_tensor.sharded()
      && x.placements.use(axis::tensor) == axis_use::model)
    along_tensor.partial_gradient = true;
  all.push_back(std::move(x));
  return int(all.size()) - 1;
}

std::size_t module_builder::add_cache(const shape& entry) {
  in_.caches.push_back(entry);
  return in_.caches.size() - 1;
}

segment& module_builder::segment(const std::string& name,
                                 std::function<void(tape&, pass&)> forward) {
  return segment(name, module_, std::move(forward));
}

segment& module_builder::segment(const std::string& name,
                                 recompute_module module,
                                 std::function<void(tape&, pass&)> forward) {
  in_.program.push_back({full(name), in_.number, in_.layer, module, std::move(forward)});
  return in_.program.back();
}

}  // namespace troupe::runtime
