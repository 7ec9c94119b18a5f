// Processes that host ranks: starts, losses and moves.

#include "actors/supervisor/supervisor.hpp"
#include "actors/support/guard.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/exit_reason.hpp>

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
void recoverer::end_services_before() {
  run_.request(run_.node,
               messages::end_generation{runtime::make_generation(epoch_of(run_.generation()), 0),
                                        run_.told})
      .then(
          [this](const messages::generation_ended&) {
            const auto turn = run_.take_turn("generation_ended");
            carry_out(run_.members.begin(run_.is_cold));
          },
          [this](const caf::error& reason) {
            const auto turn = run_.take_turn("error");
            refuse(reason);
          });
}

void recoverer::carry_out(const order_start& x) {
  run_.send(run_.context->agent,
            messages::start_process{run_.generation(), x.process, run_.self, x.elsewhere});
}

// All have ended, and no process has the newest state in memory.
void recoverer::carry_out(const order_look& x) {
  look_ = {x, {}};
  for (int p = 0; p < run_.processes(); ++p)
    run_.request(roster_.process(p).node, messages::find_stored{run_.generation()})
        .then(
            [this, p, number = x.number](const messages::stored_found& found) {
              const auto turn = run_.take_turn("stored_found");
              if (look_.order.number != number)
                return;
              look_.found[p] = found.all;
              if (look_.found.size() == roster_.processes().size())
                end_look();
            },
            [this](const caf::error& reason) {
              const auto turn = run_.take_turn("error");
              refuse(reason);
            });
}

void recoverer::end_look() {
  const auto& ledger = *run_.context->ledger;
  auto found = newest_stored(
      look_.found,
      ledger.keepers(),
      *run_.job,
      [&](std::uint64_t step) {
        return ledger.position(step) ? ledger.state(step) : runtime::digest{};
      },
      look_.order.before);
  for (const auto& x : found.passed_over)
    runtime::log_warning("{}", x);
  carry_out(run_.members.looked(look_.order.number, std::move(found.newest)));
}

void recoverer::receive(const messages::process_started& x) {
  if (run_.members.now() == membership::phase::stopped || !run_.is_process(x.process)
      || !run_.is_of_this_epoch(x.generation) || run_.members.stands(x.process)
      || (x.node && x.incarnation < run_.members.incarnation(x.process)))
    return;  // MEMBER-2
  if (!x.refusal.empty())
    return steps_.end(2, x.refusal);
  loss_.stands_ns = run_.clock_ns();
  roster_.join(x);
  run_.members.saved(run_.context->ledger->newest_saved());  // no other member may be left to ask
  carry_out(run_.members.stands(x.process, x.incarnation, x.lived, run_.clock_ns()));
}

void recoverer::receive(const messages::process_died& x) {
  if (!run_.is_process(x.process) || !run_.is_of_this_epoch(x.generation))
    return;
  const auto who = fmt::format("process:{}", x.process);
  const auto why = fmt::format("{}: {}", who, x.how);
  if (run_.members.stands(x.process))
    lose_process(x.process, x.incarnation, why);
  else if (loss_.began_ns != 0 && loss_.cause.who == who && loss_.cause.why == connection_gone(who)
           && run_.members.incarnation(x.process) == x.incarnation)
    loss_.cause.why = why;
}

std::chrono::milliseconds recoverer::patience_with_causes() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(run_.job->job.recovery.suspicion));
}

// The host reports the cause of a broken connection a moment later; waits for it when the run ends
// by it.
void recoverer::lose_node(int process, const caf::error& reason) {
  const auto who = fmt::format("process:{}", process);
  if (!run_.members.stands(process))
    return;
  const auto incarnation = run_.members.incarnation(process);
  if (reason != caf::exit_reason::remote_link_unreachable)
    return lose_process(process, incarnation, messages::text_of(because_of(who, reason)));
  if (run_.job->job.recovery.on)
    return lose_process(process, incarnation, connection_gone(who));
  const messages::process_died x{run_.generation(), process, incarnation, "its connection is gone"};
  if (!unreachable_)
    unreachable_ = x;
  run_.send_to_self_later(patience_with_causes(), x);
}

