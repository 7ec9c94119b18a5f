#include "actors/faults/inject.hpp"

#include "actors/faults/faulty_network.hpp"
#include "actors/faults/faulty_transport.hpp"
#include "actors/faults/faulty_worker.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::actors {
namespace {

/// Reason why the next work of a lane fails: a death at a moment of another lane or actor. Any
/// thread.
class doom {
 public:
  void set(const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_ = why;
  }
  void strike() const {
    const std::lock_guard lock(mutex_);
    if (!why_.empty())
      throw std::runtime_error(why_);
  }

 private:
  mutable std::mutex mutex_;
  std::string why_;  ///< empty: none
};

/// Maps "lane 0.1" to "lane:0.1" and "reduce 0.1" to "wire:0.1"; empty if no death can strike the
/// thread.
std::string name_of_lane(const std::string& thread) {
  const auto space = std::min(thread.find(' '), thread.size() - 1);
  const auto kind = thread.substr(0, space), rank = thread.substr(space + 1);
  return kind == "lane" ? "lane:" + rank : kind == "reduce" ? "wire:" + rank : "";
}

std::unique_ptr<runtime::lane> faulty_lane(const std::shared_ptr<const fault_injector>& faults,
                                           runtime::lane_settings settings,
                                           const decltype(environment::make_lane)& make) {
  const auto doomed = std::make_shared<doom>();
  if (const auto name = name_of_lane(settings.name); !name.empty())
    faults->enlist(name, [weak = std::weak_ptr(doomed)](const std::string& why) {
      if (const auto alive = weak.lock())
        alive->set(why);
    });
  settings.before_each = [faults, doomed, before = std::move(settings.before_each)] {
    faults->delay_lane();
    doomed->strike();
    if (before)
      before();
  };
  return make(std::move(settings));
}

}  // namespace

void inject(node_context& to, std::shared_ptr<const fault_injector> faults) {
  const auto network = std::make_shared<faulty_network>(faults, to.messages->network());
  const auto lanes = std::make_shared<working_lanes>();
  to.messages = std::make_shared<message_path>(to.messages->checks(), network);
  if (to.transport)
    to.transport = std::make_shared<faulty_transport>(to.transport, faults, lanes, network);
  auto& env = to.env;
  env.make_lane = [faults, make = std::move(env.make_lane)](runtime::lane_settings settings) {
    return faulty_lane(faults, std::move(settings), make);
  };
  env.make_worker = [faults, lanes](const worker_place& place,
                                    runtime::worker_settings settings,
                                    runtime::stream& by,
                                    const runtime::worker_groups& groups) {
    faults->pass("lane:" + place.rank, place.step + 1, runtime::moment_of_step::restore);
    return std::make_unique<faulty_worker>(faults, lanes, place, std::move(settings), by, groups);
  };
  env.write_shard = [network, write = std::move(env.write_shard)](
                        const std::filesystem::path& folder,
                        const std::string& file,
                        std::span<const runtime::shard_to_write> shards) {
    if (file.starts_with("optimizer"))
      network->come_between_files();
    return write(folder, file, shards);
  };
  to.faults = std::move(faults);
}

void inject(node_context& to, const runtime::fault_settings& x) {
  if (!x.fault.empty() || !x.death.empty() || x.lane_delay_us > 0 || x.message_delay_us > 0)
    inject(to, std::make_shared<fault_injector>(x));
}

}  // namespace troupe::actors
