#include "kernels/reference/reference.hpp"

#include <cmath>

namespace troupe::kernels::reference {

template <class T>
void run(const rope<T>& op) {
  const std::int64_t half = op.rotated / 2;
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t g = 0; g < op.G; ++g) {
      for (std::int64_t head = 0; head < op.heads; ++head) {
        T* x = op.x + r * op.row + g * op.group + head * op.D;
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle = double(op.position[r]) * double(op.frequency[i]);
          const double cos = double(op.magnitude) * std::cos(angle);
          const double sin = double(op.magnitude) * std::sin(op.backward ? -angle : angle);
          T& first = op.interleaved ? x[2 * i] : x[i];
          T& second = op.interleaved ? x[2 * i + 1] : x[i + half];
          const auto a = double(first), b = double(second);
          first = T(a * cos - b * sin);
          second = T(b * cos + a * sin);
        }
      }
    }
  }
}

template void run(const rope<float>&);
template void run(const rope<double>&);
template void run(const rope<bf16>&);
template void run(const rope<f16>&);

}  // namespace troupe::kernels::reference
