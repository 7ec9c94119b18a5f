// Processes that host ranks: starts, losses, and the keepers of their states.

#include "actors/supervisor/supervisor.hpp"
#include "actors/support/guard.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/layout/process_map.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

std::string connection_gone(const std::string& who) {
  return who + ": its connection is gone";
}

}  // namespace

// This process has no ranks of its own; only actors of an earlier supervisor must end.
void supervisor_state::end_services_before() {
  context_->messages
      ->request(
          self_,
          node_,
          caf::infinite,
          messages::end_generation{runtime::make_generation(epoch_of(generation()), 0), told_})
      .then(
          [this](const messages::generation_ended&) {
            const auto turn = take_turn("generation_ended");
            carry_out(members_->begin(is_cold_));
          },
          [this](const caf::error& reason) {
            const auto turn = take_turn("error");
            refuse(reason);
          });
}

void supervisor_state::carry_out(const order_start& x) {
  context_->messages->send(
      self_, context_->agent, messages::start_process{generation(), x.process, self_, x.elsewhere});
}

// KEEPER-3: chosen when all processes are there, and again when some have moved. Kept states stay
// in place until the new keeper has them.
void supervisor_state::settle_keepers() {
  const bool all_here = std::all_of(
      processes_.begin(), processes_.end(), [](const auto& x) { return bool(x.node); });
  if (!keeps() || !all_here)
    return;
  std::vector<std::string> hosts;
  for (const auto& x : processes_)
    hosts.push_back(x.host);
  const auto before = context_->ledger->keepers();
  const auto keepers = runtime::keepers_again(before, hosts);
  if (keepers != before) {
    pen()->keepers(keepers);
    tell_keepers(before);
  }
  show_keepers(keepers);
  for (int p = 0; p < int(processes_.size()); ++p) {
    auto& x = processes_[std::size_t(p)];
    if (std::exchange(x.kept_in, keepers[std::size_t(p)]) == keepers[std::size_t(p)])
      continue;
    // Its node ends the old keeper when it spawns the next.
    x.keeper = nullptr;
    const auto is_its = [p](const residence& where) {
      return where.role == member_role::keeper && where.serves == p;
    };
    std::erase_if(watched_, [&](const auto& one) { return is_its(one.where); });
    std::erase_if(expected_, [&](const auto& one) { return is_its(one.second); });
  }
}

// Logs what a death will cost. `before`: the keepers until now; empty: before the first step.
void supervisor_state::tell_keepers(const std::vector<int>& before) const {
  const auto keepers = context_->ledger->keepers();
  bool beside = false;
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    const auto& own = processes_[p];
    const auto& other = processes_[std::size_t(keepers[p])];
    beside = beside || own.host == other.host;
    if (!before.empty() && before[p] == keepers[p])
      continue;
    if (!before.empty())
      runtime::log_info(
          " the states of process {}'s ranks (host '{}') are kept in process {} (host '{}') from "
          "now on, instead of process {} (host '{}'): processes have moved",
          p,
          own.host,
          keepers[p],
          other.host,
          before[p],
          processes_[std::size_t(before[p])].host);
    else
      runtime::log_info(
          " the states of process {}'s ranks (host '{}') are kept in process {} (host '{}')",
          p,
          own.host,
          keepers[p],
          other.host);
  }
  if (beside)
    runtime::log_info(
        " processes of one host keep each other's states: when that host dies, the run resumes "
        "from "
        "its newest checkpoint{}",
        job_->job.checkpoints.save.empty() ? ", and it saves none: from its start" : "");
}

// All have ended, and no process has the newest state in memory.
void supervisor_state::carry_out(const order_look& x) {
  look_ = {x, {}};
  for (int p = 0; p < int(processes_.size()); ++p)
    context_->messages
        ->request(self_,
                  processes_[std::size_t(p)].node,
                  caf::infinite,
                  messages::find_stored{generation()})
        .then(
            [this, p, number = x.number](const messages::stored_found& found) {
              const auto turn = take_turn("stored_found");
              if (look_.order.number != number)
                return;
              look_.found[p] = found.all;
              if (look_.found.size() == processes_.size())
                end_look();
            },
            [this](const caf::error& reason) {
              const auto turn = take_turn("error");
              refuse(reason);
            });
}

