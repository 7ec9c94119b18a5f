// Cancellation of a generation: one flag that wakes every waiting thread at once.

#pragma once

#include <functional>
#include <memory>

namespace troupe::runtime {

/// The flag that every wait of a generation checks. Copies share the flag. Any thread may use it.
class cancel_token {
 public:
  cancel_token();

  bool is_cancelled() const;
  void throw_if_cancelled() const;  ///< throws `cancelled`

  /// Sets the flag, then calls every waker on this thread. Later calls do nothing.
  void cancel() const;

  /// Calls `wake` on cancellation, or at once if the token is already cancelled. Destroying the
  /// returned handle unregisters it. `wake` must not take a lock that the caller of `cancel` holds.
  [[nodiscard]] std::shared_ptr<void> on_cancel(std::function<void()> wake) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe::runtime
