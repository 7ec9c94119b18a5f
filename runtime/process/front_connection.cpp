#include "runtime/process/front_connection.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_lines = 8192;

/// Blocks signals in threads that start meanwhile: the thread that reads signals may not run yet.
class signals_blocked {
 public:
  signals_blocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace

front_connection::front_connection(descriptor connection,
                                   std::chrono::milliseconds beat,
                                   const front_terminal& terminal)
    : connection_(std::move(connection)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      beat_(beat),
      output_is_terminal_(terminal.output),
      columns_(terminal.status_line_columns) {
  if (!wake_)
    throw io_error("cannot communicate with the front of the run: {}", system_message(errno));
  const signals_blocked meanwhile;
  thread_ = start_thread("front", [this] { loop(); });
}

front_connection::~front_connection() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void front_connection::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.number(), &one, sizeof one);
}

void front_connection::take(severity level, std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    if (gone_)
      return;
    if (lines_.size() == most_lines) {
      lines_.pop_front();
      ++dropped_;
    }
    lines_.push_back({level, std::string(text)});
  }
  wake();
}

void front_connection::take_status_line(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    if (gone_)
      return;
    status_line_ = std::string(text);
  }
  wake();
}

void front_connection::tell_of_end_asked(std::function<void(const std::string& why)> whom) {
  const std::lock_guard lock(asked_mutex_);
  whom_ = std::move(whom);
  if (whom_ && asked_)
    whom_(*asked_);
}

void front_connection::carry_out(const end_asked& x) {
  const std::lock_guard lock(asked_mutex_);
  if (std::exchange(asked_, x.why))
    return;
  if (whom_)
    whom_(x.why);
}

void front_connection::end(const end_told& how, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  last_ = how;
  wake();
  changed_.wait_for(lock, patience, [this] { return gone_ || sent_all_; });
}

void front_connection::lose() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  lines_.clear();
  changed_.notify_all();
}

void front_connection::loop() {
  for (;;) {
    if (!send())
      return lose();
    pollfd wait[2] = {{wake_.number(), POLLIN, 0},
                      {connection_.number(), short(POLLIN | (sending_.empty() ? 0 : POLLOUT)), 0}};
    const int ready = ::poll(wait, 2, int(beat_.count()));
    if (ready < 0 && errno != EINTR)
      return lose();
    std::uint64_t count = 0;
    [[maybe_unused]] const auto woken = ::read(wake_.number(), &count, sizeof count);
    beat_is_due_ = ready == 0;
    {
      const std::lock_guard lock(mutex_);
      if (stop_)
        return;
    }
    if ((wait[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !receive())
      return lose();
  }
}

bool front_connection::receive() {
  std::array<char, 4096> bytes;
  const auto size = ::recv(connection_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR;
  if (size == 0)
    return false;
  try {
    received_.feed({bytes.data(), std::size_t(size)});
    while (const auto text = received_.next())
      std::visit([this](const auto& x) { carry_out(x); }, read_front_request(*text));
  } catch (const error&) {
    return false;  // an invalid message: not a front
  }
  return true;
}

/// The count of dropped lines comes before the lines that followed them.
std::optional<std::string> front_connection::next_frame() {
  const std::lock_guard lock(mutex_);
  supervisor_told next = still_there{};
  if (dropped_ > 0) {
    next = line_told{severity::warning,
                     fmt::format("{} log lines came too fast to be shown; the run's logs have them",
                                 std::exchange(dropped_, 0))};
  } else if (!lines_.empty()) {
    next = std::move(lines_.front());
    lines_.pop_front();
  } else if (status_line_) {
    next = status_line_told{std::move(*status_line_)};
    status_line_.reset();
  } else if (last_ && !last_taken_) {
    next = *last_;
    last_taken_ = true;
  } else {
    if (last_taken_) {
      sent_all_ = true;
      changed_.notify_all();
    }
    if (!std::exchange(beat_is_due_, false))
      return std::nullopt;
  }
  return frame_of(text_of(next));
}

bool front_connection::send() {
  for (;;) {
    if (sending_.empty()) {
      auto next = next_frame();
      if (!next)
        return true;
      sending_ = std::move(*next);
    }
    const auto sent = ::send(
        connection_.number(), sending_.data(), sending_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      return errno == EAGAIN;
    sending_.erase(0, std::size_t(sent));
  }
}

}  // namespace troupe::runtime
