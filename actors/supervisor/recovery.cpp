// Who is in: the orders of the membership, carried out.

#include "actors/supervisor/supervisor.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
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
    case runtime::state_tier::disk:
      return "disk";
    default:
      return "start";
  }
}

}  // namespace

void supervisor_state::carry_out(membership::orders orders) {
  for (const auto& restart : members_->take_restarts())
    context_->ledger->add(restart);
  for (const auto& one : orders)
    std::visit([this](const auto& x) { carry_out(x); }, one);
}

// Nothing of the step that was running counts any more.
void supervisor_state::forget_step() {
  begun_ = false;
  ready_ = 0;
  decided_ = false;
  now_.reset();
  votes_.clear();
  applied_.clear();
  executed_.clear();
  evaluation_ = {};
  validated_ = std::max(validated_told_, context_->ledger->newest_validated());
  tested_ = context_->ledger->is_tested();
  concluding_ = false;
  replicas_.clear();
  if (context_->bug != planted_bug::accept_late_death)
    std::erase_if(watched_, [](const auto& x) { return x.role == member_role::rank; });
}

void supervisor_state::carry_out(const order_end& x) {
  forget_step();
  abandon_save();
  context_->messages->request(self_, node_, caf::infinite, messages::end_generation{x.last, told_})
      .then(
          [this](const messages::generation_ended& gone) {
            const auto turn = take_turn("generation_ended");
            for (const auto& who : gone.hung)
              runtime::log_warning(
                  "{} did not end in time (`recovery.suspicion` {} s) and is left behind; its "
                  "successor works on a copy of its state",
                  who,
                  job_->job.recovery.suspicion);
            generation_remains remains;
            // A rank that never stood has no state to go back to.
            if (gone.has_state && gone.ranks == job_->mesh.size()) {
              remains.oldest = gone.oldest;
              remains.newest = gone.newest;
            }
            carry_out(members_->ended(
                gone.last, {remains}, context_->ledger->newest_saved(), clock_ns()));
          },
          [this](const caf::error& reason) {
            const auto turn = take_turn("error");
            refuse(reason);
          });
}

// What a save waits for will not come; what is complete is written and told before the answer.
void supervisor_state::abandon_save() {
  if (!saves_.is_writing() || !checkpointer_)
    return;
  abandoning_ = generation();
  context_->messages->send(self_, checkpointer_, messages::abandon{generation()});
}

void supervisor_state::receive(const messages::abandoned& x) {
  if (abandoning_ != x.generation)
    return;  // of a death before the newest
  abandoning_.reset();
  saves_.abandon();
  begin_when_ready();
}

void supervisor_state::carry_out(const order_form& x) {
  const auto step = value(x.source.step);
  if (const auto at = context_->ledger->position(step))
    at_ = *at;
  else
    throw runtime::broken_promise("MEMBER-3: the run goes back to a step whose position is known");
  forming_ = x;
  ready_ = 0;
  ranks_asked_for_ = false;
  replicas_.resize(std::size_t(job_->replicas()));
  spawn_services();
  spawn_ranks_if_served();
}

// Replicas are told of the loader and the checkpointer.
void supervisor_state::spawn_ranks_if_served() {
  if (!forming_ || !loader_ || !checkpointer_ || ranks_asked_for_
      || members_->now() != membership::phase::forming)
    return;
  ranks_asked_for_ = true;
  told_loader_ = loader_;
  told_checkpointer_ = checkpointer_;
  spawn_replicas(forming_->source);
}

void supervisor_state::tell_of_services() {
  if (loader_ && told_loader_ != loader_)
    tell_replicas(messages::use_loader{generation(), told_loader_ = loader_});
  if (checkpointer_ && told_checkpointer_ != checkpointer_)
    tell_replicas(messages::use_checkpointer{generation(), told_checkpointer_ = checkpointer_});
}

void supervisor_state::spawn_services() {
  spawn_viewers();
  if (!monitor_ && !without_monitor_)
    spawn_monitor();
  if (!loader_)
    spawn_loader();
  if (!checkpointer_)
    spawn_checkpointer();
}

template <class Handle>
void supervisor_state::watch(const char* called, member_role role, const Handle& actor) {
  context_->messages->monitor(self_, actor);
  watched_.push_back({called, role, generation(), actor.address()});
}