void supervisor_state::end_look() {
  const auto& ledger = *context_->ledger;
  std::vector<std::vector<int>> replicas;
  for (int r = 0; r < job_->replicas(); ++r)
    replicas.push_back(job_->seats.replica(r));
  auto found = newest_stored(
      look_.found,
      ledger.keepers(),
      replicas,
      job_->job.reduction.distributed_optimizer,
      [&](std::uint64_t step) {
        return ledger.position(step) ? ledger.state(step) : runtime::digest{};
      },
      look_.order.before);
  for (const auto& x : found.passed_over)
    runtime::log_warning("{}", x);
  carry_out(members_->looked(look_.order.number, std::move(found.newest)));
}

void supervisor_state::receive(const messages::process_started& x) {
  if (members_->now() == membership::phase::stopped || !is_process(x.process)
      || epoch_of(x.generation) != epoch_of(generation()) || members_->stands(x.process)
      || (x.node && x.incarnation < members_->incarnation(x.process)))
    return;  // MEMBER-2
  if (!x.refusal.empty())
    return end(2, x.refusal);
  auto& at = processes_[std::size_t(x.process)];
  at.node = x.node;
  at.host = x.host;
  loss_.stands_ns = clock_ns();
  show_process(x.process, "running");
  tell_monitor_of_processes();
  context_->messages->monitor(self_, at.node);
  settle_keepers();
  members_->saved(context_->ledger->newest_saved());  // no other member may be left to ask
  carry_out(members_->stands(x.process, x.incarnation, x.lived, clock_ns()));
}

void supervisor_state::receive(const messages::process_died& x) {
  if (!is_process(x.process) || epoch_of(x.generation) != epoch_of(generation()))
    return;
  const auto who = fmt::format("process:{}", x.process);
  const auto why = fmt::format("{}: {}", who, x.how);
  if (members_->stands(x.process))
    lose_process(x.process, x.incarnation, why);
  else if (loss_.began_ns != 0 && loss_.cause.who == who && loss_.cause.why == connection_gone(who)
           && members_->incarnation(x.process) == x.incarnation)
    loss_.cause.why = why;
}

std::chrono::milliseconds supervisor_state::patience_with_causes() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(job_->job.recovery.suspicion));
}

// The host reports the cause of a broken connection a moment later; waits for it when the run ends
// by it.
void supervisor_state::lose_node(int process, const caf::error& reason) {
  const auto who = fmt::format("process:{}", process);
  if (!members_->stands(process))
    return;
  const auto incarnation = members_->incarnation(process);
  if (reason != caf::exit_reason::remote_link_unreachable)
    return lose_process(process, incarnation, messages::text_of(because_of(who, reason)));
  if (job_->job.recovery.on)
    return lose_process(process, incarnation, connection_gone(who));
  const messages::process_died x{generation(), process, incarnation, "its connection is gone"};
  if (!unreachable_)
    unreachable_ = x;
  context_->messages->send_later(
      self_, messages::supervisor_actor(self_), patience_with_causes(), x);
}

void supervisor_state::forget_process(int process) {
  for (const auto& x : watched_)
    if (x.where.lives_in == process)
      show_member(x.where, "dead", fmt::format("process {} is gone", process));
  auto& at = processes_[std::size_t(process)];
  at.node = nullptr;
  at.loader = nullptr;
  at.writer = nullptr;
  for (auto& x : processes_)
    if (x.kept_in == process)
      x.keeper = nullptr;
  std::erase_if(watched_, [&](const auto& x) { return x.where.lives_in == process; });
  std::erase_if(expected_, [&](const auto& x) { return x.second.lives_in == process; });
  tell_monitor_of_processes();
}

