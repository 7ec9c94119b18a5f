// The environment of a process's behaviours: makes lanes, workers and groups, and writes to disk.
// Simulations, tests and injected faults (actors/faults) replace its members. They also replace the
// transport and the message path of shared_resources.

#pragma once

#include "actors/host/registries.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/device/lane.hpp"
#include "runtime/telemetry/recorder.hpp"
#include "runtime/trainer/worker.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace troupe::actors {

/// Place of a worker in its job, and the step of its initial state.
struct worker_place {
  std::string rank;  ///< seats::name: "0.1" or "0.1.2"
  std::uint64_t step = 0;
};

/// The default members are those of a real run.
struct environment {
  std::function<std::unique_ptr<runtime::lane>(runtime::lane_settings)> make_lane
      = runtime::make_thread_lane;

  std::function<std::unique_ptr<runtime::worker>(const worker_place&,
                                                 runtime::worker_settings,
                                                 runtime::stream&,
                                                 const runtime::worker_groups&)>
      make_worker = [](const worker_place&,
                       runtime::worker_settings settings,
                       runtime::stream& by,
                       const runtime::worker_groups& groups) {
        return std::make_unique<runtime::worker>(std::move(settings), by, groups);
      };

  std::function<std::shared_ptr<group_registry>(
      std::uint64_t generation, runtime::collectives, group_registry::join_between_processes)>
      make_groups = [](std::uint64_t generation,
                       runtime::collectives by,
                       group_registry::join_between_processes between) {
        return std::make_shared<group_registry>(runtime::cancel_token(),
                                                generation,
                                                by,
                                                std::shared_ptr<group_meeting>(),
                                                std::move(between));
      };

  /// Same contract as runtime::write_shard_file.
  std::function<runtime::shard_record(const std::filesystem::path& folder,
                                      const std::string& file,
                                      std::span<const runtime::shard_to_write>)>
      write_shard = runtime::write_shard_file;

  /// The loader, keeper, checkpointer and monitor block, so each has its own thread. False: all
  /// actors run on one thread.
  bool own_threads = true;
  /// With recovery on, lanes and actors report progress to the failure detector, and a reaper
  /// thread joins ended lanes. False: one actor runs alone.
  bool watches_lanes = true;

  /// Also receives each record that a monitor writes to its logs.
  std::function<void(const runtime::watched&)> record = [](const runtime::watched&) {};
};

}  // namespace troupe::actors
