#include "tests/emulator/include/emulated/intrinsics.h"

#include "tests/emulator/settings.hpp"

namespace troupe::emulator {

bool is_coarse() {
  return machine().coarse.load(std::memory_order_relaxed);
}

float as_on_device(double exact, float x, int units) {
  const float near = float(exact);
  // exp2(0), zero and numbers near the limits stay exact.
  if (!is_coarse() || x == 0 || !std::isnormal(near) || std::abs(near) > 1e38F)
    return near;
  const unsigned mixed = (std::bit_cast<unsigned>(x) * 0x9e3779b1U) >> 8;
  const int away = int(mixed % unsigned(2 * units + 1)) - units;
  return std::bit_cast<float>(std::bit_cast<unsigned>(near) + unsigned(away));
}

}  // namespace troupe::emulator
