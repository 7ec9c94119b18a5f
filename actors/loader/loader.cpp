#include "actors/loader/loader.hpp"

#include "actors/support/guard.hpp"

#include <caf/typed_event_based_actor.hpp>

namespace troupe::actors {
namespace {

runtime::bundle chosen(const runtime::bundle& all, bool inputs, bool labels) {
  runtime::bundle out;
  for (const auto& [name, x] : all) {
    const bool label = name == "labels" || name == "mask";
    if (label ? labels : inputs)
      out.add(name, x);
  }
  return out;
}

}  // namespace

messages::loader_actor::behavior_type loader(messages::loader_actor::pointer self,
                                             const std::shared_ptr<const resources>& shared) {
  end_on_exception(self, "loader");
  return {[shared](const messages::request_batch& x) -> messages::batch_ready {
    shared->planted->strike("loader", runtime::value(x.at.step));
    const auto& source = x.validation ? shared->validation : shared->training;
    const auto all = source->microbatch({x.consumed, x.microbatch, std::uint64_t(x.replica)});
    return {x.at,
            runtime::deposit(*shared->transport, chosen(all, x.inputs, x.labels), x.at.generation)};
  }};
}

}  // namespace troupe::actors
