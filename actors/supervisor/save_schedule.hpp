// When a checkpoint is due, also after one that could not be written (SAVE-RETRY).
//
// A disk that is full or away for a while must not cost the steps that were computed meanwhile: a
// save that failed is tried again 1 iteration later, then 2, 4, 8 ..., and whenever one is due
// anyway; after the last iteration three times more, with growing waits between, because nobody can
// try after that.

#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::actors {

/// No clock and no thread: it is told what happened, and says what is due.
class save_schedule {
 public:
  save_schedule() = default;

  /// `iteration` is where the run begins: it needs no checkpoint. `interval` 0: only at the end.
  save_schedule(bool wanted, std::uint64_t iteration, std::uint64_t interval)
      : wanted_(wanted), interval_(interval), begun_(iteration), saved_(iteration) {}

  /// Whether a checkpoint is to be written of the iteration that was just committed; `last`: no
  /// other comes. Still true while an older one is being written: then this one has to wait.
  bool is_due(std::uint64_t iteration, bool last) const;

  void begin(std::uint64_t iteration, bool last);
  void succeed();
  void abandon();  ///< who was to be saved, or who wrote, is dead: it is due again
  void fail(std::uint64_t iteration);  ///< the newest that is committed by now

  bool is_writing() const { return writing_; }
  /// The last iteration could not be saved, and may be tried again after pause().
  bool may_try_last_again(std::uint64_t iteration) const;
  /// Before the next try at the end: a multiple of `first`.
  std::chrono::milliseconds pause(std::chrono::milliseconds first) const;

  bool is_saved(std::uint64_t iteration) const { return !wanted_ || saved_ == iteration; }
  std::uint64_t next_try() const { return next_try_; }  ///< iteration; 0: nothing has failed

 private:
  static constexpr int most_last_tries = 4;

  bool wanted_ = false, writing_ = false;
  std::uint64_t interval_ = 0;
  std::uint64_t begun_ = 0, saved_ = 0;  ///< iterations
  std::uint64_t next_try_ = 0;
  int failures_ = 0;    ///< in a row
  int last_tries_ = 0;  ///< of the last iteration
};

}  // namespace troupe::actors
