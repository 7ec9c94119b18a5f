// Progress bar for long work on a terminal; silent elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Draws "<what> [#####-----]  42 %  12.3 MB/s  3 min left" on standard error, at most ten times a
/// second and at the end. Draws only on a terminal that can show it (not TERM=dumb). Fits the
/// current width of the terminal; log lines pass above it. Never waits for the terminal. One thread
/// uses it; one bar at a time.
class progress_bar {
 public:
  /// `unit` is a name ("tokens", "merges") or "B", which is shown as kB, MB, GB. `first` is the
  /// amount done before this process.
  progress_bar(std::string what, std::uint64_t total, std::string unit, std::uint64_t first = 0);
  ~progress_bar();  ///< removes the bar
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// `told` follows the percentage, most important first. Default: the speed.
  void advance_to(std::uint64_t done, std::vector<std::string> told = {});

  /// Units per second since construction.
  double rate() const;

 private:
  std::string text() const;

  std::string what_;
  std::uint64_t total_;
  std::string unit_;
  std::uint64_t first_, done_;
  std::vector<std::string> told_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point drawn_;
  bool visible_;
  bool drawn_once_ = false;
};

/// The bar's text, shorter than `columns`. With little room it shortens the bar first, then drops
/// entries of `told` from the last to the first, then everything but the percentage.
std::string progress_text(const std::string& what,
                          double share,
                          const std::vector<std::string>& told,
                          int columns);

/// "45 s", "12 min", "3 h 20 min", "2 d 4 h".
std::string duration_text(double seconds);

/// "45 s left", "12 min left", "3 h 20 min left", "2 d 4 h left".
std::string time_left_text(double seconds);

}  // namespace troupe::runtime
