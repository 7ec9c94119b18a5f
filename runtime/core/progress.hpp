// Progress of long work: a bar on a terminal, nothing elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::runtime {

/// Draws "<what> [#####-----]  42 %  12.3 MB/s" on standard error, at most ten times a second, and
/// only when that is a terminal. One thread uses it.
class progress_bar {
 public:
  /// `unit` is a name ("tokens", "merges") or "B", which is shown as kB, MB, GB.
  progress_bar(std::string what, std::uint64_t total, std::string unit);
  ~progress_bar();  ///< ends the line
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void advance_to(std::uint64_t done);

  /// Since construction, per second.
  double rate() const;

 private:
  void draw();

  std::string what_;
  std::uint64_t total_;
  std::string unit_;
  std::uint64_t done_ = 0;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point drawn_;
  bool visible_;
  bool drawn_once_ = false;
};

/// "1.5 GB", "812 kB": powers of ten, three digits.
std::string human_bytes(double bytes);

}  // namespace troupe::runtime
