// LOCAL-4: when kept states are written to local disks. All disks write the same step, and the next
// one only when the slowest disk is done. Otherwise each would skip other steps, and no step would
// be on all of them. A step may still be missing on one disk, when its keeper died or the disk
// failed; it may then be the second newest of the others. So the newest step that all have is
// retained.

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string>

namespace troupe::actors {

void supervisor_state::store_if_due() {
  const auto step = at_.iteration;
  if (!is_stored(step) || step <= told_to_store_ || !is_kept(step))
    return;
  if (on_all_disks_ > step)
    on_all_disks_ = 0;  // the run has gone back behind it
  on_all_disks_ = std::max(on_all_disks_, stored_by_all());
  for (int p = 0; p < int(processes_.size()); ++p) {
    const auto& x = processes_[std::size_t(p)];
    const auto& said = kept_by_.at(p);
    if (!x.keeper || x.is_keeper_new)
      return;  // a new keeper first reports what it has
    if (x.keeper == x.store_told.keeper && said.told_to_store != x.store_told.step)
      return;  // the request is on its way
    // A write that began before the run went back has the same content.
    if (value(said.storing) != 0 && value(said.storing) != step)
      return leave_out(p, step);
  }
  told_to_store_ = step;
  left_out_ = 0;
  for (auto& x : processes_) {
    x.store_told = {x.keeper, runtime::step_id(step)};
    context_->messages->send(
        self_,
        x.keeper,
        messages::store_kept{
            generation(), runtime::step_id(step), runtime::step_id(on_all_disks_)});
  }
}

std::uint64_t supervisor_state::stored_by_all() const {
  auto all = kept_by_.at(0).stored;
  std::erase_if(all, [&](const auto step) {
    if (step > at_.iteration)  // the run has gone back behind it
      return true;
    return std::any_of(kept_by_.begin(), kept_by_.end(), [&](const auto& one) {
      const auto& there = one.second.stored;
      return std::find(there.begin(), there.end(), step) == there.end();
    });
  });
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

// Counts each step once, although it is looked at several times. Logs the first skipped step and
// every tenth after it.
void supervisor_state::leave_out(int process, std::uint64_t step) {
  constexpr int told_again = 10;
  if (step == newest_left_out_)
    return;
  newest_left_out_ = step;
  if (left_out_++ % told_again != 0)
    return;
  const auto& x = processes_[std::size_t(process)];
  runtime::log_warning(
      "the local disk of process {} (host '{}') is slow or hangs: it is still writing the states "
      "of process {}'s ranks after iteration {}, so those after iteration {} are skipped on all "
      "disks ({}); consider a longer `checkpoints.local_interval`",
      x.kept_in,
      processes_[std::size_t(x.kept_in)].host,
      process,
      value(kept_by_.at(process).storing),
      step,
      on_all_disks_ == 0 ? std::string("no step is known to be on all disks")
                         : fmt::format("the newest that is on all disks is {}", on_all_disks_));
}

}  // namespace troupe::actors
