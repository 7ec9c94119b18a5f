// Reports to the failure detector what the supervisor waits for, and handles hung members.

#include "actors/host/neighbours.hpp"
#include "actors/node/hang_watch.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors {
namespace {

template <class Handle>
caf::actor_addr address_of(const Handle& x) {
  return x ? x.address() : caf::actor_addr();
}

}  // namespace

// CAF does not report an actor that hangs in a handler, because it does not end.
void supervisor_state::receive(const messages::taken_for_dead& x) {
  caf::actor_addr who;
  const auto by = caf::actor_cast<caf::actor_addr>(self_->current_sender());
  const auto tells
      = [&](int process) { return processes_.size() == 1 || address_of(node_in(process)) == by; };
  if (x.who == everything)
    return hear_of_stillness(x);
  if (const auto to = control_connection_named(x.who)) {
    auto now = x;
    now.generation = generation();  // its node may not have been told of it yet
    for (int p = 0; p < int(processes_.size()) && processes_.size() > 1; ++p)
      if (address_of(node_in(p)) == by)
        return lose_connection(now, p, *to, "control");
    if (by == address_of(node_))
      runtime::log_warning(
          "the control connection of the supervisor's process to process {} broke: {}",
          to->process,
          x.why);
    return;
  }
  if (const auto to = connection_named(x.who)) {
    for (int p = 0; p < int(processes_.size()) && processes_.size() > 1; ++p)
      if (address_of(node_in(p)) == by)
        return lose_connection(x, p, *to, "data");
    if (by == address_of(node_))
      runtime::log_warning(
          "the data connection of the supervisor's process to process {} broke: {}",
          to->process,
          x.why);
    return;
  }
  for (int p = 0; p < int(processes_.size()); ++p) {
    const auto& at = processes_[std::size_t(p)];
    if (x.who == "loader" && tells(host_of(p)))
      who = address_of(at.loader);
    if (x.who == "keeper" && at.keeper && tells(at.kept_in))
      who = address_of(at.keeper);
    if (x.who == "shard_writer" && at.writer && tells(host_of(p)))
      who = address_of(at.writer);
  }
  if (x.who == "checkpointer")
    who = address_of(checkpointer_);
  else if (x.who == "monitor")
    who = address_of(monitor_);
  for (std::size_t r = 0; r < replicas_.size() && x.generation == generation(); ++r)
    if (replicas_[r] && x.who == fmt::format("replica:{}", r))
      who = replicas_[r].address();
  if (who)
    lose(caf::down_msg{who, messages::make_error(messages::ec::protocol_violated, x.why)});
}

std::vector<std::string> supervisor_state::keepers_waited_for() const {
  std::vector<std::string> out;
  for (int p = 0; p < int(processes_.size()); ++p)
    if (const auto found = kept_by_.find(p);
        found == kept_by_.end() || value(found->second.step) < at_.iteration)
      out.push_back(fmt::format("keeper:{}", p));
  return out;
}

runtime::lane_board::place::waiting supervisor_state::waits_for() const {
  runtime::lane_board::place::waiting out{.step = at_.iteration + 1};
  const auto replicas = [&](const char* what, const auto& is_here) {
    out.what.what = what;
    for (int r = 0; r < job_->replicas(); ++r)
      if (!is_here(r))
        out.what.whom.push_back(fmt::format("replica:{}", r));
  };
  const auto has = [](const auto& reports) {
    return [&reports](int r) {
      return std::any_of(
          reports.begin(), reports.end(), [r](const auto& x) { return x.replica == r; });
    };
  };
  if (members_->now() == membership::phase::ending)
    out.what = {"the end of a generation", {"node"}};
  else if (members_->now() == membership::phase::forming)
    replicas("ranks that are built", [](int) { return false; });
  else if (waits_to_decide_)
    out.what = {"a state that is kept", keepers_waited_for()};
  else if (now_ && decided_)
    replicas("the updated state", has(applied_));
  else if (now_)
    replicas("a vote", has(votes_));
  else if (abandoning_ || saves_.is_writing())
    out.what = {"a checkpoint", {"checkpointer"}};
  else if (concluding_)
    out.what = {"the last lines", {"monitor"}};
  return out;
}

std::unique_ptr<runtime::lane_board::place::at_message> supervisor_state::take_turn(
    const char* what) const {
  if (!place_)
    return nullptr;
  return std::make_unique<runtime::lane_board::place::at_message>(*place_, what, 0, clock_ns());
}

void supervisor_state::take_place() {
  if (job_->job.recovery.on && context_->env.watches_lanes)
    place_
        = context_->lanes->add({.who = "supervisor", .actor = self_->id(), .shares_thread = true});
}

}  // namespace troupe::actors
