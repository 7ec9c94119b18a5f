#include "actors/supervisor/save_schedule.hpp"

#include <algorithm>

namespace troupe::actors {

bool save_schedule::is_due(std::uint64_t iteration, bool last) const {
  if (!wanted_ || saved_ == iteration || (writing_ && begun_ == iteration))
    return false;
  if (last)
    return last_tries_ < most_last_tries;
  if (begun_ == iteration && asked_ != iteration)
    return false;
  return (interval_ > 0 && iteration % interval_ == 0) || (next_try_ > 0 && iteration >= next_try_)
         || asked_ == iteration;
}

bool save_schedule::ask(std::uint64_t iteration) {
  if (!wanted_ || saved_ == iteration || (writing_ && begun_ == iteration))
    return false;
  asked_ = iteration;
  return true;
}

void save_schedule::begin(std::uint64_t iteration, bool last) {
  begun_ = iteration;
  writing_ = true;
  asked_.reset();
  last_tries_ += last ? 1 : 0;
}

void save_schedule::succeed() {
  saved_ = begun_;
  writing_ = false;
  next_try_ = 0;
  failures_ = 0;
}

void save_schedule::abandon() {
  if (!writing_)
    return;
  writing_ = false;
  next_try_ = begun_;
  begun_ = saved_;
  last_tries_ = std::max(0, last_tries_ - 1);
}

void save_schedule::fail(std::uint64_t iteration) {
  constexpr int most_doublings = 20;
  writing_ = false;
  next_try_ = iteration + (std::uint64_t{1} << std::min(failures_, most_doublings));
  if (interval_ > 0)
    next_try_ = std::min(next_try_, (iteration / interval_ + 1) * interval_);
  ++failures_;
}

bool save_schedule::may_try_last_again(std::uint64_t iteration) const {
  return !writing_ && begun_ == iteration && saved_ != iteration && last_tries_ > 0
         && last_tries_ < most_last_tries;
}

std::chrono::milliseconds save_schedule::pause(std::chrono::milliseconds first) const {
  return first * (1 << std::max(0, last_tries_ - 1));
}

}  // namespace troupe::actors
