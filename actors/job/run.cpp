#include "actors/job/run.hpp"

#include "actors/job/front.hpp"
#include "messages/core/error.hpp"
#include "messages/core/type_ids.hpp"
#include "runtime/core/log.hpp"
#include "runtime/trainer/device_setup.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <fmt/format.h>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace troupe::actors {
namespace {

/// Whoever hangs in a handler holds a thread: where it is replaced, there are some to spare. Idle
/// ones sleep.
constexpr int actor_threads = 2, spare_threads = 2;

struct configuration : caf::actor_system_config {
  explicit configuration(bool recovers) {
    add_message_types<caf::id_block::troupe_messages>();
    // Sharing: idle workers sleep on a condition instead of polling (docs/decisions/0002-caf.md).
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", actor_threads + (recovers ? spare_threads : 0));
    set("logger.verbosity", caf::atom("quiet"));
  }
};

/// Viewers may ask before the front that they ask is known.
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
    if (by_)
      by_(why);
    else
      asked_ = why;
  }

 private:
  std::mutex mutex_;
  drain_request by_;
  std::optional<std::string> asked_;
};
}  // namespace

namespace {

/// Whether all actors have ended: of those that were left behind, as they hang, within so long.
bool all_done(caf::actor_system& system,
              const node_context& context,
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

outcome outcome_of(const caf::error& reason) {
  if (!reason)
    return {};
  return {is(reason, messages::ec::refused) ? 2 : 3, messages::text_of(reason)};
}

outcome run(const std::shared_ptr<const prepared_job>& job,
            const std::function<void(const drain_request&)>& started,
            const std::vector<make_viewer>& viewers) {
  const auto context = std::make_shared<node_context>(*job->node);
  auto description = job->description;
  for (const auto& viewer : viewers) {
    description.viewers.push_back(fmt::format("viewer {}", description.viewers.size() + 1));
    context->viewers.emplace(description.viewers.back(), viewer);
  }
  const auto& recovery = job->opened().job.recovery;
  struct home {
    configuration config;
    caf::actor_system system;
    explicit home(bool recovers) : config(recovers), system(config) {}
  };
  auto here = std::make_unique<home>(recovery.on);
  auto& system = here->system;
  const auto ended = std::make_shared<std::promise<outcome>>();
  const auto tell = [ended, once = std::make_shared<std::once_flag>()](const outcome& x) {
    std::call_once(*once, [&] { ended->set_value(x); });
  };
  const auto ask = std::make_shared<later_drain>();
  context->drain = [ask](const std::string& why) { ask->ask(why); };
  const std::shared_ptr<const node_context> shared = context;
  // Held until the end: CAF ends an actor that nobody refers to.
  const auto root = system.spawn(front, description, shared, tell);
  root->attach_functor([tell](const caf::error& reason) { tell(outcome_of(reason)); });
  ask->set(drain_by(root, context->messages));
  if (started)
    started(context->drain);
  auto result = ended->get_future().get();
  context->faults->release();
  const auto patience = std::chrono::milliseconds(std::int64_t(recovery.suspicion * 1e3));
  if (!all_done(system, *context, patience)) {
    result.left_behind = true;
    runtime::log_warning("an actor hangs: the process ends without it");
    [[maybe_unused]] const auto* const abandoned = here.release();  // its threads still use it
    return result;
  }
  // Without recovery nobody was left behind: what had begun ends by itself.
  if (!recovery.on)
    context->reaper->wait();
  else if (!context->reaper->wait(patience)) {
    result.left_behind = true;
    runtime::log_warning("a lane has not ended: the process ends without it");
  }
  for (const auto& death : context->faults->deaths_to_come())
    runtime::log_warning("the death planted for {} never came", death);
  runtime::keep_product_choices(job->opened().job);  // of what came after the last update, too
  if (context->messages->count() > 0)
    runtime::log_info(" {} messages went through bytes and came back equal",
                      context->messages->count());
  return result;
}

}  // namespace troupe::actors
