// How fast this machine is, in seconds: to compare with what a run reports.

#pragma once

namespace troupe::runtime {

struct measured_rates {
  double f32 = 0;   ///< floating-point operations a second of matrix products in f32
  double bf16 = 0;  ///< the same in bf16
  double copy = 0;  ///< bytes a second: read and written, both counted
};

/// The best of many short runs with so many threads, about a second for each of the three. A
/// neighbour can only make a run slower, so the best is nearest to what the machine can do.
measured_rates measure_rates(int threads);

}  // namespace troupe::runtime