// The node answers in the order in which it was asked.
template <class Answer, class Request, class Keep>
void supervisor_state::spawn(Request what, const char* called, member_role role, Keep keep) {
  ++expected_;
  context_->messages->request(self_, node_, caf::infinite, std::move(what))
      .then(
          [this, called, role, keep, of = what.generation](const Answer& x) {
            const auto turn = take_turn("spawned");
            --expected_;
            if (role == member_role::rank && of != generation())
              return;  // it has ended meanwhile, and whom it spawned ends with it
            watch(called, role, keep(x));
            begin_when_ready();
          },
          [this](const caf::error& reason) {
            const auto turn = take_turn("error");
            --expected_;
            refuse(reason);
          });
}

void supervisor_state::spawn_monitor() {
  spawn<messages::monitor_spawned>(
      messages::spawn_monitor{generation(), told_},
      "monitor",
      member_role::monitor,
      [this](const messages::monitor_spawned& x) {
        monitor_ = x.monitor;
        // Facts that the one before may not have written; known ones are ignored.
        for (auto& [number, fact] : context_->ledger->facts()) {
          const auto resend = [this, n = number](auto what) {
            what.fact = n;
            context_->messages->send_at_once(self_, monitor_, what);
          };
          if (const auto* a = std::get_if<runtime::step_report>(&fact))
            resend(messages::committed{*a, {}, 0});
          else if (const auto* b = std::get_if<runtime::validation_report>(&fact))
            resend(messages::validated{*b});
          else
            resend(messages::happened{std::get<runtime::run_event>(fact)});
        }
        if (concluding_) {
          concluding_ = false;
          finish();
        }
        return monitor_;
      });
}

void supervisor_state::spawn_loader() {
  spawn<messages::loader_spawned>(messages::spawn_loader{generation(), told_},
                                  "loader",
                                  member_role::loader,
                                  [this](const messages::loader_spawned& x) {
                                    loader_ = x.loader;
                                    spawn_ranks_if_served();
                                    if (begun_)
                                      tell_of_services();
                                    return loader_;
                                  });
}

void supervisor_state::spawn_checkpointer() {
  spawn<messages::checkpointer_spawned>(messages::spawn_checkpointer{generation(), told_, self_},
                                        "checkpointer",
                                        member_role::checkpointer,
                                        [this](const messages::checkpointer_spawned& x) {
                                          checkpointer_ = x.checkpointer;
                                          spawn_ranks_if_served();
                                          if (begun_) {
                                            tell_of_services();
                                            proceed();
                                          }
                                          return checkpointer_;
                                        });
}

// They watch, and end nothing: only their coming is waited for.
void supervisor_state::spawn_viewers() {
  if (!viewers_.empty())
    return;
  for (const auto& viewer : told_.viewers) {
    ++expected_;
    context_->messages
        ->request(
            self_, node_, caf::infinite, messages::spawn_viewer{generation(), told_, viewer, self_})
        .then(
            [this](const messages::viewer_spawned& x) {
              const auto turn = take_turn("viewer_spawned");
              self_->monitor(viewers_.emplace_back(x.viewer));
              --expected_;
              begin_when_ready();
            },
            [this](const caf::error& reason) {
              const auto turn = take_turn("error");
              --expected_;
              refuse(reason);
            });
  }
}

void supervisor_state::spawn_replicas(const runtime::state_source& source) {
  for (int r = 0; r < job_->replicas(); ++r)
    spawn<messages::replica_spawned>(
        messages::spawn_replica{.generation = generation(),
                                .job = told_,
                                .source = source,
                                .replica = r,
                                .pipeline_ranks = job_->pipeline_ranks(),
                                .tensor_ranks = job_->tensor_ranks(),
                                .node = node_,
                                .supervisor = self_,
                                .loader = loader_,
                                .checkpointer = checkpointer_},
        "replica",
        member_role::rank,
        [this, r](const messages::replica_spawned& x) {
          return replicas_[std::size_t(r)] = x.replica;
        });
}

// A node that is dead or ends tells why by its own end.
void supervisor_state::refuse(const caf::error& reason) {
  if (is(reason, messages::ec::refused) || is(reason, messages::ec::protocol_violated))
    end(is(reason, messages::ec::refused) ? 2 : 3, messages::text_of(reason));
}

