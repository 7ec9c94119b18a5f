#include "actors/supervisor/restart_limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

namespace {

bool is_of_connection(const std::string& who) {
  return who.starts_with("connection:");
}

}  // namespace

restart_counter::restart_counter(restart_limits limits, std::vector<runtime::restart> before)
    : limits_(limits), all_(std::move(before)), taken_(all_.size()) {}

std::optional<std::string> restart_counter::add(const std::string& who,
                                                const std::string& why,
                                                std::uint64_t step,
                                                std::uint64_t now_ns) {
  all_.push_back({now_ns, who, step});
  const auto in_window = std::count_if(all_.begin(), all_.end(), [&](const runtime::restart& r) {
    return r.step > 0 && r.at_ns + limits_.window_ns >= now_ns;
  });
  const bool broke = is_of_connection(who);
  if (const int in_a_row = without_progress(step, broke); in_a_row >= limits_.without_progress)
    return fmt::format("{}; it is the {} number {} in a row at step {}: the cause persists",
                       why,
                       broke ? "broken connection" : "death",
                       in_a_row,
                       step);
  if (in_window > limits_.most)
    return fmt::format("{}; {} restarts within {:.0f} s are more than `recovery.max_restarts` {}",
                       why,
                       in_window,
                       double(limits_.window_ns) / 1e9,
                       limits_.most);
  return std::nullopt;
}

bool restart_counter::forgoes(const std::string& who, std::uint64_t now_ns) {
  const auto same = std::count_if(all_.begin(), all_.end(), [&](const runtime::restart& r) {
    return r.who == who && r.at_ns + limits_.window_ns >= now_ns;
  });
  all_.push_back({now_ns, who, 0});
  return same + 1 >= limits_.without_progress;
}

int restart_counter::without_progress(std::uint64_t step, bool of_connections) const {
  int out = 0;
  for (auto at = all_.rbegin(); at != all_.rend(); ++at) {
    if (at->step == 0)
      continue;
    if (at->step != step)
      break;
    if (is_of_connection(at->who) == of_connections)
      ++out;
  }
  return out;
}

std::vector<runtime::restart> restart_counter::take_new() {
  std::vector<runtime::restart> out(all_.begin() + std::ptrdiff_t(taken_), all_.end());
  taken_ = all_.size();
  return out;
}

}  // namespace troupe::actors
