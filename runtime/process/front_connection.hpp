// The supervisor process's end of its connection to the front, the process that shows the run.

#pragma once

#include "runtime/core/log.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/frames.hpp"
#include "runtime/process/front_messages.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace troupe::runtime {

/// State of the front's terminal at start.
struct front_terminal {
  int status_line_columns = 0;
  bool output = false;
};

/// One thread of its own sends and receives. Any thread may call.
///
///   SHOWN-1  No thread of this process waits for the front, except in `end`, which has a timeout.
///            The queue holds 8,192 lines; beyond that the oldest lines are dropped and the front
///            is told how many.
class front_connection final : public log_reader {
 public:
  /// Sends a heartbeat at least every `beat`.
  front_connection(descriptor connection,
                   std::chrono::milliseconds beat,
                   const front_terminal& terminal);
  ~front_connection() override;
  front_connection(const front_connection&) = delete;
  front_connection& operator=(const front_connection&) = delete;

  void take(severity level, std::string_view text) override;
  void take_status_line(std::string_view text) override;
  int status_line_columns() const override { return columns_; }
  bool output_is_terminal() const override { return output_is_terminal_; }

  /// Sets the callback for a request to end the run, with the reason. Called on this object's
  /// thread; called at once when the request came before. Empty: removes the callback, and no call
  /// is in progress when this returns.
  void tell_of_end_asked(std::function<void(const std::string& why)> whom);

  /// Sends the last message and waits up to `patience` until the front has everything or is gone.
  /// Heartbeats continue until the destructor, because the final writes may take longer than the
  /// failure detector's timeout.
  void end(const end_told& how, std::chrono::milliseconds patience);

 private:
  void loop();
  void wake() const;
  bool receive();
  void carry_out(const end_asked& x);
  void carry_out(const terminal_resized& x) { columns_ = x.columns; }
  /// Returns false when the front is gone.
  bool send();
  std::optional<std::string> next_frame();
  void lose();

  const descriptor connection_;
  const descriptor wake_;  ///< eventfd
  const std::chrono::milliseconds beat_;
  const bool output_is_terminal_;
  std::atomic<int> columns_;

  // Used only by the thread.
  frame_reader received_;
  std::string sending_;  ///< the rest of a frame
  bool beat_is_due_ = false, last_taken_ = false;

  std::mutex mutex_;  ///< protects the members below
  std::condition_variable changed_;
  std::deque<line_told> lines_;
  std::optional<std::string> status_line_;  ///< not sent yet
  std::optional<end_told> last_;
  std::uint64_t dropped_ = 0;
  bool gone_ = false, sent_all_ = false, stop_ = false;

  std::mutex asked_mutex_;  ///< held during the callback
  std::function<void(const std::string&)> whom_;
  std::optional<std::string> asked_;

  std::jthread thread_;
};

}  // namespace troupe::runtime
