#include "runtime/model/extension.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/chunk.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {

block_builder::block_builder(std::string name,
                             std::int64_t layer,
                             const gpt_config& config,
                             const axis_seats& seats,
                             bool sequence_parallel,
                             int unit,
                             std::vector<parameter_spec>& parameters,
                             std::vector<runtime::segment>& program)
    : name_(std::move(name)),
      layer_(layer),
      config_(config),
      seats_(seats),
      sequence_parallel_(sequence_parallel),
      unit_(unit),
      parameters_(parameters),
      program_(program) {}

int block_builder::add(parameter_spec x) {
  x.name = name_ + "." + x.name;
  const auto same = [&](const parameter_spec& other) { return other.name == x.name; };
  if (std::any_of(parameters_.begin(), parameters_.end(), same))
    throw input_error("an extension adds '{}' twice: each parameter needs a name of its own",
                      x.name);
  auto& lies = x.placements[axis::tensor];
  lies.partial_gradient = lies.partial_gradient || (!lies.sharded() && sequence_parallel_);
  parameters_.push_back(std::move(x));
  return int(parameters_.size()) - 1;
}

void block_builder::segment(const std::string& name, std::function<void(tape&, pass&)> forward) {
  program_.push_back(
      {name_ + "." + name, unit_, layer_, module_kind::feed_forward, std::move(forward)});
}

}  // namespace troupe::runtime
