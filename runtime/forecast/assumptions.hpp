// The constants of time forecasts: the same for all models, layouts and devices.
//
// All but kernel_seconds were fitted to every second row of the tables in
// tests/golden/forecast/published.json, from the first row on. The fit minimizes the sum of squares
// of ln(forecast / published), with a penalty beyond 5 %, and with link_share and hidden_share at
// most 0.9. The other rows are held out (docs/benchmarks/2026-11-30-forecast.md). A cluster's
// description may give measured values in place of the first four and the last two.

#pragma once

namespace troupe::runtime {

struct forecast_assumptions {
  double product_share = 0.72;    ///< of the peak of matrix products, in large products
  double attention_share = 0.35;  ///< of the same peak, in fused attention
  double memory_share = 0.88;     ///< of the memory's bandwidth
  double link_share = 0.90;       ///< of the bandwidth of links
  double hidden_share = 0.90;     ///< of transfers and sums that run beside passes
  double tensor_hidden = 0.12;    ///< of tensor collectives that run beside products
  double step_seconds = 0.060;    ///< work of the host in each step, beside no computation
  double kernel_seconds = 5e-6;   ///< from one kernel to the next one; assumed
};

}  // namespace troupe::runtime
