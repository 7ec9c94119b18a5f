#include "actors/job/run.hpp"

#include "actors/node/node.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "messages/core/error.hpp"
#include "messages/core/type_ids.hpp"
#include "runtime/core/log.hpp"
#include "runtime/trainer/device_setup.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <fmt/format.h>
#include <future>
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
  std::promise<outcome> ended;
  // Held until the end: CAF ends an actor that nobody refers to.
  const std::shared_ptr<const node_context> shared = context;
  const auto root = system.spawn(node, shared);
  const auto head = system.spawn(supervisor, root, description, shared);
  head->attach_functor([&ended](const caf::error& reason) { ended.set_value(outcome_of(reason)); });
  if (started)
    started(drain_by(head, context->messages));
  auto result = ended.get_future().get();
  system.await_all_actors_done();
  runtime::keep_product_choices(job->opened().job);  // of what came after the last update, too
  if (context->messages->count() > 0)
    runtime::log_info(" {} messages went through bytes and came back equal",
                      context->messages->count());
  return result;
}

}  // namespace troupe::actors
