// A node handles a hanging actor or lane.

#include "actors/host/neighbours.hpp"
#include "actors/node/hang_watch.hpp"
#include "actors/node/node.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

/// Splits "lane:0.1" into "lane" and "0.1".
std::pair<std::string, std::string> parts_of(const std::string& who) {
  const auto colon = who.find(':');
  return colon == std::string::npos ? std::pair(who, std::string())
                                    : std::pair(who.substr(0, colon), who.substr(colon + 1));
}

bool is_lane(const std::string& kind) {
  return kind == "lane" || kind == "wire" || kind == "saver";
}

void kill(const caf::actor& actor, const caf::error& reason) {
  caf::anon_send(actor, caf::exit_msg{actor.address(), reason});
}

}  // namespace

std::unique_ptr<runtime::lane_board::place::at_message> node_state::take_turn(
    const char* what) const {
  if (!place_)
    return nullptr;
  return std::make_unique<runtime::lane_board::place::at_message>(
      *place_,
      what,
      0,
      std::uint64_t(self_->home_system().clock().now().time_since_epoch().count()));
}

runtime::lane_board::place::waiting node_state::waits_for() const {
  if (!ending_)
    return branch_.waits_for();
  runtime::lane_board::place::waiting out;
  out.what.what = "the end of a generation";
  for (const auto& x : spawned_)
    if (ends_with(x, ending_->last))
      out.what.whom.push_back(x.name);
  return out;
}

// Bypasses the queue: the supervisor must receive this before a later answer to end_generation.
void node_state::tell_root(const messages::taken_for_dead& x) {
  if (root_)
    context_->messages->send_at_once(self_, caf::actor_cast<messages::supervisor_actor>(root_), x);
}

// A stage with a hanging lane ends by an exit message. A hanging actor does not receive exit
// messages, so this function reports its death.
void node_state::suspect(const messages::suspected& x) {
  const auto [kind, where] = parts_of(x.who);
  if (connection_named(x.who))  // the supervisor finds the cause
    return tell_root(messages::taken_for_dead{x.generation, x.who, x.why});
  if (x.who == everything || control_connection_named(x.who))
    return tell_root(messages::taken_for_dead{generation_, x.who, x.why});
  const auto owner = is_lane(kind) ? "stage:" + where : x.who;
  const auto found = [&](const std::string& name) {
    return std::find_if(spawned_.begin(), spawned_.end(), [&](const spawned_actor& one) {
      return one.name == name && one.generation == x.generation;
    });
  };
  const auto at = found(owner);
  if (at == spawned_.end())
    return runtime::log_warning("cannot replace {}: this node did not spawn it, or it has ended",
                                x.who);
  hung_.emplace(x.generation, kind == "stage" || is_lane(kind) ? "lane:" + where : x.who);
  const auto reason = messages::make_error(messages::ec::protocol_violated, owner + ": " + x.why);
  kill(at->actor, reason);
  if (is_lane(kind))
    return answer_if_ended();
  const auto gone = *at;
  spawned_.erase(at);
  gone.ends.cancel();
  if (closing_)
    return stop_next();
  if (gone.what == spawned_kind::rank && gone.generation == generation_)
    release_generation();
  if (kind == "stage") {
    const auto replica = "replica:" + where.substr(0, where.find('.'));
    if (const auto its = found(replica); its != spawned_.end())
      kill(its->actor, because_of(replica, reason));
    else  // the replica lives in another process
      tell_root(messages::taken_for_dead{
          gone.generation, replica, messages::text_of(because_of(replica, reason))});
  } else {
    tell_root(messages::taken_for_dead{gone.generation, owner, messages::text_of(reason)});
  }
  answer_if_ended();
}

}  // namespace troupe::actors
