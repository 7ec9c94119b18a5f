#include "runtime/model/segment.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"

#include <utility>

namespace troupe::runtime {

std::uint64_t pass::dropout_key(const std::string& name) const {
  return random_key(settings.seed, name, settings.step);
}

variable pass::take(std::string_view local) {
  const auto found = locals.find(local);
  ensure(found != locals.end(), "MODEL-11: a local variable is written before it is taken");
  auto out = std::move(found->second);
  locals.erase(found);
  return out;
}

loss_average pass::average(double weight) const {
  return {float(settings.loss_scale * weight), settings.per_token_loss};
}

counted_choices pass::counts_of_step(stream& by, const tensor& counts, std::int64_t rows) {
  if (const auto found = counted.find(place.segment); found != counted.end())
    return found->second;
  auto now = settings.step_counts->add(by, place.segment, counts, rows, settings.training);
  return counted.emplace(place.segment, std::move(now)).first->second;
}

void pass::add_loss(const std::string& name, const axis_map<placement>& rows, tensor sums) {
  if (!settings.losses)
    return;
  for (const auto& row : axis_table())
    ensure(rows[row.id] != placement::sequence_sharded && rows[row.id] != placement::partial,
           "MODEL-8: a loss is a sum over the rows of all ranks");
  const bool fresh = losses.try_emplace({place.unit, place.segment, name}, std::move(sums)).second;
  ensure(fresh, "MODEL-7: a segment writes a loss once");
}

}  // namespace troupe::runtime
