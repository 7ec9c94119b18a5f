// Carries out the orders of the membership.

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

void supervisor_state::carry_out(membership::orders orders) {
  for (const auto& restart : members_->take_restarts())
    pen()->add(restart);
  if (members_->now() == membership::phase::ending && !orders.empty()) {
    if (gives_up_)
      return end(2, diagnosis_);  // the save is lost with the dead member
    forget_step();
    abandon_save();
  }
  for (const auto& one : orders)
    std::visit([this](const auto& x) { carry_out(x); }, one);
}

// Discards the running step.
void supervisor_state::forget_step() {
  begun_ = false;
  ready_ = 0;
  decided_ = false;
  waits_to_decide_ = waits_to_finish_ = false;
  kept_by_.clear();
  told_to_store_ = 0;
  forming_.reset();
  now_.reset();
  votes_.clear();
  applied_.clear();
  executed_.clear();
  evaluation_ = {};
  validated_ = std::max(validated_told_, context_->ledger->newest_validated());
  tested_ = context_->ledger->is_tested();
  concluding_ = false;
  replicas_.clear();
  std::erase_if(watched_, [](const auto& x) { return x.where.role == member_role::rank; });
}

void supervisor_state::carry_out(const order_end& x) {
  const auto incarnation = members_->incarnation(x.process);
  const auto& node = host_of(x.process) == home ? node_ : processes_[std::size_t(x.process)].node;
  context_->messages
      ->request(self_, node, caf::infinite, messages::end_generation{x.last, told_, x.broken_with})
      .then(
          [this, p = x.process, incarnation](const messages::generation_ended& gone) {
            const auto turn = take_turn("generation_ended");
            if (members_->incarnation(p) != incarnation)
              return;  // MEMBER-2
            for (const auto& who : gone.hung)
              runtime::log_warning(
                  "{} did not end in time (`recovery.suspicion` {} s) and is left behind; its "
                  "successor works on a copy of its state",
                  who,
                  job_->job.recovery.suspicion);
            const auto ranks = job_->placed();
            generation_remains remains;
            // A rank that never stood has no state to go back to.
            if (gone.has_state && gone.ranks == ranks.end_of(p) - ranks.first_of(p)) {
              remains.oldest = gone.oldest;
              remains.newest = gone.newest;
            }
            remains.kept = gone.kept;
            members_->saved(context_->ledger->newest_saved());
            loss_.released_ns = clock_ns();
            carry_out(members_->ended(gone.last, p, std::move(remains), clock_ns()));
          },
          [this](const caf::error& reason) {
            const auto turn = take_turn("error");
            refuse(reason);
          });
}

// The save can no longer complete. Complete parts are written and reported before the answer.
void supervisor_state::abandon_save() {
  if (!saves_.is_writing() || !checkpointer_)
    return;
  abandoning_ = generation();
  context_->messages->send(self_, checkpointer_, messages::abandon{generation()});
}

void supervisor_state::receive(const messages::abandoned& x) {
  if (abandoning_ != x.generation)
    return;  // answer to an earlier death
  abandoning_.reset();
  if (saves_.is_writing())
    show_save("failed", saving_, "a rank or the checkpointer died");
  saves_.abandon();
  begin_when_ready();
}

std::optional<runtime::training_position> supervisor_state::position(std::uint64_t step) const {
  if (at_.iteration == step)
    return at_;
  return before_ && before_->iteration == step ? before_ : context_->ledger->position(step);
}

void supervisor_state::carry_out(const order_form& x) {
  show(loss_.began_ns == 0 ? "starting" : "recovering");
  show_stages("starting");
  const auto at = position(value(x.step()));
  if (!at)
    throw runtime::broken_promise("MEMBER-3: the run goes back to a step whose position is known");
  at_ = *at;
  before_.reset();
  forming_ = x;
  kept_by_.clear();
  told_to_store_ = 0;
  ready_ = 0;
  loss_.transfer = 0;
  ranks_asked_for_ = false;
  replicas_.resize(std::size_t(job_->replicas()));
  spawn_services();
  spawn_ranks_if_served();
}

// Ignores other errors: a node that dies or ends reports the reason by its own end.
void supervisor_state::refuse(const caf::error& reason) {
  if (is(reason, messages::ec::refused) || is(reason, messages::ec::protocol_violated))
    end(is(reason, messages::ec::refused) ? 2 : 3, messages::text_of(reason));
}

void supervisor_state::receive(const messages::ready& x) {
  if (x.generation != generation() || members_->now() != membership::phase::forming)
    return;
  loss_.transfer = std::max(loss_.transfer, x.transfer);
  if (++ready_ == job_->replicas())
    members_->ready(generation());
  begin_when_ready();
}

void supervisor_state::begin_when_ready() {
  if (!expected_.empty() || abandoning_ || members_->now() != membership::phase::running
      || std::exchange(begun_, true))
    return;
  if (processes_.size() == 1)
    context_->messages->send(self_, node_, messages::all_restored{generation()});
  else
    for (const auto& x : processes_)
      context_->messages->send(self_, x.node, messages::all_restored{generation()});
  tell_of_services();
  show_stages("running");
  tell_restart();
  proceed();
}

