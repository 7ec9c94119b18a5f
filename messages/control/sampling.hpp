// Measurements of processes, for viewers of the run's hub.
//
//   supervisor -> monitor   use_processes   the nodes of the processes that host ranks
//   monitor, to itself      sample_due      time to measure again
//   monitor -> node         measure         answered by `measured`

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::messages {

struct use_processes {
  runtime::generation_id generation = {};
  std::vector<node_actor> nodes = {};  ///< by process number

  friend bool operator==(const use_processes&, const use_processes&) = default;
};

struct sample_due {
  runtime::generation_id generation = {};

  friend bool operator==(const sample_due&, const sample_due&) = default;
};

struct measure {
  runtime::generation_id generation = {};

  friend bool operator==(const measure&, const measure&) = default;
};

/// An actor or a lane of a process.
struct measured_member {
  std::string who = {};              ///< "lane:0.1", "stage:0.1", "loader"
  std::string state = {};            ///< "runs", "waits" or "idle"
  std::string work = {};             ///< current action or message; in a wait: its reason
  std::vector<std::string> on = {};  ///< names of the actors or lanes that it waits for
  double for_s = 0;                  ///< since its last progress
  std::uint64_t step = 0;

  friend bool operator==(const measured_member&, const measured_member&) = default;
};

/// Tensor messages to or from one peer, since the start of the process.
struct measured_traffic {
  std::uint64_t messages = 0, bytes = 0;

  friend bool operator==(const measured_traffic&, const measured_traffic&) = default;
};

/// A GPU. Negative: the device does not report this value.
struct measured_device {
  int device = 0;  ///< CUDA device number in the process
  std::string name = {};
  double power_w = -1, clock_mhz = -1, temperature_c = -1;
  double utilisation = -1;                                 ///< 0 to 1
  std::uint64_t memory_bytes = 0, memory_total_bytes = 0;  ///< in use, total; 0: not reported

  friend bool operator==(const measured_device&, const measured_device&) = default;
};

/// A line of a process's log.
struct measured_warning {
  bool is_error = false;
  std::string text = {};

  friend bool operator==(const measured_warning&, const measured_warning&) = default;
};

struct measured {
  runtime::generation_id generation = {};
  std::string host = {};
  std::int64_t pid = 0;
  double up_s = 0, cpu_s = 0;  ///< wall time since its start; CPU time of all its threads
  std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
  std::map<std::string, std::uint64_t> memory = {};     ///< bytes by kind
  std::map<std::string, std::uint64_t> transfers = {};  ///< counts and bytes since its start
  std::uint64_t leases = 0;                             ///< tickets that are not redeemed yet
  std::map<std::string, measured_traffic> sent = {}, received = {};  ///< by peer
  std::map<std::string, std::uint64_t> queues = {};  ///< waiting tensor messages, by member
  double energy_j = -1;  ///< of the host's CPU packages, since the process began; negative: unknown
  std::vector<measured_device> devices = {};
  std::vector<measured_member> members = {};
  std::vector<measured_warning> warnings = {};  ///< since the last answer

  friend bool operator==(const measured&, const measured&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, use_processes& x) {
  return f(caf::meta::type_name("use_processes"), x.generation, x.nodes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, sample_due& x) {
  return f(caf::meta::type_name("sample_due"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, measure& x) {
  return f(caf::meta::type_name("measure"), x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, measured_member& x) {
  return f(caf::meta::type_name("measured_member"), x.who, x.state, x.work, x.on, x.for_s, x.step);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, measured_traffic& x) {
  return f(caf::meta::type_name("measured_traffic"), x.messages, x.bytes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, measured_device& x) {
  return f(caf::meta::type_name("measured_device"),
           x.device,
           x.name,
           x.power_w,
           x.clock_mhz,
           x.temperature_c,
           x.utilisation,
           x.memory_bytes,
           x.memory_total_bytes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, measured_warning& x) {
  return f(caf::meta::type_name("measured_warning"), x.is_error, x.text);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, measured& x) {
  return f(caf::meta::type_name("measured"),
           x.generation,
           x.host,
           x.pid,
           x.up_s,
           x.cpu_s,
           x.resident_bytes,
           x.peak_resident_bytes,
           x.memory,
           x.transfers,
           x.leases,
           x.sent,
           x.received,
           x.queues,
           x.energy_j,
           x.devices,
           x.members,
           x.warnings);
}

}  // namespace troupe::messages
