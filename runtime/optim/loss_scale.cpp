#include "runtime/optim/loss_scale.hpp"

#include <algorithm>

namespace troupe::runtime {

loss_scale first_scale(const loss_scaling& scaling) {
  if (scaling.constant > 0)
    return {.value = scaling.constant};
  return {.value = scaling.initial, .hysteresis = scaling.hysteresis};
}

loss_scale next_scale(const loss_scaling& scaling, loss_scale at, bool finite) {
  if (scaling.constant > 0)
    return at;
  if (!finite) {
    at.at_minimum = can_fall(scaling, at) ? 0 : at.at_minimum + 1;
    at.finite = 0;
    if (--at.hysteresis <= 0)
      at.value = std::max(at.value / 2, scaling.minimum);
    return at;
  }
  at.at_minimum = 0;
  if (++at.finite == scaling.window) {
    at.finite = 0;
    at.hysteresis = scaling.hysteresis;
    at.value *= 2;
  }
  return at;
}

bool can_fall(const loss_scaling& scaling, const loss_scale& at) {
  return scaling.constant == 0 && at.value > scaling.minimum;
}

loss_scale resumed_scale(const loss_scaling& scaling, const loss_scale& there) {
  return scaling.constant > 0 ? first_scale(scaling) : there;
}

}  // namespace troupe::runtime
