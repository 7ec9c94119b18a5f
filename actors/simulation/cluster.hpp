// Measures the control plane of a cluster: the real supervisor, replicas, stages, nodes, keepers
// and loaders of a job, with idle workers (idle_worker.hpp), on one thread in virtual time.
//
// Each message between processes takes `latency_ns`, and each actor `handling_ns` for a message, as
// if it had a core of its own. Tensors and passes take no time. A process starts in
// `longest_start_ns` (virtual_agent.hpp). So times are those of messages alone: what is sent one
// after the other, and what one actor handles.

#pragma once

#include "actors/simulation/message_counts.hpp"
#include "runtime/job/job.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors::simulation {

/// The processes that die at once.
enum class failing_part : std::uint8_t { process, host, rack };

constexpr int hosts_in_rack = 16;
constexpr int cluster_microbatches = 2;  ///< of a replica in a step

struct cluster_settings {
  int workers = 1000;
  int processes = 125, hosts = 125;
  int steps = 5;                          ///< the one before the last is measured; 4 or more
  std::optional<failing_part> kill = {};  ///< after the steps; then two more are trained
  std::uint64_t latency_ns = 20'000, handling_ns = 5'000;
};

struct cluster_recovery {
  int processes = 0;               ///< that died
  std::string from = {};           ///< source of the states: "keeper", "start"
  std::uint64_t resumed = 0;       ///< the step that the run went back to
  double restart_seconds = 0;      ///< from the news of the death until a step begins
  double outage_seconds = 0;       ///< from the death until the next new step is committed
  counted_messages messages = {};  ///< in that time
};

struct cluster_run {
  cluster_settings of;
  int tensor = 1, pipeline = 1, replicas = 1;
  double start_seconds = 0;     ///< until the first order of the first step arrives
  counted_messages start = {};  ///< until then
  double step_seconds = 0;      ///< from the order of a step to its commit
  counted_messages step = {};
  std::optional<cluster_recovery> recovery = {};
  std::uint64_t turns = 0;
  double seconds = 0;                  ///< of this machine's time
  std::uint64_t bytes_per_worker = 0;  ///< of this process's memory
};

/// The job of a cluster: the default family's smallest model with a layer a stage, on up to 8
/// tensor ranks and 8 stages, as far as they divide the workers.
runtime::training_job cluster_job(const cluster_settings& of);

/// Runs the job on the calling thread. Throws input_error if the cluster has no such part, and
/// broken_promise if the run does not end as it should.
cluster_run run_cluster(const cluster_settings& of);

/// How a number grows between two sizes: x in workers^x. Empty if one of them is 0.
std::optional<double> growth(std::pair<double, double> workers, std::pair<double, double> of);

/// A figure of a run that is compared between sizes.
struct cluster_figure {
  std::string name;
  double value = 0;
};
std::vector<cluster_figure> figures_of(const cluster_run& x);

}  // namespace troupe::actors::simulation
