#include "runtime/device/lane_board.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

struct lane_board::state {
  struct row {
    lane_state what;
    wait_flag waits;
  };
  mutable std::mutex mutex;
  std::uint64_t next = 0;
  std::map<std::uint64_t, row> rows;

  static lane_state told(const row& x) {
    auto out = x.what;
    out.waits = x.waits.load();
    return out;
  }
};

std::shared_ptr<lane_board::state> lane_board::make_state() {
  return std::make_shared<state>();
}

std::shared_ptr<lane_board::place> lane_board::add(std::string who) {
  const std::lock_guard lock(state_->mutex);
  const auto number = state_->next++;
  state_->rows[number].what.who = std::move(who);
  return std::make_shared<place>(state_, number);
}

std::vector<lane_state> lane_board::all() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<lane_state> out;
  for (const auto& [number, row] : state_->rows)
    out.push_back(state::told(row));
  return out;
}

std::string lane_board::text(std::uint64_t now_ns) const {
  std::string out;
  for (const auto& x : all())
    if (!x.work.empty())
      out += fmt::format("\n  {} step {}: '{}' for {:.2f} s, {}",
                         x.who,
                         x.step,
                         x.work,
                         double(now_ns - std::min(x.since_ns, now_ns)) / 1e9,
                         x.waits ? "waits for others" : "computes");
  return out;
}

lane_board::place::~place() {
  const std::lock_guard lock(of_->mutex);
  of_->rows.erase(number_);
}

lane_state lane_board::place::now() const {
  const std::lock_guard lock(of_->mutex);
  return state::told(of_->rows.at(number_));
}

lane_board::place::at_work::at_work(place& of,
                                    const std::string& work,
                                    std::uint64_t step,
                                    std::uint64_t now_ns)
    : of_(of), before_(nullptr) {
  const std::lock_guard lock(of_.of_->mutex);
  auto& row = of_.of_->rows.at(of_.number_);
  row.what.work = work;
  row.what.step = step;
  row.what.since_ns = now_ns;
  row.waits = false;
  before_ = wait_flag_of_thread(&row.waits);
}

lane_board::place::at_work::~at_work() {
  wait_flag_of_thread(before_);
  const std::lock_guard lock(of_.of_->mutex);
  of_.of_->rows.at(of_.number_).what.work.clear();
}

}  // namespace troupe::runtime
