#include "actors/loader/loader.hpp"

#include "actors/support/guard.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <map>
#include <utility>

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

/// The micro-batches of the step that was asked for last: first and last stage want one each, and
/// so does every tensor rank. What is kept is what they are being sent anyway.
class recent_batches {
 public:
  runtime::bundle at(const runtime::batch_source& from, const messages::request_batch& x) {
    if (const auto now = std::pair(x.consumed, x.validation); now != step_) {
      step_ = now;
      kept_.clear();
    }
    const auto key = std::pair(x.replica, x.microbatch);
    const auto found = kept_.find(key);
    if (found != kept_.end())
      return found->second;
    return kept_.emplace(key, from.microbatch({x.consumed, x.microbatch, std::uint64_t(x.replica)}))
        .first->second;
  }

 private:
  std::pair<std::uint64_t, bool> step_ = {};
  std::map<std::pair<int, std::uint64_t>, runtime::bundle> kept_;
};

}  // namespace

messages::loader_actor::behavior_type loader(messages::loader_actor::pointer self,
                                             const std::shared_ptr<const node_context>& context) {
  end_on_exception(self, "loader");
  return {[self, context, recent = std::make_shared<recent_batches>()](
              const messages::request_batch& x) -> messages::batch_ready {
    context->faults->inject("loader", runtime::value(x.at.step));
    const auto all = recent->at(x.validation ? *context->validation : *context->training, x);
    return context->messages->checked(
        self->home_system(),
        messages::batch_ready{
            x.at,
            runtime::deposit(
                *context->transport, chosen(all, x.inputs, x.labels), x.at.generation)});
  }};
}

}  // namespace troupe::actors
