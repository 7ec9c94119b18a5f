// A bounded queue of viewers' commands for the supervisor. It outlives supervisors: a successor
// finds the commands that its predecessor has not taken.

#pragma once

#include "runtime/state/run_command.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// The answer to a command.
struct command_answer {
  bool done = false;    ///< false: refused
  std::string message;  ///< one sentence
};

/// Any thread.
class command_desk {
 public:
  struct order {
    runtime::run_command what;
    std::string by;                                          ///< address of the viewer
    std::function<void(const command_answer&)> answer = {};  ///< called once, on any thread
  };

  /// Adds an order and wakes the supervisor. Refuses the order when too many wait.
  void put(order x);
  std::optional<order> take();  ///< the oldest waiting order
  /// Takes all waiting `status` orders; they need not wait for the end of a step.
  std::vector<order> take_questions();
  /// Sets the function that wakes the current supervisor, and calls it if orders wait. `whose`: the
  /// key for `no_longer_wakes`.
  void on_order(const void* whose, std::function<void()> wake);
  void no_longer_wakes(const void* whose);  ///< no effect after a successor called `on_order`
  /// Refuses all waiting and all later orders, because the run has ended.
  void close();

 private:
  static constexpr std::size_t most_waiting = 64;

  std::mutex mutex_;
  std::deque<order> waiting_;
  const void* whose_ = nullptr;
  std::function<void()> wake_;
  bool closed_ = false;
};

}  // namespace troupe::actors
