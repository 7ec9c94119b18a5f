// The constants of time forecasts: the same for all models, layouts and devices.
//
// All but kernel_seconds were fitted to every second row of the tables in
// tests/golden/forecast/published.json, from the first row on. The fit minimizes the sum of squares
// of ln(forecast / published), with a penalty beyond 5 %, and with memory_share, link_share and
// hidden_share at most 0.9, where all three came out. The other rows are held out
// (docs/benchmarks/2026-11-30-forecast.md). A cluster's description may give measured values in
// place of all but hidden_share.

#pragma once

namespace troupe::runtime {

struct forecast_assumptions {
  double product_share = 0.71;       ///< of the peak of matrix products, in large products
  double attention_share = 0.48;     ///< of the same peak, in fused attention
  double memory_share = 0.90;        ///< of the memory's bandwidth
  double link_share = 0.90;          ///< of the bandwidth of links
  double hidden_share = 0.90;        ///< of transfers and sums that run beside passes
  double handoff_seconds = 0.00054;  ///< of the host, for each pass that hands on to a stage
  double step_seconds = 0.095;       ///< work of the host in each step, beside no computation
  double kernel_seconds = 5e-6;      ///< from one kernel to the next one; assumed
};

}  // namespace troupe::runtime
