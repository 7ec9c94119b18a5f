#include "runtime/core/progress.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr int widest = 24, narrowest = 5;
constexpr auto redraw_after = std::chrono::milliseconds(100);

}  // namespace

std::string progress_text(const std::string& what,
                          double share,
                          const std::vector<std::string>& told,
                          int columns) {
  const auto percent = fmt::format("{:3.0f} %", std::clamp(share, 0.0, 1.0) * 100);
  const auto text = [&](const std::string& before, int width, const std::string& after) {
    const auto full = std::size_t(std::clamp(share, 0.0, 1.0) * width);
    return fmt::format("{}[{}{}] {}{}",
                       before,
                       std::string(full, '#'),
                       std::string(std::size_t(width) - full, '-'),
                       percent,
                       after);
  };
  std::vector<std::pair<std::string, std::string>> wishes = {{"", ""}, {what + " ", ""}};
  for (const auto& more : told)
    wishes.emplace_back(what + " ", wishes.back().second + "  " + more);
  for (auto wish = wishes.rbegin(); wish != wishes.rend(); ++wish) {
    const int room = columns - 1 - int(text(wish->first, 0, wish->second).size());
    if (room >= narrowest)
      return text(wish->first, std::min(room, widest), wish->second);
  }
  return columns - 1 >= int(percent.size()) ? percent : std::string();
}

std::string time_left_text(double seconds) {
  return duration_text(seconds) + " left";
}

std::string duration_text(double seconds) {
  constexpr std::int64_t minute = 60, hour = 60 * minute, day = 24 * hour, longest = 1000 * day;
  const auto s = std::llround(std::clamp(seconds, 0.0, double(longest)));
  if (s < minute)
    return fmt::format("{} s", s);
  if (s < hour)
    return fmt::format("{} min", s / minute);
  if (s < day)
    return fmt::format("{} h {} min", s / hour, s % hour / minute);
  return fmt::format("{} d {} h", s / day, s % day / hour);
}

progress_bar::progress_bar(std::string what,
                           std::uint64_t total,
                           std::string unit,
                           std::uint64_t first)
    : what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      first_(first),
      done_(first),
      started_(std::chrono::steady_clock::now()),
      visible_(status_line_columns() > 0) {}

progress_bar::~progress_bar() {
  if (drawn_once_)
    clear_status_line();
}

void progress_bar::advance_to(std::uint64_t done, std::vector<std::string> told) {
  done_ = done;
  told_ = std::move(told);
  if (!visible_)
    return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_once_ && now - drawn_ < redraw_after && done < total_)
    return;
  drawn_ = now;
  drawn_once_ = true;
  show_status_line(text());
}

double progress_bar::rate() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
  return double(done_ - first_) / std::max(passed.count(), 1e-9);
}

std::string progress_bar::text() const {
  const double share = total_ == 0 ? 1.0 : double(done_) / double(total_);
  const auto speed = unit_ == "B"  ? human_bytes(rate())
                     : rate() < 10 ? fmt::format("{:.2g} {}", rate(), unit_)
                                   : fmt::format("{:.0f} {}", rate(), unit_);
  auto told = told_.empty() ? std::vector{speed + "/s"} : told_;
  if (done_ > first_ && done_ < total_)
    told.push_back(time_left_text(double(total_ - done_) / rate()));
  // Queried each time, because windows are resized.
  return progress_text(what_, share, told, status_line_columns());
}

}  // namespace troupe::runtime
