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
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::actors {
namespace {

struct configuration : caf::actor_system_config {
  configuration() {
    add_message_types<caf::id_block::troupe_messages>();
    // Sharing: idle workers sleep on a condition instead of polling (docs/decisions/0002-caf.md).
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", 2);
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
  configuration config;
  caf::actor_system system(config);
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
  system.await_all_actors_done();
  const auto patience
      = std::chrono::milliseconds(std::int64_t(job->opened().job.recovery.suspicion * 1e3));
  // Without recovery nobody was left behind: what had begun ends by itself.
  if (!job->opened().job.recovery.on)
    context->reaper->wait();
  else if (!context->reaper->wait(patience)) {
    result.left_behind = true;
    runtime::log_warning("a lane has not ended: the process ends without it");
  }
  runtime::keep_product_choices(job->opened().job);  // of what came after the last update, too
  if (context->messages->count() > 0)
    runtime::log_info(" {} messages went through bytes and came back equal",
                      context->messages->count());
  return result;
}

}  // namespace troupe::actors
