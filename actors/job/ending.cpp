#include "actors/job/ending.hpp"

#include "runtime/core/log.hpp"

#include <caf/actor_system.hpp>

#include <chrono>
#include <thread>

namespace troupe::actors {
namespace {

/// Whether the actors have ended within the patience, when some were left behind.
bool have_actors_ended(caf::actor_system& system,
                       const stage_resources& context,
                       std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (context.lanes->left_behind() > 0 && system.registry().running() > 0) {
    if (std::chrono::steady_clock::now() >= until)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  system.await_all_actors_done();
  return true;
}

}  // namespace

bool have_all_ended(caf::actor_system& system,
                    const stage_resources& context,
                    const runtime::recovery_settings& recovery) {
  const auto patience = std::chrono::milliseconds(std::int64_t(recovery.suspicion * 1e3));
  if (!have_actors_ended(system, context, patience)) {
    runtime::log_warning("an actor hangs: the process ends without it");
    return false;
  }
  // Without recovery nothing is left behind: running lanes end by themselves.
  if (!recovery.on)
    context.reaper->wait();
  else if (!context.reaper->wait(patience)) {
    runtime::log_warning("a lane has not ended: the process ends without it");
    return false;
  }
  return true;
}

}  // namespace troupe::actors
