#include "runtime/model/chunk.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/ties.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace troupe::runtime {
namespace {

void require_consistent(const model_spec& model) {
  for (const auto& unit : model.units) {
    const auto of_stream = model.stream_of(unit.stream).width, width = unit.module.traits().width;
    ensure(width == 0 || width == of_stream,
           "MODEL-2: every unit and sublayer has the width of its stream");
  }
  const auto is_frozen = [&](std::int64_t u) { return model.units[std::size_t(u)].frozen; };
  for (const auto& tie : ties_of(model)) {
    const auto frozen = std::count_if(tie.units.begin(), tie.units.end(), is_frozen);
    ensure(frozen == 0 || frozen == std::ptrdiff_t(tie.units.size()),
           "MODEL-5: units with tied parameters are frozen together");
  }
}

}  // namespace

chunk::chunk(model_spec model,
             const chunk_range& range,
             const axis_ranks& ranks,
             bool sequence_parallel)
    : model_(std::move(model)),
      range_(range),
      flow_(flow_of(model_, range)),
      ranks_(ranks),
      sequence_parallel_(sequence_parallel && ranks[axis::tensor].size > 1) {
  require_consistent(model_);
  const auto cuts = cuts_of(model_);
  for (auto u = range.first; u < range.end; ++u) {
    add_unit(model_.units.at(std::size_t(u)));
    auto& ended = ended_.emplace_back();
    const auto& needed = cuts[std::size_t(u) + 1].streams;
    for (const auto& x : model_.streams)
      if (std::find(needed.begin(), needed.end(), x.name) == needed.end())
        ended.push_back(x.name);
  }
  note_ties();
  note_last_reads();
}

void chunk::add_unit(const model_unit& x) {
  unit_under_construction unit{.unit = units_.emplace_back(unit_spec{x.name, {}}),
                               .number = int(units_.size()) - 1,
                               .layer = x.layer,
                               .ranks = ranks_,
                               .sequence_parallel = sequence_parallel_,
                               .caches = caches_,
                               .program = program_};
  module_builder to(unit, x.prefix);
  x.module.add_to(to);
  cache_units_.resize(caches_.size(), unit.number);
  if (x.frozen)
    for (auto& parameter : units_.back().parameters)
      parameter.frozen = true;
}

void chunk::note_ties() {
  std::map<std::string, parameter_spec*> known;
  for (int u = 0; u < int(units_.size()); ++u) {
    std::multiset<std::string> tied_to;
    for (auto& x : units_[std::size_t(u)].parameters) {
      known.emplace(x.name, &x);
      if (!x.tied_to.empty())
        tied_to.insert(x.tied_to);
    }
    const auto told = of_model(u).module.traits().tied_to;
    if (tied_to != std::multiset<std::string>(told.begin(), told.end()))
      throw broken_promise(
          "MODEL-1: a module's traits name each parameter that its own are tied to: "
          + units_[std::size_t(u)].name);
  }
  for (const auto& tie : ties_of(model_)) {
    const auto owner = known.find(tie.owner);
    if (owner == known.end())
      continue;
    owner->second->has_copies = true;
    for (const auto& [name, x] : known)
      ensure(x->tied_to != tie.owner
                 || (x->extents == owner->second->extents
                     && x->valid_rows == owner->second->valid_rows),
             "MODEL-1: tied parameters have the same extents");
  }
}

void chunk::note_last_reads() {
  const auto first_tied_to = [&](const unit_spec& owner) {
    const auto uses = [&](const parameter_spec& x) {
      return !x.tied_to.empty()
             && std::any_of(owner.parameters.begin(), owner.parameters.end(), [&](const auto& own) {
                  return (own.tied_to.empty() ? own.name : own.tied_to) == x.tied_to;
                });
    };
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (std::any_of(units_[u].parameters.begin(), units_[u].parameters.end(), uses))
        return int(u);
    return no_unit;
  };
  for (int u = 0; u < int(units_.size()); ++u) {
    const auto traits = of_model(u).module.traits();
    auto& unit = units_[std::size_t(u)];
    auto& until = read_until_.emplace_back(traits.gives_stream ? no_unit : u);
    if (traits.reads_backward)
      continue;
    until = first_tied_to(unit);
    unit.read_backward = until != no_unit;
  }
}

}  // namespace troupe::runtime
