// Handles reports of the failure detector: hung members, broken connections, stalled runs.

#include "actors/host/neighbours.hpp"
#include "actors/node/hang_watch.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/system_messages.hpp>

#include <fmt/format.h>

namespace troupe::actors {
namespace {

template <class Handle>
caf::actor_addr address_of(const Handle& x) {
  return x ? x.address() : caf::actor_addr();
}

}  // namespace

// CAF does not report an actor that hangs in a handler, because it does not end.
void recoverer::receive(const messages::taken_for_dead& x) {
  caf::actor_addr who;
  const auto by = caf::actor_cast<caf::actor_addr>(run_.self->current_sender());
  const auto tells = [&](int process) {
    return run_.processes() == 1 || address_of(roster_.node_in(process)) == by;
  };
  if (x.who == everything)
    return hear_of_stillness(x);
  if (const auto to = control_connection_named(x.who)) {
    auto now = x;
    now.generation = run_.generation();  // its node may not have been told of it yet
    for (int p = 0; p < run_.processes() && run_.processes() > 1; ++p)
      if (address_of(roster_.node_in(p)) == by)
        return lose_connection(now, p, *to, "control");
    if (by == address_of(run_.node))
      runtime::log_warning(
          "the control connection of the supervisor's process to process {} broke: {}",
          to->process,
          x.why);
    return;
  }
  if (const auto to = connection_named(x.who)) {
    for (int p = 0; p < run_.processes() && run_.processes() > 1; ++p)
      if (address_of(roster_.node_in(p)) == by)
        return lose_connection(x, p, *to, "data");
    if (by == address_of(run_.node))
      runtime::log_warning(
          "the data connection of the supervisor's process to process {} broke: {}",
          to->process,
          x.why);
    return;
  }
  for (int p = 0; p < run_.processes(); ++p) {
    const auto& at = roster_.process(p);
    if (x.who == "loader" && tells(run_.host_of(p)))
      who = address_of(at.loader);
    if (x.who == "keeper" && at.keeper && tells(at.kept_in))
      who = address_of(at.keeper);
    if (x.who == "shard_writer" && at.writer && tells(run_.host_of(p)))
      who = address_of(at.writer);
  }
  if (x.who == "checkpointer")
    who = address_of(roster_.checkpointer());
  else if (x.who == "monitor")
    who = address_of(roster_.monitor());
  for (int r = 0; r < run_.job->replicas() && x.generation == run_.generation(); ++r)
    if (const auto replica = roster_.replica(r); replica && x.who == fmt::format("replica:{}", r))
      who = replica.address();
  if (who)
    lose(caf::down_msg{who, messages::make_error(messages::ec::protocol_violated, x.why)});
}

}  // namespace troupe::actors
