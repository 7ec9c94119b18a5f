#include "runtime/checkpoint/own_parameters.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/model/chunk.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

bool is_state_of_optimizer(std::string_view tensor) {
  constexpr std::string_view beginnings[] = {"exp_avg.", "exp_avg_sq.", "momentum_buffer."};
  return std::any_of(
      std::begin(beginnings), std::end(beginnings), [&](auto x) { return tensor.starts_with(x); });
}

std::int64_t elements_of_parameters(const checkpoint_reader& of) {
  std::int64_t out = 0;
  for (const auto name : of.names())
    if (!is_state_of_optimizer(name))
      out += of.extents(name).size();
  return out;
}

}  // namespace

void require_extents(const checkpoint_reader& of, std::string_view name, const shape& wanted) {
  if (const auto& found = of.extents(name); found != wanted)
    throw input_error(
        "the checkpoint '{}' has '{}' as {}, but its model needs {}; use another checkpoint",
        of.folder().string(),
        name,
        to_string(found),
        to_string(wanted));
}

void require_parameters(const checkpoint_reader& of, const extension& own) {
  const auto& config = of.manifest().model;
  const auto wanted = parameter_count(config), found = elements_of_parameters(of);
  // Checked before a list is made, so that a manifest alone cannot cause huge allocations.
  if (!own.feed_forward && wanted != found)
    throw input_error(
        "the checkpoint '{}' has a manifest with {} parameters, but shards with {}; use another "
        "checkpoint",
        of.folder().string(),
        wanted,
        found);
  auto model = config.spec(own);
  const auto range = all_of(model);
  const chunk whole(std::move(model), range);
  for (const auto& unit : whole.units())
    for (const auto& x : unit.parameters)
      if (x.tied_to.empty())
        require_extents(of, x.name, whole_extents(x));
}

void require_known_parameters(const checkpoint_reader& of) {
  const auto where = fmt::format("the identity in '{}'", of.folder().string());
  if (!parse_json(of.manifest().identity, where).contains("extension"))
    require_parameters(of);
}

}  // namespace troupe::runtime
