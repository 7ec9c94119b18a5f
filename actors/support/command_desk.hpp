// Commands of viewers on their way to the supervisor. The desk outlives supervisors: a successor
// finds what its predecessor has not taken.

#pragma once

#include "runtime/trainer/run_command.hpp"

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

  /// Refuses the order at once when too many wait.
  void put(order x);
  std::optional<order> take();  ///< the oldest waiting order
  /// Takes the orders that ask for the status only.
  std::vector<order> take_questions();
  /// Sets the function that wakes the current supervisor. `whose`: the key for `no_longer_wakes`.
  void on_order(const void* whose, std::function<void()> wake);
  void no_longer_wakes(const void* whose);  ///< no effect if a successor has replaced it
  /// Refuses all waiting and all later orders: the run has ended.
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
