// A cluster as a value: devices, the links between them, and how often they fail.
//
// docs/formats/cluster.md describes the file.

#pragma once

#include "runtime/tensor/dtype.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct device_outline {
  std::string name;
  double memory = 0;          ///< bytes
  double bandwidth = 0;       ///< of its memory, bytes per second, reads plus writes
  double f32 = 0, bf16 = 0;   ///< peak FLOP/s of matrix products, without sparsity
  std::optional<double> f16;  ///< empty: as bf16
  std::optional<double> fp8;  ///< empty: it has no such products

  double peak(dtype of) const;
};

/// One direction of a link.
struct link_outline {
  double bandwidth = 0;  ///< bytes per second
  double latency = 0;    ///< seconds of a message
};

/// Shares of peak rates that were measured, and fixed costs. Empty members: as assumed.
struct measured_shares {
  std::optional<double> products, attention, memory, links;
  std::optional<double> handoff, step, kernel;  ///< seconds; see forecast_assumptions
};

struct cluster_outline {
  std::string name;
  device_outline device;
  int hosts = 1;
  int devices_per_host = 1;
  link_outline inside;   ///< of each device to the others of its host
  link_outline between;  ///< of each rail
  double rails = 1;      ///< links of a host to other hosts
  /// Mean time that one device runs between failures that end a process, seconds; 0: none fail.
  double device_seconds_between_failures = 0;
  /// Means of a recovery, seconds: until a death is noticed, and from then to the next step.
  double detection = 0, restart = 0;
  /// A run without recovery: the restart of a job, and a checkpoint of all states.
  double job_restart = 0, checkpoint = 0;
  measured_shares measured = {};

  int devices() const { return hosts * devices_per_host; }
};

/// The ranks of a group on their hosts. Ranks fill hosts in their order.
struct group_span {
  int size = 1;   ///< members
  int hosts = 1;  ///< hosts with members
  int local = 1;  ///< most members on one host
};

/// `ranks`: ascending.
group_span span_of(const std::vector<int>& ranks, int devices_per_host);

}  // namespace troupe::runtime