void supervisor_state::lose_process(int process,
                                    std::uint32_t incarnation,
                                    const std::string& why,
                                    process_loss how) {
  if (!members_->stands(process) || members_->incarnation(process) != incarnation || shut_down_)
    return;
  auto orders = members_->lost(process, incarnation, why, clock_ns(), how);
  show_process(process, "dead", why);
  show_stages("dead", process, fmt::format("its process died: {}", why));
  forget_process(process);
  if (members_->cause())
    note_loss(*members_->cause());
  carry_out(std::move(orders));
  tell_of_shard_writer(process);  // its unfinished write is abandoned by now
}

// Names both ends, because it is unknown which one is at fault.
void supervisor_state::lose_connection(const messages::taken_for_dead& x,
                                       int from,
                                       const messages::process_name& to,
                                       const char* kind) {
  if (!is_process(to.process))  // it hosts no ranks, so no generation depends on it
    runtime::log_warning(
        "the {} connection of process {} to the supervisor's process broke: {}", kind, from, x.why);
  if (!is_process(to.process) || to.process == from)
    return;
  const auto name = [this](int p) {
    return fmt::format("process {} (host '{}')", p, processes_[std::size_t(p)].host);
  };
  const auto before = members_->now();
  auto orders = members_->broke({from, to.process, members_->incarnation(from), to.incarnation},
                                x.generation,
                                fmt::format("the {} connection between {} and {} broke: {}",
                                            kind,
                                            name(from),
                                            name(to.process),
                                            x.why));
  if (before != membership::phase::ending && !orders.empty())
    note_loss(*members_->cause());
  else if (loss_.began_ns != 0 && members_->cause())
    loss_.cause = *members_->cause();
  carry_out(std::move(orders));
}

void supervisor_state::carry_out(const order_exchange& x) {
  runtime::log_warning(
      "process:{} is replaced although it still runs: {}, repeatedly", x.process, x.why);
  show_process(x.process, "dead", x.why);
  forget_process(x.process);
  tell_of_shard_writer(x.process);
  context_->messages->send(
      self_, context_->agent, messages::start_process{generation(), x.process, self_, true});
}

void supervisor_state::receive(const messages::process_may_move& x) {
  if (!is_process(x.process) || epoch_of(x.generation) != epoch_of(generation()))
    return;
  if (!x.to.empty())
    may_move_ = x;
  else if (may_move_ && may_move_->process == x.process && may_move_->incarnation == x.incarnation)
    may_move_.reset();
}

// A keeper has just stored the initial state of the moved process: one step runs again, none is
// lost.
bool supervisor_state::move_process() {
  if (!may_move_ || !job_->job.recovery.on || !keeps()
      || members_->now() != membership::phase::running || replays() || is_over()
      || saves_.is_writing())
    return false;
  const auto x = *std::exchange(may_move_, std::nullopt);
  if (!members_->stands(x.process) || members_->incarnation(x.process) != x.incarnation)
    return false;
  lose_process(x.process,
               x.incarnation,
               fmt::format("process:{}: {} has room for it", x.process, x.to),
               process_loss::moves);
  return true;
}

bool supervisor_state::is_kept(std::uint64_t step) const {
  if (!keeps())
    return true;
  for (int p = 0; p < int(processes_.size()); ++p)
    if (const auto found = kept_by_.find(p);
        found == kept_by_.end() || value(found->second.step) < step)
      return false;
  return true;
}

void supervisor_state::receive(const messages::kept& x) {
  const auto now = members_->now();
  if (x.generation != generation() || !is_process(x.process)
      || (now != membership::phase::forming && now != membership::phase::running))
    return;  // KEPT-2
  auto& newest = kept_by_[x.process];
  const auto step = std::max(newest.step, x.step);
  newest = x;
  newest.step = step;
  processes_[std::size_t(x.process)].is_keeper_new = false;
  if (!is_kept(at_.iteration))
    return;
  members_->kept(at_.iteration);
  store_if_due();
  if (move_process() || exchange_when_kept())
    return;
  if (std::exchange(waits_to_decide_, false))
    decide();
  else if (std::exchange(waits_to_finish_, false))
    proceed();
}

void supervisor_state::end_processes() {
  if (processes_.size() > 1)
    for (const auto& x : processes_)
      if (x.node)
        context_->messages->send_at_once(self_, x.node, messages::shut_down{generation()});
}

}  // namespace troupe::actors
