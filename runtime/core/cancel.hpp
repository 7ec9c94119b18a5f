// Ending a generation: one flag, and everybody who sleeps is woken at once.

#pragma once

#include <functional>
#include <memory>

namespace troupe::runtime {

/// What a wait of a generation looks at. Copies share the flag. Any thread.
class cancel_token {
 public:
  cancel_token();

  bool is_cancelled() const;
  void throw_if_cancelled() const;  ///< throws `cancelled`

  /// Sets the flag, then calls every waker, on this thread. Only the first call does anything.
  void cancel() const;

  /// Calls `wake` when the token is cancelled (at once when it already is), until the returned
  /// handle dies; `wake` may take locks, but not of anything held while cancelling.
  [[nodiscard]] std::shared_ptr<void> on_cancel(std::function<void()> wake) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe::runtime
