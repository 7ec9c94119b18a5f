// HANG-5: a run in which no member of any process works.

#include "actors/node/hang_watch.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/process_key.hpp"

#include <caf/actor_cast.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::actors {

// The description of this supervisor's wait changes with each answer.
void recoverer::hear_of_stillness(const messages::taken_for_dead& x) {
  // The pause before another attempt to save and the end of the monitor have their own limits.
  if (run_.processes() == 1 || !run_.job->job.recovery.on || steps_.is_shut_down()
      || steps_.is_concluding() || saves_.waits_to_retry() || commands_.is_at_rest()
      || run_.members.now() == membership::phase::stopped)
    return;
  const auto by = caf::actor_cast<caf::actor_addr>(run_.self->current_sender());
  const int from = roster_.process_of_node(by).value_or(home_process);
  if (from == home_process && by != run_.node.address())
    return;
  const auto now = run_.clock_ns();
  const auto waits = steps_.waits_for();
  auto what = fmt::format("{} of {} after iteration {} in generation {}, {} answers",
                          waits.what.what.empty() ? "an answer" : waits.what.what,
                          fmt::join(waits.what.whom, ", "),
                          run_.at.iteration,
                          value(run_.generation()),
                          roster_.pending_answers());
  if (std::exchange(still_.waits_for, what) != what) {
    still_.of.clear();
    still_.since_ns = now;
  }
  still_.of[from] = {now, x.why};
  if (is_still(now))
    end_stillness();
}

bool recoverer::is_still(std::uint64_t now_ns) const {
  // Still processes report several times in this period; one that moves again does not.
  const auto period = std::uint64_t(run_.job->job.recovery.suspicion * 1e9) / 2;
  if (now_ns - still_.since_ns < period)
    return false;
  for (int p = home_process; p < run_.processes(); ++p) {
    if (p != home_process && !run_.members.stands(p))
      return false;  // the launcher is starting it
    const auto told = still_.of.find(p);
    if (told == still_.of.end() || now_ns - told->second.at_ns >= period)
      return false;
  }
  return true;
}

std::vector<int> recoverer::unanswering() const {
  std::vector<int> out;
  for (int p = 0; p < run_.processes(); ++p)
    if (roster_.owes_answer(p) || run_.members.is_ending(p)
        || (run_.members.is_looking() && !look_.found.contains(p)))
      out.push_back(p);
  return out;
}

// The process at fault is unknown, unless one owes an answer. If it happens again and again, the
// limits of restarts end the run with this reason.
void recoverer::end_stillness() {
  std::string graphs;
  for (const auto& [process, told] : still_.of)
    graphs += fmt::format("\n {}{}",
                          process == home_process ? std::string("the supervisor's process")
                                                  : runtime::name_of_process(process),
                          told.graph);
  runtime::log_warning("no process of the run shows progress; wait graph:{}", graphs);
  const auto why = fmt::format(
      "no process has shown progress for {} s or longer, and the supervisor waits for {}; messages "
      "may have been lost (`recovery.suspicion` {})",
      2 * run_.job->job.recovery.suspicion,
      std::exchange(still_.waits_for, {}),
      run_.job->job.recovery.suspicion);
  still_.of.clear();
  const auto silent = unanswering();
  for (const int p : silent)
    lose_process(
        p, run_.members.incarnation(p), fmt::format("process:{}: it does not answer: {}", p, why));
  if (!silent.empty() || run_.members.now() == membership::phase::ending)
    return;
  const member_death x{.generation = run_.generation(),
                       .role = member_role::rank,
                       .who = "the run",
                       .cause = death_cause::own,
                       .why = "the run: " + why};
  note_loss(x);
  carry_out(run_.members.lost(x, run_.clock_ns()));
}

}  // namespace troupe::actors
