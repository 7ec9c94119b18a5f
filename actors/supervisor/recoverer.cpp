// Deaths of actors, and the orders of the membership.

#include "actors/supervisor/supervisor.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

death_cause cause_of(const caf::error& reason) {
  if (is(reason, messages::ec::cancelled))
    return death_cause::cancelled;
  return is(reason, messages::ec::refused) || is(reason, messages::ec::protocol_violated)
             ? death_cause::own
             : death_cause::peer;
}

std::string_view name_of(runtime::state_tier x) {
  switch (x) {
    case runtime::state_tier::estate:
      return "estate";
    case runtime::state_tier::keeper:
      return "keeper";
    case runtime::state_tier::local:
      return "local disk";
    case runtime::state_tier::disk:
      return "disk";
    default:
      return "start";
  }
}

}  // namespace

void recoverer::begin(const succession& after) {
  run_.context->messages->monitor(run_.self, run_.node);
  node_address_ = run_.node.address();
  if (after.epoch > 0) {
    note_loss({.who = run_.is_cold ? "the run before" : "supervisor", .why = after.why});
    if (after.noticed_ns != 0)
      loss_.began_ns = after.noticed_ns;
  }
  if (run_.processes() > 1 && after.epoch > 0)
    end_services_before();
  else
    carry_out(run_.members.begin(run_.is_cold));
}

void recoverer::carry_out(const order_replace& x) {
  roster_.replace(x);
}

void recoverer::carry_out(membership::orders orders) {
  for (const auto& restart : run_.members.take_restarts())
    run_.pen()->add(restart);
  if (run_.members.now() == membership::phase::ending && !orders.empty()) {
    if (steps_.gives_up())
      return steps_.end(2, steps_.diagnosis());  // the save is lost with the dead member
    ready_ = 0;
    steps_.forget();
    saves_.forget_kept();
    roster_.forget_ranks();
    saves_.abandon();
  }
  for (const auto& one : orders)
    std::visit([this](const auto& x) { carry_out(x); }, one);
}

void recoverer::carry_out(const order_end& x) {
  const auto incarnation = run_.members.incarnation(x.process);
  const auto& node = roster_.node_in(run_.host_of(x.process));
  run_.request(node, messages::end_generation{x.last, run_.told, x.broken_with})
      .then(
          [this, p = x.process, incarnation](const messages::generation_ended& gone) {
            const auto turn = run_.take_turn("generation_ended");
            if (run_.members.incarnation(p) != incarnation)
              return;  // MEMBER-2
            for (const auto& who : gone.hung)
              runtime::log_warning(
                  "{} did not end in time (`recovery.suspicion` {} s) and is left behind; its "
                  "successor works on a copy of its state",
                  who,
                  run_.job->job.recovery.suspicion);
            generation_remains remains;
            // A rank that never stood has no state to go back to.
            if (gone.has_state && gone.ranks == int(run_.job->placed.ranks_of(p).size())) {
              remains.oldest = gone.oldest;
              remains.newest = gone.newest;
            }
            remains.kept = gone.kept;
            run_.members.saved(run_.context->ledger->newest_saved());
            loss_.released_ns = run_.clock_ns();
            carry_out(run_.members.ended(gone.last, p, std::move(remains), run_.clock_ns()));
          },
          [this](const caf::error& reason) {
            const auto turn = run_.take_turn("error");
            refuse(reason);
          });
}

std::optional<runtime::training_position> recoverer::position(std::uint64_t step) const {
  if (run_.at.iteration == step)
    return run_.at;
  return run_.before && run_.before->iteration == step ? run_.before
                                                       : run_.context->ledger->position(step);
}

void recoverer::carry_out(const order_form& x) {
  run_.show(loss_.began_ns == 0 ? "starting" : "recovering");
  run_.show_stages("starting");
  const auto at = position(value(x.step()));
  if (!at)
    throw runtime::broken_promise("MEMBER-3: the run goes back to a step whose position is known");
  run_.at = *at;
  run_.before.reset();
  saves_.forget_kept();
  ready_ = 0;
  loss_.transfer = 0;
  roster_.form(x);
}

// Ignores other errors: a node that dies or ends reports the reason by its own end.
void recoverer::refuse(const caf::error& reason) {
  if (is(reason, messages::ec::refused) || is(reason, messages::ec::protocol_violated))
    steps_.end(is(reason, messages::ec::refused) ? 2 : 3, messages::text_of(reason));
}

void recoverer::receive(const messages::ready& x) {
  if (x.generation != run_.generation() || run_.members.now() != membership::phase::forming)
    return;
  loss_.transfer = std::max(loss_.transfer, x.transfer);
  ready_ += x.replicas;
  if (ready_ == run_.job->replicas())
    run_.members.ready(run_.generation());
  begin_when_ready();
}

void recoverer::begin_when_ready() {
  if (roster_.pending_answers() > 0 || saves_.is_abandoning()
      || run_.members.now() != membership::phase::running || steps_.begun())
    return;
  steps_.begin();
  for (const auto& node : roster_.top_nodes())
    run_.send(node, messages::all_restored{run_.generation()});
  roster_.tell_of_services();
  run_.show_stages("running");
  tell_restart();
  steps_.proceed();
}

