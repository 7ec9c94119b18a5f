// LOCAL-4: when kept states are written to local disks: of one step everywhere, and of the next one
// when the slowest disk has done. Else each would leave out others, and there would be no step that
// all have.

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"

#include <utility>

namespace troupe::actors {

void supervisor_state::store_if_due() {
  const auto step = at_.iteration;
  if (!is_stored(step) || step <= told_to_store_ || !is_kept(step))
    return;
  for (int p = 0; p < int(processes_.size()); ++p) {
    const auto& x = processes_[std::size_t(p)];
    const auto& said = kept_by_.at(p);
    const bool has_heard
        = x.keeper != x.store_told.keeper || said.told_to_store >= x.store_told.step;
    if (!said.is_storing && has_heard)
      continue;
    if (!std::exchange(is_disk_slow_, true))
      runtime::log_warning(
          "the local disk of process {} (host '{}') is slow: the states of process {}'s ranks are "
          "still being written there, and those after iteration {} are left out everywhere; "
          "`checkpoints.local_interval` could be longer",
          x.kept_in,
          processes_[std::size_t(x.kept_in)].host,
          p,
          step);
    return;
  }
  told_to_store_ = step;
  for (auto& x : processes_) {
    if (!x.keeper)
      continue;
    x.store_told = {x.keeper, runtime::step_id(step)};
    context_->messages->send(
        self_, x.keeper, messages::store_kept{generation(), runtime::step_id(step)});
  }
}

}  // namespace troupe::actors