void supervisor_state::tell_restart() {
  if (loss_.began_ns == 0)
    return;
  const auto seconds = [this](std::uint64_t until) {
    return double(std::max(until, loss_.began_ns) - loss_.began_ns) / 1e9;
  };
  const auto now = clock_ns();
  // A cold start from a checkpoint counts as disk.
  const bool from_checkpoint
      = is_cold_ && forming_->tier() == runtime::state_tier::start && told_.iteration > 0;
  const auto formed = seconds(std::max(loss_.released_ns, loss_.stands_ns));
  runtime::run_event event{
      .iteration = context_->ledger->newest(),
      .kind = loss_.cause.moves        ? "move"
              : loss_.cause.runs_again ? "rerun"
                                       : "restart",
      .who = loss_.cause.who,
      .why = loss_.cause.why,
      .from = std::string(name_of(from_checkpoint ? runtime::state_tier::disk : forming_->tier())),
      .resumed = value(forming_->step()),
      .generation = value(generation()),
      .seconds = seconds(now),
      .news_ns = loss_.began_ns,
      .release = seconds(loss_.released_ns),
      .respawn = seconds(loss_.stands_ns),
      .transfer = loss_.transfer,
      .rebuild = std::max(0.0, seconds(now) - formed - loss_.transfer),
      .verdict = loss_.cause.wrong_bits ? "wrong bits" : ""};
  loss_ = {};
  tell(event);
}

void supervisor_state::carry_out(const order_forgo&) {
  monitor_ = nullptr;
  without_monitor_ = true;
  runtime::log_warning(
      "the monitor died repeatedly: the run continues without console lines and logs");
  if (concluding_)
    shut_down();
}

void supervisor_state::carry_out(const order_stop& x) {
  if (x.ranks_stand && begun_ && gives_up_)
    return;  // the loader of another process with the same data
  if (x.ranks_stand && begun_ && diagnosis_.empty())
    return give_up(x.why);
  end(x.refused || gives_up_ ? 2 : 3, diagnosis_.empty() ? x.why : diagnosis_);
}

// Ranks may wait for each other in the abandoned step, so they get no new requests. They do carry
// out a decided step.
void supervisor_state::give_up(const std::string& why) {
  diagnosis_ = why;
  gives_up_ = true;
  waits_to_decide_ = waits_to_finish_ = false;
  if (!decided_) {
    now_.reset();
    votes_.clear();
  }
  proceed();
}

void supervisor_state::end(int exit_code, const std::string& why) {
  show("ending");
  members_->close();
  if (front_)
    context_->messages->send_at_once(self_, front_, messages::job_over{exit_code, why});
  end_processes();
  self_->quit(messages::make_error(
      exit_code == 2 ? messages::ec::refused : messages::ec::protocol_violated, why));
}

void supervisor_state::suspect(const std::string& why) {
  const member_death x{.generation = generation(),
                       .role = member_role::rank,
                       .who = "replicas",
                       .cause = death_cause::own,
                       .why = "supervisor: " + why};
  note_loss(x);
  carry_out(members_->lost(x, clock_ns()));
}

void supervisor_state::run_again(const std::string& why) {
  const member_death x{.generation = generation(),
                       .role = member_role::rank,
                       .who = fmt::format("step {}", value(now_->step)),
                       .cause = death_cause::own,
                       .why = why,
                       .runs_again = true};
  note_loss(x);
  carry_out(members_->lost(x, clock_ns()));
}

void supervisor_state::note_loss(const member_death& death) {
  if (loss_.began_ns == 0)
    loss_.began_ns = clock_ns();
  loss_.cause = death;
}

/// Handles the end of nodes and viewers, which are not members. Returns whether it was one.
bool supervisor_state::lose_known(const caf::down_msg& x) {
  if (x.source == node_address_) {
    if (shut_down_)
      self_->quit();
    else
      self_->quit(diagnosis_.empty() ? because_of("node", x.reason)
                                     : messages::make_error(messages::ec::refused, diagnosis_));
    return true;
  }
  for (const auto& viewer : viewers_)
    if (viewer.address() == x.source) {
      runtime::log_warning("a viewer has ended ({}); the job continues without it",
                           messages::text_of(x.reason));
      return true;
    }
  for (int p = 0; p < int(processes_.size()); ++p)
    if (const auto& node = processes_[std::size_t(p)].node; node && node.address() == x.source) {
      lose_node(p, x.reason);
      return true;
    }
  return false;
}

// The name in a dead actor's own reason is used: it carries the first cause.
void supervisor_state::lose(const caf::down_msg& x) {
  if (lose_known(x))
    return;
  const auto who = std::find_if(watched_.begin(), watched_.end(), [&](const watched_actor& a) {
    return a.address == x.source;
  });
  if (who == watched_.end() || shut_down_)
    return;
  const auto where = who->where;
  // The whole process is unreachable.
  if (where.lives_in != home && x.reason == caf::exit_reason::remote_link_unreachable)
    return lose_node(where.lives_in, x.reason);
  // When a peer reports another process's end, that process's host is about to report the cause.
  if (!job_->job.recovery.on && processes_.size() > 1 && cause_of(x.reason) == death_cause::peer) {
    if (awaits_cause_.insert(x.source).second) {
      caf::delayed_anon_send(
          caf::actor_cast<caf::actor>(self_), patience_with_causes(), caf::down_msg(x));
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
  watched_.erase(who);
  show_member(where, "dead", death.why);
  const auto before = members_->now();
  auto orders = members_->lost(death, clock_ns());
  if (before != membership::phase::ending && death.role == member_role::rank && !orders.empty())
    note_loss(death);
  if (members_->cause() && members_->cause()->why != loss_.cause.why)
    loss_.cause = *members_->cause();
  if (death.role != member_role::rank && death.cause != death_cause::cancelled && !orders.empty()
      && job_->job.recovery.on && !std::holds_alternative<order_stop>(orders.front()))
    tell({.iteration = context_->ledger->newest(),
          .kind = std::holds_alternative<order_forgo>(orders.front()) ? "given up" : "replaced",
          .who = death.who,
          .why = death.why});
  carry_out(std::move(orders));
}

}  // namespace troupe::actors
