#include "runtime/core/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr int width = 24;
constexpr auto redraw_after = std::chrono::milliseconds(100);

}  // namespace

std::string human_bytes(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 999.5 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, units[unit]);
}

progress_bar::progress_bar(std::string what, std::uint64_t total, std::string unit)
    : what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      started_(std::chrono::steady_clock::now()),
      visible_(::isatty(STDERR_FILENO) == 1) {}

progress_bar::~progress_bar() {
  if (drawn_once_) {
    draw();
    std::fputc('\n', stderr);
  }
}

void progress_bar::advance_to(std::uint64_t done) {
  done_ = done;
  if (!visible_)
    return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_once_ && now - drawn_ < redraw_after)
    return;
  drawn_ = now;
  drawn_once_ = true;
  draw();
}

double progress_bar::rate() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
  return double(done_) / std::max(passed.count(), 1e-9);
}

void progress_bar::draw() {
  const double share = total_ == 0 ? 1.0 : std::min(1.0, double(done_) / double(total_));
  const auto full = std::size_t(share * width);
  const auto speed = unit_ == "B" ? human_bytes(rate()) : fmt::format("{:.0f} {}", rate(), unit_);
  const auto line = fmt::format("\r{} [{}{}] {:3.0f} %  {}/s\x1b[K",
                                what_,
                                std::string(full, '#'),
                                std::string(width - full, '-'),
                                share * 100,
                                speed);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace troupe::runtime
