// Measured speed of this machine, for comparison with the speed of a run.

#pragma once

namespace troupe::runtime {

struct measured_rates {
  double f32 = 0;   ///< FLOP/s of f32 matrix products
  double bf16 = 0;  ///< FLOP/s of bf16 matrix products
  double copy = 0;  ///< bytes per second, reads plus writes
};

/// The best of many short runs with `threads` threads; about a second per rate. Other load only
/// slows a run down, so the best run is closest to the machine's speed.
measured_rates measure_rates(int threads);

}  // namespace troupe::runtime
