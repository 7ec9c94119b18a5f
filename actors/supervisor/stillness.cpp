// HANG-5: a run in which no member of any process works.

#include "actors/node/hang_watch.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/process_key.hpp"

#include <caf/actor_cast.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::actors {

// The description of this supervisor's wait changes with each answer.
void supervisor_state::hear_of_stillness(const messages::taken_for_dead& x) {
  // The pause before another attempt to save and the end of the monitor have their own limits.
  if (processes_.size() == 1 || !job_->job.recovery.on || shut_down_ || concluding_
      || waits_to_save_ || is_at_rest() || members_->now() == membership::phase::stopped)
    return;
  const auto by = caf::actor_cast<caf::actor_addr>(self_->current_sender());
  int from = home;
  for (int p = 0; p < int(processes_.size()); ++p)
    if (const auto& node = node_in(p); node && node.address() == by)
      from = p;
  if (from == home && by != node_.address())
    return;
  const auto now = clock_ns();
  const auto waits = waits_for();
  auto what = fmt::format("{} of {} after iteration {} in generation {}, {} answers",
                          waits.what.what.empty() ? "an answer" : waits.what.what,
                          fmt::join(waits.what.whom, ", "),
                          at_.iteration,
                          value(generation()),
                          expected_.size());
  if (std::exchange(still_.waits_for, what) != what) {
    still_.of.clear();
    still_.since_ns = now;
  }
  still_.of[from] = {now, x.why};
  if (is_still(now))
    end_stillness();
}

bool supervisor_state::is_still(std::uint64_t now_ns) const {
  // Still processes report several times in this period; one that moves again does not.
  const auto period = std::uint64_t(job_->job.recovery.suspicion * 1e9) / 2;
  if (now_ns - still_.since_ns < period)
    return false;
  for (int p = home; p < int(processes_.size()); ++p) {
    if (p != home && !members_->stands(p))
      return false;  // the launcher is starting it
    const auto told = still_.of.find(p);
    if (told == still_.of.end() || now_ns - told->second.at_ns >= period)
      return false;
  }
  return true;
}

std::vector<int> supervisor_state::unanswering() const {
  std::vector<int> out;
  for (int p = 0; p < int(processes_.size()); ++p) {
    const bool spawns = std::any_of(
        expected_.begin(), expected_.end(), [p](const auto& x) { return x.second.lives_in == p; });
    if (spawns || members_->is_ending(p) || (members_->is_looking() && !look_.found.contains(p)))
      out.push_back(p);
  }
  return out;
}

// The process at fault is unknown, unless one owes an answer. If it happens again and again, the
// limits of restarts end the run with this reason.
void supervisor_state::end_stillness() {
  std::string graphs;
  for (const auto& [process, told] : still_.of)
    graphs += fmt::format("\n {}{}",
                          process == home ? std::string("the supervisor's process")
                                          : runtime::name_of_process(process),
                          told.graph);
  runtime::log_warning("no process of the run shows progress; wait graph:{}", graphs);
  const auto why = fmt::format(
      "no process has shown progress for {} s or longer, and the supervisor waits for {}; messages "
      "may have been lost (`recovery.suspicion` {})",
      2 * job_->job.recovery.suspicion,
      std::exchange(still_.waits_for, {}),
      job_->job.recovery.suspicion);
  still_.of.clear();
  const auto silent = unanswering();
  for (const int p : silent)
    lose_process(
        p, members_->incarnation(p), fmt::format("process:{}: it does not answer: {}", p, why));
  if (!silent.empty() || members_->now() == membership::phase::ending)
    return;
  const member_death x{.generation = generation(),
                       .role = member_role::rank,
                       .who = "the run",
                       .cause = death_cause::own,
                       .why = "the run: " + why};
  note_loss(x);
  carry_out(members_->lost(x, clock_ns()));
}

}  // namespace troupe::actors
