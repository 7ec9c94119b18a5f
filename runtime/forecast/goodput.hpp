// The share of a run's time that advances the model, with failures at a given rate.
//
// Effective training time ratio (Kokolis et al., "Revisiting Reliability in Large-Scale Machine
// Learning Research Clusters", 2024, arXiv 2410.21680): productive time / elapsed time. With a
// failure every M seconds of elapsed time, and L seconds lost to each one,
//
//   ETTR = (1 - L / M) s
//
// With recovery, s = 1 and L is the detection, the restart, half of the step that was running, and
// one step that was committed but not yet kept, for the share of a step in which it travels to its
// keeper (law 2 of the step: at most two steps are computed again). Keeping costs no time here.
//
// With checkpoints only, L is the detection, the restart of the job, and half of the interval t
// between checkpoints. Training stops for c seconds at each, so s = t / (t + c). The interval is
// the best one, t = sqrt(2 c M) (Young, "A First Order Approximation to the Optimum Checkpoint
// Interval", 1974), and at least a step.

#pragma once

#include "runtime/forecast/cluster.hpp"

namespace troupe::runtime {

struct goodput_forecast {
  double between_failures = 0;  ///< M, seconds; 0: no failures
  double lost = 0;              ///< L of a recovery
  double with_recovery = 1;     ///< ETTR
  double interval = 0;          ///< t of checkpoints
  double with_checkpoints = 1;  ///< ETTR
};

/// `between_failures`: seconds; 0: by the rate of the cluster's devices.
goodput_forecast forecast_goodput(const cluster_outline& on,
                                  int devices,
                                  double step_seconds,
                                  double between_failures = 0);

}  // namespace troupe::runtime