void supervisor_state::receive(const messages::ready& x) {
  const bool ours = x.generation == generation() || context_->bug == planted_bug::count_old_ready;
  if (!ours || members_->now() != membership::phase::forming)
    return;
  if (++ready_ == job_->replicas())
    members_->ready(generation());
  begin_when_ready();
}

void supervisor_state::begin_when_ready() {
  if (expected_ > 0 || abandoning_ || members_->now() != membership::phase::running
      || std::exchange(begun_, true))
    return;
  come_to(runtime::moment_of_step::restore, at_.iteration + 1);
  context_->messages->send(self_, node_, messages::all_restored{generation()});
  tell_of_services();
  tell_restart();
  proceed();
}

void supervisor_state::tell_restart() {
  if (loss_.began_ns == 0)
    return;
  const auto& source = forming_->source;
  runtime::run_event event{.iteration = context_->ledger->newest(),
                           .kind = "restart",
                           .who = loss_.cause.who,
                           .why = loss_.cause.why,
                           .from = std::string(name_of(source.tier)),
                           .resumed = value(source.step),
                           .generation = value(generation()),
                           .seconds = double(clock_ns() - loss_.began_ns) / 1e9};
  loss_ = {};
  tell(event);
}

void supervisor_state::carry_out(const order_replace& x) {
  const auto now = members_->now();
  const bool at_once = now == membership::phase::running || now == membership::phase::forming;
  switch (x.role) {
    case member_role::monitor:
      monitor_ = nullptr;
      if (at_once)
        spawn_monitor();
      break;
    case member_role::loader:
      loader_ = nullptr;
      if (at_once)
        spawn_loader();
      break;
    case member_role::checkpointer:
      checkpointer_ = nullptr;
      saves_.abandon();
      abandoning_.reset();
      if (at_once)
        spawn_checkpointer();
      break;
    case member_role::rank:
      break;
  }
}

void supervisor_state::carry_out(const order_forgo&) {
  monitor_ = nullptr;
  without_monitor_ = true;
  runtime::log_warning(
      "the monitor has died again and again: the run goes on without console lines and logs");
  if (concluding_)
    shut_down();
}

void supervisor_state::carry_out(const order_stop& x) {
  end(x.refused ? 2 : 3, diagnosis_.empty() ? x.why : diagnosis_);
}

void supervisor_state::end(int exit_code, const std::string& why) {
  members_->close();
  if (front_)
    context_->messages->send_at_once(self_, front_, messages::job_over{exit_code, why});
  self_->quit(messages::make_error(
      exit_code == 2 ? messages::ec::refused : messages::ec::protocol_violated, why));
}

void supervisor_state::suspect(const std::string& why) {
  const member_death x{.generation = generation(),
                       .role = member_role::rank,
                       .who = "replicas",
                       .cause = death_cause::own,
                       .why = "supervisor: " + why};
  loss_ = {x, clock_ns()};
  carry_out(members_->lost(x, clock_ns()));
}

// A dead actor is named by its own reason: it carries the first cause.
void supervisor_state::lose(const caf::down_msg& x) {
  if (x.source == node_address_) {
    if (shut_down_)
      return self_->quit();
    if (context_->bug == planted_bug::two_supervisors)
      return;
    return self_->quit(diagnosis_.empty()
                           ? because_of("node", x.reason)
                           : messages::make_error(messages::ec::refused, diagnosis_));
  }
  for (const auto& viewer : viewers_)
    if (viewer.address() == x.source)
      return runtime::log_warning("a viewer has ended ({}); the job goes on without it",
                                  messages::text_of(x.reason));
  const auto who = std::find_if(watched_.begin(), watched_.end(), [&](const watched_actor& a) {
    return a.address == x.source;
  });
  if (who == watched_.end() || shut_down_)
    return;
  const bool known
      = is(x.reason, messages::ec::refused) || is(x.reason, messages::ec::protocol_violated);
  const member_death death{
      .generation
      = context_->bug == planted_bug::accept_late_death ? generation() : who->generation,
      .role = who->role,
      .who = who->name,
      .cause = cause_of(x.reason),
      .refused = is(x.reason, messages::ec::refused),
      .why = messages::text_of(known ? x.reason : because_of(who->name, x.reason))};
  watched_.erase(who);
  const auto before = members_->now();
  auto orders = members_->lost(death, clock_ns());
  if (before != membership::phase::ending && death.role == member_role::rank && !orders.empty())
    loss_ = {death, clock_ns()};
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
