// The supervisor's process at its end of the connection with the front that shows the run.

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

/// The front's terminal, at its start.
struct front_terminal {
  int status_line_columns = 0;
  bool output = false;
};

/// Has a thread of its own, which alone sends and receives. Any thread calls.
///
///   SHOWN-1  Nobody in this process waits for the front, whether it reads, stands still or is
///            gone, but for the bounded wait of `end`: of more than 8,192 lines that wait the
///            oldest are dropped, and the front is told how many.
class front_connection final : public log_reader {
 public:
  /// A sign of life goes out at least every `beat`.
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

  /// Whom to tell that the run is to end, and why: at once, if that was asked for before; from the
  /// thread of this object. Empty: nobody from now on, and no call is under way when this returns.
  void tell_of_end_asked(std::function<void(const std::string& why)> whom);

  /// The last message, but for signs of life, which go on until the end of this object: what still
  /// has to be written may take longer than the suspicion. Waits until the front has all, or is
  /// gone, at most so long.
  void end(const end_told& how, std::chrono::milliseconds patience);

 private:
  void loop();
  void wake() const;
  bool receive();
  void carry_out(const end_asked& x);
  void carry_out(const terminal_resized& x) { columns_ = x.columns; }
  /// False: the front is gone.
  bool send();
  std::optional<std::string> next_frame();
  void lose();

  const descriptor connection_;
  const descriptor wake_;  ///< eventfd
  const std::chrono::milliseconds beat_;
  const bool output_is_terminal_;
  std::atomic<int> columns_;

  // Of the thread alone.
  frame_reader received_;
  std::string sending_;  ///< what is left of a frame
  bool beat_is_due_ = false, last_taken_ = false;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<line_told> lines_;
  std::optional<std::string> status_line_;  ///< the newest that was not sent
  std::optional<end_told> last_;
  std::uint64_t dropped_ = 0;
  bool gone_ = false, sent_all_ = false, stop_ = false;

  std::mutex asked_mutex_;  ///< held while somebody is told
  std::function<void(const std::string&)> whom_;
  std::optional<std::string> asked_;

  std::jthread thread_;
};

}  // namespace troupe::runtime
