// Kept states (KEPT-2), and their copies on local disks (LOCAL-4).
//
// All disks write the same step, and the next one only when the slowest disk is done. Otherwise
// each would skip other steps, and no step would be on all of them. A step may still be missing on
// one disk, when its keeper died or the disk failed; it may then be the second newest of the
// others. So the newest step that all have is retained.

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string>

namespace troupe::actors {

bool save_driver::is_kept(std::uint64_t step) const {
  return std::ranges::all_of(top_, [&](int p) {
    const auto found = kept_by_.find(p);
    return found != kept_by_.end() && value(found->second) >= step;
  });
}

void save_driver::receive(const messages::kept& x) {
  const auto now = run_.members.now();
  if (x.generation != run_.generation() || !run_.is_process(x.process)
      || (now != membership::phase::forming && now != membership::phase::running))
    return;  // KEPT-2
  auto& newest = kept_by_[x.process];
  newest = std::max(newest, x.step);
  if (run_.job->job.checkpoints.local_interval > 0)
    note(x.disks);
  if (!note_kept())
    return;
  if (recovery_.move_process() || checks_.exchange_when_kept())
    return;
  steps_.proceed_when_kept();
}

void save_driver::note(const std::vector<messages::keeper_disk>& disks) {
  for (const auto& x : disks)
    for (const auto& [begin, end] : x.of)
      for (int p = std::max(begin, 0); p < std::min(end, run_.processes()); ++p) {
        disks_[std::size_t(p)] = x;
        disks_[std::size_t(p)].of.clear();
        roster_.keeper_reports(p);
      }
}

bool save_driver::note_kept() {
  if (!is_kept(run_.at.iteration))
    return false;
  run_.members.kept(run_.at.iteration);
  store_if_due();
  return true;
}

std::vector<std::string> save_driver::keepers_waited_for() const {
  std::vector<std::string> out;
  for (const int p : top_)
    if (const auto found = kept_by_.find(p);
        found == kept_by_.end() || value(found->second) < run_.at.iteration)
      out.push_back(fmt::format("process:{}", p));
  return out;
}

void save_driver::forget_kept() {
  kept_by_.clear();
  std::ranges::fill(disks_, messages::keeper_disk{});
  told_to_store_ = 0;
}

void save_driver::store_if_due() {
  const auto step = run_.at.iteration;
  if (!is_stored(step) || step <= told_to_store_ || !is_kept(step))
    return;
  if (on_all_disks_ > step)
    on_all_disks_ = 0;  // the run has gone back behind it
  on_all_disks_ = std::max(on_all_disks_, stored_by_all());
  for (int p = 0; p < run_.processes(); ++p) {
    const auto& x = roster_.process(p);
    const auto& said = disks_[std::size_t(p)];
    const auto& told = store_told_[std::size_t(p)];
    if (!x.keeper || x.is_keeper_new)
      return;  // a new keeper first reports what it has
    if (x.keeper == told.keeper && said.told_to_store != told.step)
      return;  // the request is on its way
    // A write that began before the run went back has the same content.
    if (value(said.storing) != 0 && value(said.storing) != step)
      return leave_out(p, step);
  }
  told_to_store_ = step;
  left_out_ = 0;
  for (int p = 0; p < run_.processes(); ++p) {
    const auto& keeper = roster_.process(p).keeper;
    store_told_[std::size_t(p)] = {keeper, runtime::step_id(step)};
    run_.send(keeper,
              messages::store_kept{
                  run_.generation(), runtime::step_id(step), runtime::step_id(on_all_disks_)});
  }
}

std::uint64_t save_driver::stored_by_all() const {
  auto all = disks_.front().stored;
  std::erase_if(all, [&](const auto step) {
    if (step > run_.at.iteration)  // the run has gone back behind it
      return true;
    return std::ranges::any_of(disks_, [&](const auto& one) {
      return std::ranges::find(one.stored, step) == one.stored.end();
    });
  });
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

// Counts each step once, although it is looked at several times. Logs the first skipped step and
// every tenth after it.
void save_driver::leave_out(int process, std::uint64_t step) {
  constexpr int told_again = 10;
  if (step == newest_left_out_)
    return;
  newest_left_out_ = step;
  if (left_out_++ % told_again != 0)
    return;
  const auto& x = roster_.process(process);
  runtime::log_warning(
      "the local disk of process {} (host '{}') is slow or hangs: it is still writing the states "
      "of process {}'s ranks after iteration {}, so those after iteration {} are skipped on all "
      "disks ({}); consider a longer `checkpoints.local_interval`",
      x.kept_in,
      roster_.process(x.kept_in).host,
      process,
      value(disks_[std::size_t(process)].storing),
      step,
      on_all_disks_ == 0 ? std::string("no step is known to be on all disks")
                         : fmt::format("the newest that is on all disks is {}", on_all_disks_));
}

}  // namespace troupe::actors
