// Progress of long work: a bar on a terminal, nothing elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Draws "<what> [#####-----]  42 %  12.3 MB/s  3 min left" on standard error, at most ten times a
/// second and at the end, and only when that is a terminal that can (not TERM=dumb). It fits the
/// terminal's columns at that moment, lines of the log pass above it, and a terminal that takes
/// nothing is not waited for. One thread uses it; one bar at a time.
class progress_bar {
 public:
  /// `unit` is a name ("tokens", "merges") or "B", which is shown as kB, MB, GB. `first` was done
  /// before.
  progress_bar(std::string what, std::uint64_t total, std::string unit, std::uint64_t first = 0);
  ~progress_bar();  ///< nothing of it stays
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// `told` stands behind the share, what matters most first; without it the speed does.
  void advance_to(std::uint64_t done, std::vector<std::string> told = {});

  /// Since construction, per second.
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

/// The text of a bar in less than `columns` columns, the last of which stays free: where there is
/// little room the bar becomes short, then the last of `told` goes, and so on, then all but the
/// share.
std::string progress_text(const std::string& what,
                          double share,
                          const std::vector<std::string>& told,
                          int columns);

/// "45 s left", "12 min left", "3 h 20 min left", "2 d 4 h left".
std::string time_left_text(double seconds);

}  // namespace troupe::runtime
