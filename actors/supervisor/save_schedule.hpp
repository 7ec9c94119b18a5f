// Decides when a checkpoint is due, also after failed writes (SAVE-RETRY).
//
// A disk that is full or away for a while must not cost the steps computed meanwhile. A failed save
// is retried 1 iteration later, then 2, 4, 8 ..., and whenever one is due anyway. After the last
// iteration it is retried three times with growing pauses, because there is no later chance.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::actors {

/// No clock and no thread: it is told events and returns what is due.
class save_schedule {
 public:
  save_schedule() = default;

  /// `iteration`: where the run starts; it needs no checkpoint. `interval` 0: only at the end.
  save_schedule(bool wanted, std::uint64_t iteration, std::uint64_t interval)
      : wanted_(wanted), interval_(interval), begun_(iteration), saved_(iteration) {}

  /// Whether the iteration that was just committed must be saved; `last`: no other follows. Stays
  /// true while an older checkpoint is being written; this one then waits.
  bool is_due(std::uint64_t iteration, bool last) const;

  void change_interval(std::uint64_t interval) { interval_ = interval; }
  /// Makes the newest committed iteration due, whatever the interval. Returns false if it is saved
  /// or being saved, or the run saves nothing.
  bool ask(std::uint64_t iteration);

  void begin(std::uint64_t iteration, bool last);
  void succeed();
  void abandon();                      ///< a rank or the writer died: the checkpoint is due again
  void fail(std::uint64_t iteration);  ///< newest committed iteration

  bool is_writing() const { return writing_; }
  /// The last iteration was not saved, and may be retried after pause().
  bool may_try_last_again(std::uint64_t iteration) const;
  /// Pause before the next retry at the end: a multiple of `first`.
  std::chrono::milliseconds pause(std::chrono::milliseconds first) const;

  bool is_saved(std::uint64_t iteration) const { return !wanted_ || saved_ == iteration; }
  std::uint64_t next_try() const { return next_try_; }  ///< iteration; 0: no failure

 private:
  static constexpr int most_last_tries = 4;

  bool wanted_ = false, writing_ = false;
  std::uint64_t interval_ = 0;
  std::uint64_t begun_ = 0, saved_ = 0;  ///< iterations
  std::uint64_t next_try_ = 0;
  std::optional<std::uint64_t> asked_;
  int failures_ = 0;    ///< consecutive
  int last_tries_ = 0;  ///< of the last iteration
};

}  // namespace troupe::actors
