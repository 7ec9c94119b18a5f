#include "runtime/process/supervisor_process.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/orphaned_agents.hpp"
#include "runtime/process/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr int beats_in_suspicion = 5;
constexpr int beats_to_begin = 10 * beats_in_suspicion;
/// Patience with an agent when the caller wants the end at once.
constexpr auto patience_at_once = milliseconds(1000);
constexpr auto between_waits = milliseconds(100);

milliseconds in_milliseconds(double seconds) {
  return std::max(milliseconds(1),
                  std::chrono::ceil<milliseconds>(std::chrono::duration<double>(seconds)));
}

descriptor file_with(const std::string& text) {
  descriptor out(::memfd_create("troupe-order", MFD_CLOEXEC));
  for (std::size_t at = 0; out && at < text.size();) {
    const auto more = ::write(out.number(), text.data() + at, text.size() - at);
    if (more < 0 && errno != EINTR)
      out.close();
    at += more > 0 ? std::size_t(more) : 0;
  }
  if (!out || ::lseek(out.number(), 0, SEEK_SET) != 0)
    throw io_error("cannot hand the job to the supervisor process: {}", system_message(errno));
  return out;
}

}  // namespace

milliseconds beat_of(double suspicion) {
  return std::max(milliseconds(1), in_milliseconds(suspicion) / beats_in_suspicion);
}

supervisor_process::supervisor_process(double suspicion)
    : suspicion_(in_milliseconds(suspicion)),
      beat_(beat_of(suspicion)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_ || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw io_error("cannot prepare the supervisor process: {}", system_message(errno));
}

supervisor_process::~supervisor_process() {
  if (child_)
    child_->leave();
}

void supervisor_process::start(const std::vector<std::string>& command, const std::string& order) {
  auto [ours, its] = socket_pair();
  const auto file = file_with(order);
  std::vector<int> inherited{its.number(), file.number()};
  if (::fcntl(STDERR_FILENO, F_GETFD) >= 0)
    inherited.push_back(STDERR_FILENO);
  child_.emplace(child_program{.command = command, .inherited = inherited});
  connection_ = std::move(ours);
  received_ = {};
  end_.reset();
  silence_.clear();
  begun_ = ends_ = false;
  ending_ = {};
  columns_ = status_line_columns();
}

std::optional<supervisor_told> supervisor_process::next_received() {
  while (const auto text = received_.next()) {
    auto told = read_supervisor_told(*text);
    ends_ = ends_ || std::holds_alternative<end_told>(told);
    if (!std::holds_alternative<still_there>(told))
      return told;
  }
  return std::nullopt;
}

std::optional<supervisor_told> supervisor_process::next() {
  // Counts only time in which this process ran: after a pause, the child's messages of that time
  // are still unread.
  for (int silent = 0; !end_;) {
    if (auto told = next_received())
      return told;
    carry_out_requests();
    pollfd wait[2] = {{connection_.number(), POLLIN, 0}, {wake_.number(), POLLIN, 0}};
    const auto before = clock::now();
    const int ready = ::poll(wait, 2, int(beat_.count()));
    if (ends_)
      ending_ += std::min<clock::duration>(beat_, clock::now() - before);
    if (ready < 0)
      continue;
    if (wait[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto read = ::read(wake_.number(), &count, sizeof count);
    }
    if (ready == 0 && ++silent >= (begun_ ? beats_in_suspicion : beats_to_begin)) {
      const auto facts = look_at_process(id().pid);
      give_up(fmt::format(
          "sent no heartbeat for {} s{}",
          std::chrono::duration<double>(beat_ * silent).count(),
          facts && (facts->state == 'T' || facts->state == 't') ? " (it is stopped)" : ""));
      break;
    }
    if (left_to_end() <= clock::duration(0)) {
      give_up(fmt::format("had not ended {} s after it announced its end",
                          std::chrono::duration<double>(ending_).count()));
      break;
    }
    if (wait[0].revents == 0)
      continue;
    std::array<char, 65536> bytes;
    const auto size = ::recv(connection_.number(), bytes.data(), bytes.size(), 0);
    if (size > 0) {
      silent = 0;
      begun_ = true;
      received_.feed({bytes.data(), std::size_t(size)});
    } else if (size == 0 || errno != EINTR) {
      conclude();
    }
  }
  return next_received();
}

void supervisor_process::give_up(std::string silence) {
  silence_ = std::move(silence);
  child_->signal_group(SIGKILL);
  conclude();
}

void supervisor_process::conclude() {
  connection_.close();
  // The child closes its connection at its end, or shortly before when it has announced the end.
  const auto until = clock::now()
                     + (ends_ ? std::max<clock::duration>(suspicion_, left_to_end())
                              : clock::duration(suspicion_));
  while (!(end_ = child_->wait(std::min(beat_, between_waits))) && clock::now() < until)
    carry_out_requests();
  if (!end_) {
    child_->signal_group(SIGKILL);
    end_ = child_->wait();
  }
}

void supervisor_process::send(const front_request& x) {
  const auto text = frame_of(text_of(x));
  // A full buffer means that the child does not read; it is then killed for its silence.
  [[maybe_unused]] const auto sent
      = ::send(connection_.number(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void supervisor_process::carry_out_requests() {
  std::vector<std::string> asked;
  bool to_be_killed;
  {
    const std::lock_guard lock(mutex_);
    asked.swap(asked_);
    to_be_killed = kill_;
  }
  for (auto& why : asked)
    send(end_asked{std::move(why)});
  if (to_be_killed)
    child_->signal_group(SIGKILL);
  take_columns();
}

void supervisor_process::take_columns() {
  if (const int now = status_line_columns(); now != columns_)
    send(terminal_resized{columns_ = now});
}

void supervisor_process::ask_to_end(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(why);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.number(), &one, sizeof one);
}

void supervisor_process::kill() {
  {
    const std::lock_guard lock(mutex_);
    kill_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.number(), &one, sizeof one);
}

void supervisor_process::end_what_is_left(const std::filesystem::path& run, bool at_once) {
  // SHOWN-3: this process is a subreaper, so it sees when no orphan is left.
  end_agents_of(run, at_once ? std::min(suspicion_, patience_at_once) : suspicion_, suspicion_);
}

}  // namespace troupe::runtime
