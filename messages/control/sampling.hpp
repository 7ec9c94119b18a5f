// Measurements of processes, for viewers of the run's hub.
//
//   supervisor -> monitor   use_processes   the nodes of the processes that host ranks
//   monitor, to itself      sample_due      time to measure again
//   monitor -> node         measure         answered by `measured`

#pragma once

#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::messages {

struct use_processes {
  runtime::generation_id generation = {};
  std::vector<node_actor> nodes = {};  ///< by process number
};

struct sample_due {
  runtime::generation_id generation = {};
};

struct measure {
  runtime::generation_id generation = {};
};

/// An actor or a lane of a process.
struct measured_member {
  std::string who = {};              ///< "lane:0.1", "stage:0.1", "loader"
  std::string state = {};            ///< "runs", "waits" or "idle"
  std::string work = {};             ///< current action or message; in a wait: its reason
  std::vector<std::string> on = {};  ///< names of the actors or lanes that it waits for
  double for_s = 0;                  ///< since its last progress
  std::uint64_t step = 0;
};

/// Tensor messages to or from one peer, since the start of the process.
struct measured_traffic {
  std::uint64_t messages = 0, bytes = 0;
};

/// A GPU. Negative: the device does not report this value.
struct measured_device {
  int device = 0;  ///< CUDA device number in the process
  std::string name = {};
  double power_w = -1, clock_mhz = -1, temperature_c = -1;
  double utilisation = -1;                                 ///< 0 to 1
  std::uint64_t memory_bytes = 0, memory_total_bytes = 0;  ///< in use, total; 0: not reported
};

/// A line of a process's log.
struct measured_warning {
  bool is_error = false;
  std::string text = {};
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
};

}  // namespace troupe::messages