void recoverer::lose_process(int process,
                             std::uint32_t incarnation,
                             const std::string& why,
                             process_loss how) {
  if (!run_.members.stands(process) || run_.members.incarnation(process) != incarnation
      || steps_.is_shut_down())
    return;
  auto orders = run_.members.lost(process, incarnation, why, run_.clock_ns(), how);
  run_.show_process(process, "dead", why);
  run_.show_stages("dead", process, fmt::format("its process died: {}", why));
  roster_.forget_process(process);
  if (run_.members.cause())
    note_loss(*run_.members.cause());
  carry_out(std::move(orders));
  roster_.tell_of_shard_writer(process);  // its unfinished write is abandoned by now
}

// Names both ends, because it is unknown which one is at fault.
void recoverer::lose_connection(const messages::taken_for_dead& x,
                                int from,
                                const messages::process_name& to,
                                const char* kind) {
  if (!run_.is_process(to.process))  // it hosts no ranks, so no generation depends on it
    runtime::log_warning(
        "the {} connection of process {} to the supervisor's process broke: {}", kind, from, x.why);
  if (!run_.is_process(to.process) || to.process == from)
    return;
  const auto before = run_.members.now();
  auto orders
      = run_.members.broke({from, to.process, run_.members.incarnation(from), to.incarnation},
                           x.generation,
                           fmt::format("the {} connection between {} and {} broke: {}",
                                       kind,
                                       roster_.name_and_host_of(from),
                                       roster_.name_and_host_of(to.process),
                                       x.why));
  if (before != membership::phase::ending && !orders.empty())
    note_loss(*run_.members.cause());
  else if (loss_.began_ns != 0 && run_.members.cause())
    loss_.cause = *run_.members.cause();
  carry_out(std::move(orders));
}

// The other process may have died: then its host is about to report the cause.
void recoverer::cannot_connect(int from, const messages::process_name& to, const std::string& why) {
  if (run_.job->job.recovery.on)
    return lose_connection({.generation = run_.generation(), .why = why}, from, to, "control");
  run_.send_to_self_later(
      patience_with_causes(),
      messages::process_died{
          run_.generation(),
          to.process,
          to.incarnation,
          fmt::format("{} cannot connect with it: {}", roster_.name_and_host_of(from), why)});
}

void recoverer::carry_out(const order_exchange& x) {
  runtime::log_warning(
      "process:{} is replaced although it still runs: {}, repeatedly", x.process, x.why);
  run_.show_process(x.process, "dead", x.why);
  roster_.forget_process(x.process);
  roster_.tell_of_shard_writer(x.process);
  run_.send(run_.context->agent,
            messages::start_process{run_.generation(), x.process, run_.self, true});
}

void recoverer::receive(const messages::process_may_move& x) {
  if (!run_.is_process(x.process) || !run_.is_of_this_epoch(x.generation))
    return;
  if (!x.to.empty())
    may_move_ = x;
  else if (may_move_ && may_move_->process == x.process && may_move_->incarnation == x.incarnation)
    may_move_.reset();
}

// A keeper has just stored the initial state of the moved process: one step runs again, none is
// lost.
bool recoverer::move_process() {
  if (!may_move_ || !run_.job->job.recovery.on || !run_.keeps()
      || run_.members.now() != membership::phase::running || run_.replays() || steps_.is_over()
      || saves_.is_writing())
    return false;
  const auto x = *std::exchange(may_move_, std::nullopt);
  if (!run_.members.stands(x.process) || run_.members.incarnation(x.process) != x.incarnation)
    return false;
  lose_process(x.process,
               x.incarnation,
               fmt::format("process:{}: {} has room for it", x.process, x.to),
               process_loss::moves);
  return true;
}

}  // namespace troupe::actors
