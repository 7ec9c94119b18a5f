#include "actors/simulation/seed_workers.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace troupe::actors::simulation {
namespace {

struct child {
  pid_t process = -1;
  int from = -1;
  std::string unread = {};
  std::uint64_t seed = 0;  ///< the current one
  std::vector<std::string> wrong = {};
  bool ended = false;
};

void say(int to, const std::string& line) {
  for (std::size_t done = 0; done < line.size();) {
    const auto n = ::write(to, line.data() + done, line.size() - done);
    if (n < 0 && errno != EINTR)
      ::_exit(1);  // the parent has closed the pipe
    done += n > 0 ? std::size_t(n) : 0;
  }
}

std::string on_one_line(std::string text) {
  for (auto& c : text)
    if (c == '\n')
      c = ' ';
  return text;
}

/// Writes "begin SEED", "wrong SEED TEXT" for each violation, "end SEED TURNS DIED BROKE".
[[noreturn]] void work(const search_settings& settings, int number, int to) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    seed_judge judge(settings.folder / std::to_string(number));
    for (auto seed = settings.first + std::uint64_t(number); seed <= settings.last;
         seed += std::uint64_t(settings.jobs)) {
      say(to, fmt::format("begin {}\n", seed));
      const auto verdict = judge.judge(seed);
      for (const auto& x : verdict.wrong)
        say(to, fmt::format("wrong {} {}\n", seed, on_one_line(x)));
      say(to,
          fmt::format("end {} {} {:d} {:d}\n", seed, verdict.turns, verdict.died, verdict.broke));
    }
  } catch (const std::exception& failure) {
    say(to, fmt::format("broken {}\n", on_one_line(failure.what())));
  }
  ::_exit(0);
}

child start(const search_settings& settings, int number) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw runtime::io_error("cannot make a pipe: {}", runtime::system_message(errno));
  const auto process = ::fork();
  if (process < 0)
    throw runtime::io_error("cannot start a process: {}", runtime::system_message(errno));
  if (process == 0)
    work(settings, number, ends[1]);
  ::close(ends[1]);
  return {.process = process, .from = ends[0]};
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("the run crashes: {}", ::strsignal(WTERMSIG(status)));
  return fmt::format("the run ends the process, with exit code {}", WEXITSTATUS(status));
}

/// The child processes of a search, until all have ended.
class crew {
 public:
  explicit crew(const search_settings& settings) : settings_(settings) {
    for (int i = 0; i < settings.jobs; ++i)
      children_.push_back(start(settings, i));
  }
  ~crew() {
    for (const auto& x : children_)
      if (!x.ended) {
        ::kill(x.process, SIGKILL);
        ::waitpid(x.process, nullptr, 0);
        ::close(x.from);
      }
  }
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  search_result run() {
    while (!out_.failure && listen()) {
      if (settings_.progress)
        settings_.progress(out_.done);
    }
    return std::move(out_);
  }

 private:
  bool listen() {
    std::vector<pollfd> all;
    std::vector<child*> whose;
    for (auto& x : children_)
      if (!x.ended) {
        all.push_back({x.from, POLLIN, 0});
        whose.push_back(&x);
      }
    if (all.empty())
      return false;
    ::poll(all.data(), all.size(), 100);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].revents != 0)
        read(*whose[i]);
    return true;
  }

  void read(child& from) {
    std::array<char, 4096> piece{};
    const auto n = ::read(from.from, piece.data(), piece.size());
    if (n < 0 && errno == EINTR)
      return;
    if (n <= 0)
      return end(from);
    from.unread.append(piece.data(), std::size_t(n));
    for (auto stop = from.unread.find('\n'); stop != std::string::npos;
         stop = from.unread.find('\n')) {
      take(from, from.unread.substr(0, stop));
      from.unread.erase(0, stop + 1);
    }
  }

  void take(child& from, const std::string& line) {
    const auto word = line.substr(0, line.find(' '));
    const auto rest = line.substr(std::min(line.size(), word.size() + 1));
    std::size_t used = 0;
    if (word == "broken")
      return fail(from.seed, rest);
    const auto seed = std::stoull(rest, &used);
    if (word == "begin") {
      from.seed = seed;
    } else if (word == "wrong") {
      from.wrong.push_back(rest.substr(used + 1));
    } else {
      from.seed = 0;
      ++out_.done;
      const auto counts = rest.substr(used + 1);
      out_.turns += std::stoull(counts, &used);
      const auto what = counts.substr(used + 1);
      out_.deaths += what.starts_with('1') ? 1 : 0;
      out_.breaks += what.ends_with('1') ? 1 : 0;
      if (!from.wrong.empty() && !out_.failure)
        out_.failure = found_failure{seed, std::exchange(from.wrong, {})};
    }
  }

  void fail(std::uint64_t seed, std::string why) {
    if (!out_.failure)
      out_.failure = found_failure{seed, {std::move(why)}};
  }

  void end(child& x) {
    int status = 0;
    ::waitpid(x.process, &status, 0);
    ::close(x.from);
    x.ended = true;
    if (x.seed != 0 || status != 0)
      fail(x.seed, how_it_ended(status));
  }

  const search_settings& settings_;
  std::vector<child> children_;
  search_result out_;
};

}  // namespace

search_result search(const search_settings& settings) {
  return crew(settings).run();
}

}  // namespace troupe::actors::simulation
