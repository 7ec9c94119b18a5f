#include "actors/job/run.hpp"

#include "actors/faults/fault_injector.hpp"
#include "actors/job/ending.hpp"
#include "actors/job/front.hpp"
#include "actors/process/control_plane.hpp"
#include "actors/process/launch_sites.hpp"
#include "actors/process/launcher.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

namespace troupe::actors {
namespace {

/// Passes requests for an early end to the front; viewers may make them before the front exists.
class later_drain {
 public:
  void set(drain_request by) {
    const std::lock_guard lock(mutex_);
    by_ = std::move(by);
    if (asked_)
      by_(*asked_);
  }
  void ask(const std::string& why) {
    const std::lock_guard lock(mutex_);
    asked_ = why;
    if (by_)
      by_(why);
  }

 private:
  std::mutex mutex_;
  drain_request by_;
  std::optional<std::string> asked_;
};

using standing_nodes = std::vector<messages::standing_node_actor>;

/// Connects with the standing nodes. Empty if an early end was requested meanwhile. At the start of
/// a run, throws input_error when a node cannot be used; a continued run ignores missing nodes.
/// After an error or an early end, a thread still uses the actor system.
std::optional<standing_nodes> connect_unless_asked(caf::actor_system& system,
                                                   const std::vector<standing_node_address>& nodes,
                                                   bool goes_on,
                                                   double suspicion,
                                                   later_drain& ask) {
  if (nodes.empty())
    return standing_nodes();
  struct answer {
    std::promise<std::optional<standing_nodes>> promise;
    std::once_flag once;
  };
  const auto first = std::make_shared<answer>();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(suspicion));
  runtime::start_thread("connect", [first, &system, nodes, goes_on, patience] {
    try {
      auto found = goes_on ? connect_with_those_there(system, nodes, patience)
                           : connect_with(system, nodes, patience);
      std::call_once(first->once, [&] { first->promise.set_value(std::move(found)); });
    } catch (...) {
      std::call_once(first->once, [&] { first->promise.set_exception(std::current_exception()); });
    }
  }).detach();
  // A successor handles early requests in order, because it has a state to save.
  if (!goes_on)
    ask.set([first](const std::string& why) {
      std::call_once(first->once, [&] {
        runtime::log_info(" {}: stopped before the first iteration; nothing was trained or saved",
                          why);
        first->promise.set_value(std::nullopt);
      });
    });
  return first->promise.get_future().get();
}

/// Adds a launcher, and this process's data planes.
void add_launcher(caf::actor_system& system,
                  const messages::job_description& told,
                  const std::shared_ptr<node_context>& context,
                  const launch_settings& processes,
                  std::vector<messages::standing_node_actor> standing) {
  const double suspicion = context->jobs->open(told)->job.recovery.suspicion;
  add_data_planes(*context,
                  {.process = -1, .incarnation = processes.incarnation},
                  {.address = processes.address,
                   .secret = secret_of(processes.run),
                   .run_id = runtime::run_folder::open(processes.run).record().id,
                   .suspicion = suspicion},
                  false);
  const std::shared_ptr<const node_context> shared = context;
  // Not detached: the actor system would wait for their threads, and CAF's broker may hold the
  // actors until it ends.
  context->agent = system.spawn(launcher, processes, told, shared, std::move(standing));
}

}  // namespace

outcome outcome_of(const caf::error& reason) {
  if (!reason)
    return {};
  return {is(reason, messages::ec::refused) ? 2 : 3, messages::text_of(reason)};
}

int exit_code_of(const std::exception& failure) {
  const bool users = dynamic_cast<const runtime::error*>(&failure) != nullptr
                     || dynamic_cast<const kernels::backend_missing*>(&failure) != nullptr
                     || dynamic_cast<const std::system_error*>(&failure) != nullptr
                     || dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  return users ? 2 : 3;
}

outcome run(const std::shared_ptr<const prepared_job>& job,
            const std::function<void(const drain_request&)>& started,
            const std::vector<make_viewer>& viewers,
            const std::optional<launch_settings>& processes) {
  const auto context = std::make_shared<node_context>(*job->node);
  auto description = job->description;
  for (const auto& viewer : viewers) {
    description.viewers.push_back(fmt::format("viewer {}", description.viewers.size() + 1));
    context->viewers.emplace(description.viewers.back(), viewer);
  }
  const auto& recovery = job->opened().job.recovery;
  const bool alone = job->opened().job.layout.processes == 1;
  if (!alone && !processes)
    throw runtime::input_error(
        "`layout.processes` is {}, but this program does not say how to start processes: make an "
        "own_program (actors/job/own_program.hpp) at the top of `main` and give it to "
        "`run`, or set `layout.processes` 1",
        job->opened().job.layout.processes);
  std::optional<control_settings> control;
  if (!alone)
    control = control_settings{runtime::run_folder::open(processes->run).credentials(),
                               recovery.suspicion,
                               processes->insecure};
  struct home {
    std::unique_ptr<caf::actor_system_config> config;
    caf::actor_system system;
    explicit home(std::unique_ptr<caf::actor_system_config> by)
        : config(std::move(by)), system(*config) {}
  };
  auto here = std::make_unique<home>(make_configuration(spare_threads(recovery), control));
  auto& system = here->system;
  const auto ask = std::make_shared<later_drain>();
  context->drain = [ask](const std::string& why) { ask->ask(why); };
  if (started)
    started(context->drain);
  const bool goes_on = processes && processes->incarnation > 1;
  std::optional<standing_nodes> standing = standing_nodes();
  outcome unconnected{.left_behind = true};
  try {
    if (!alone)
      standing
          = connect_unless_asked(system, processes->standing, goes_on, recovery.suspicion, *ask);
  } catch (const runtime::input_error& failure) {
    standing.reset();
    unconnected.exit_code = 2;
    unconnected.reason = failure.what();
  }
  if (!standing) {
    // CAF may still wait for a silent peer, and the actor system's destructor would wait for CAF.
    [[maybe_unused]] const auto* const abandoned = here.release();
    return unconnected;
  }
  const auto ended = std::make_shared<std::promise<outcome>>();
  const auto tell = [ended, once = std::make_shared<std::once_flag>()](const outcome& x) {
    std::call_once(*once, [&] { ended->set_value(x); });
  };
  if (!alone)
    add_launcher(system, description, context, *processes, *std::move(standing));
  const std::shared_ptr<const node_context> shared = context;
  // Kept until the end: CAF ends an actor without references.
  const auto root = system.spawn(
      front,
      description,
      shared,
      tell,
      goes_on ? std::optional(lost_process{runtime::owner_gone_ns()}) : std::nullopt);
  root->attach_functor([tell](const caf::error& reason) { tell(outcome_of(reason)); });
  ask->set(drain_by(root, context->messages));
  auto result = ended->get_future().get();
  if (context->faults)
    context->faults->release();
  if (!have_all_ended(system, *context, recovery)) {
    result.left_behind = true;
    [[maybe_unused]] const auto* const abandoned = here.release();  // hung threads still use it
    return result;
  }
  if (!alone)
    unpublish(context->agent);
  context->agent = nullptr;      // the actor system waits for references to detached actors
  if (alone && context->faults)  // otherwise the deaths were planted in other processes
    for (const auto& death : context->faults->deaths_to_come())
      runtime::log_warning("the planted death {} did not strike during the run", death);
  runtime::keep_product_choices(job->opened().job);  // also the choices made after the last update
  if (context->messages->count() > 0)
    runtime::log_info(" {} messages were serialized and decoded without a difference",
                      context->messages->count());
  return result;
}

}  // namespace troupe::actors