void recoverer::tell_restart() {
  if (loss_.began_ns == 0)
    return;
  const auto seconds = [this](std::uint64_t until) {
    return double(std::max(until, loss_.began_ns) - loss_.began_ns) / 1e9;
  };
  const auto now = run_.clock_ns();
  // A cold start from a checkpoint counts as disk.
  const bool from_checkpoint = run_.is_cold
                               && roster_.forming()->tier() == runtime::state_tier::start
                               && run_.told.iteration > 0;
  const auto formed = seconds(std::max(loss_.released_ns, loss_.stands_ns));
  runtime::run_event event{
      .iteration = run_.context->ledger->newest(),
      .kind = loss_.cause.moves        ? "move"
              : loss_.cause.runs_again ? "rerun"
                                       : "restart",
      .who = loss_.cause.who,
      .why = loss_.cause.why,
      .from = std::string(
          name_of(from_checkpoint ? runtime::state_tier::disk : roster_.forming()->tier())),
      .resumed = value(roster_.forming()->step()),
      .generation = value(run_.generation()),
      .seconds = seconds(now),
      .news_ns = loss_.began_ns,
      .release = seconds(loss_.released_ns),
      .respawn = seconds(loss_.stands_ns),
      .transfer = loss_.transfer,
      .rebuild = std::max(0.0, seconds(now) - formed - loss_.transfer),
      .verdict = loss_.cause.wrong_bits ? "wrong bits" : ""};
  loss_ = {};
  roster_.tell(event);
}

void recoverer::carry_out(const order_forgo&) {
  roster_.forgo_monitor();
  runtime::log_warning(
      "the monitor died repeatedly: the run continues without console lines and logs");
  if (steps_.is_concluding())
    steps_.shut_down();
}

void recoverer::carry_out(const order_stop& x) {
  if (x.ranks_stand && steps_.begun() && steps_.gives_up())
    return;  // the loader of another process with the same data
  if (x.ranks_stand && steps_.begun() && steps_.diagnosis().empty())
    return steps_.give_up(x.why);
  steps_.end(x.refused || steps_.gives_up() ? 2 : 3,
             steps_.diagnosis().empty() ? x.why : steps_.diagnosis());
}

void recoverer::suspect(const std::string& why) {
  const member_death x{.generation = run_.generation(),
                       .role = member_role::rank,
                       .who = "replicas",
                       .cause = death_cause::own,
                       .why = "supervisor: " + why};
  note_loss(x);
  carry_out(run_.members.lost(x, run_.clock_ns()));
}

void recoverer::run_again(const std::string& why) {
  const member_death x{.generation = run_.generation(),
                       .role = member_role::rank,
                       .who = fmt::format("step {}", steps_.running()),
                       .cause = death_cause::own,
                       .why = why,
                       .runs_again = true};
  note_loss(x);
  carry_out(run_.members.lost(x, run_.clock_ns()));
}

void recoverer::note_loss(const member_death& death) {
  if (loss_.began_ns == 0)
    loss_.began_ns = run_.clock_ns();
  loss_.cause = death;
}

/// Handles the end of nodes and viewers, which are not members. Returns whether it was one.
bool recoverer::lose_known(const caf::down_msg& x) {
  if (x.source == node_address_) {
    if (steps_.is_shut_down())
      run_.self->quit();
    else
      run_.self->quit(steps_.diagnosis().empty()
                          ? because_of("node", x.reason)
                          : messages::make_error(messages::ec::refused, steps_.diagnosis()));
    return true;
  }
  for (const auto& viewer : roster_.viewers())
    if (viewer.address() == x.source) {
      runtime::log_warning("a viewer has ended ({}); the job continues without it",
                           messages::text_of(x.reason));
      return true;
    }
  const auto process = roster_.process_of_node(x.source);
  if (process)
    lose_node(*process, x.reason);
  return process.has_value();
}

// The name in a dead actor's own reason is used: it carries the first cause.
void recoverer::lose(const caf::down_msg& x) {
  if (lose_known(x))
    return;
  const auto who = roster_.watched(x.source);
  if (!who || steps_.is_shut_down())
    return;
  const auto& where = who->where;
  // The whole process is unreachable.
  if (where.lives_in != home_process && x.reason == caf::exit_reason::remote_link_unreachable)
    return lose_node(where.lives_in, x.reason);
  // When a peer reports another process's end, that process's host is about to report the cause.
  if (!run_.job->job.recovery.on && run_.processes() > 1
      && cause_of(x.reason) == death_cause::peer) {
    if (awaits_cause_.insert(x.source).second) {
      caf::delayed_anon_send(
          caf::actor_cast<caf::actor>(run_.self), patience_with_causes(), caf::down_msg(x));
      return;
    }
    if (unreachable_)  // MEMBER-4: the effect was reported before the cause
      return receive(messages::process_died(*unreachable_));
  }
  const bool known
      = is(x.reason, messages::ec::refused) || is(x.reason, messages::ec::protocol_violated);
  const member_death death{
      .generation = who->generation,
      .role = where.role,
      .who = where.name,
      .cause = cause_of(x.reason),
      .refused = is(x.reason, messages::ec::refused),
      .why = messages::text_of(known ? x.reason : because_of(where.name, x.reason)),
      .process = where.serves};
  roster_.forget(x.source);
  run_.show_member(where, "dead", death.why);
  const auto before = run_.members.now();
  auto orders = run_.members.lost(death, run_.clock_ns());
  if (before != membership::phase::ending && death.role == member_role::rank && !orders.empty())
    note_loss(death);
  if (run_.members.cause() && run_.members.cause()->why != loss_.cause.why)
    loss_.cause = *run_.members.cause();
  if (death.role != member_role::rank && death.cause != death_cause::cancelled && !orders.empty()
      && run_.job->job.recovery.on && !std::holds_alternative<order_stop>(orders.front()))
    roster_.tell(
        {.iteration = run_.context->ledger->newest(),
         .kind = std::holds_alternative<order_forgo>(orders.front()) ? "given up" : "replaced",
         .who = death.who,
         .why = death.why});
  carry_out(std::move(orders));
}

}  // namespace troupe::actors
