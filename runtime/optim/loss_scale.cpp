#include "runtime/optim/loss_scale.hpp"

#include <algorithm>

namespace troupe::runtime {

loss_scale first_scale(const loss_scaling& how) {
  if (how.constant > 0)
    return {.value = how.constant};
  return {.value = how.initial, .hysteresis = how.hysteresis};
}

loss_scale next_scale(const loss_scaling& how, loss_scale at, bool finite) {
  if (how.constant > 0)
    return at;
  if (!finite) {
    at.at_minimum = can_fall(how, at) ? 0 : at.at_minimum + 1;
    at.finite = 0;
    if (--at.hysteresis <= 0)
      at.value = std::max(at.value / 2, how.minimum);
    return at;
  }
  at.at_minimum = 0;
  if (++at.finite == how.window) {
    at.finite = 0;
    at.hysteresis = how.hysteresis;
    at.value *= 2;
  }
  return at;
}

bool can_fall(const loss_scaling& how, const loss_scale& at) {
  return how.constant == 0 && at.value > how.minimum;
}

loss_scale resumed_scale(const loss_scaling& how, const loss_scale& there) {
  return how.constant > 0 ? first_scale(how) : there;
}

}  // namespace troupe::runtime
