// Wrong numbers, planted.

#include "runtime/tensor/moves.hpp"
#include "runtime/trainer/worker.hpp"

#include <limits>

namespace troupe::runtime {
namespace {

/// The first parameter that a rank answers for.
template <class Homes, class Visit>
void visit_own_entry(Homes& homes, const Visit& visit) {
  for (auto& [id, home] : homes)
    for (const auto& e : home->store->entries())
      if (home->answers() && e.owner < 0 && e.spec.tied_to.empty()
          && answers(e.spec, home->store->axes()))
        return visit(*home, e);
}

}  // namespace

void worker::inject_nan_gradient() {
  visit_own_entry(homes_, [this](hosted& home, const parameter_entry& e) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    stream_.write(home.store->gradients(0, e.index), &nan, sizeof nan);
    if (home.witness)
      home.witness->note_written(0, e.index);
  });
}

void worker::flip_gradient_bit() {
  visit_own_entry(homes_, [this](hosted& home, const parameter_entry& e) {
    flip_bit(stream_, home.store->gradients(0, e.index));
  });
}

void worker::flip_weight_bit() {
  for (auto& [id, home] : homes_)
    if (home->answers() && !home->optimizer.parts().empty())
      return flip_bit(stream_, home->optimizer.weights(home->optimizer.parts().front()).data());
}

}  // namespace troupe::runtime
