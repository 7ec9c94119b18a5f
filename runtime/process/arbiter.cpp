#include "runtime/process/arbiter.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::runtime {

namespace fs = std::filesystem;

namespace {

/// Unlinks a file at the end of its scope.
class temporary_name {
 public:
  explicit temporary_name(fs::path path) : path_(std::move(path)) {}
  ~temporary_name() { ::unlink(path_.c_str()); }
  temporary_name(const temporary_name&) = delete;
  temporary_name& operator=(const temporary_name&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

contender end_of(const contender& x) {
  return {x.token + ".end", fmt::format("this run has ended on host '{}'", host_name())};
}

std::string bytes_of(const contender& x) {
  return x.token + '\n' + x.text + '\n';
}

contender contender_in(const std::string& bytes, const fs::path& file) {
  const auto first = bytes.find('\n');
  const bool is_whole
      = first != std::string::npos && bytes.size() > first + 1 && bytes.back() == '\n';
  if (!is_whole)
    throw io_error("'{}' is damaged; it decides which host continues the run", file.string());
  return {bytes.substr(0, first), bytes.substr(first + 1, bytes.size() - first - 2)};
}

/// 0, or errno.
int write_aside(const fs::path& file, const std::string& text) {
  const descriptor to(::open(
      file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!to)
    return errno;
  const auto written = ::write(to.number(), text.data(), text.size());
  if (written < 0)
    return errno;
  if (written < ssize_t(text.size()))
    return ENOSPC;
  return ::fsync(to.number()) == 0 ? 0 : errno;
}

}  // namespace

contender contender_of(const fs::path& run) {
  const auto file = run / "contender";
  std::error_code failure;
  if (!fs::exists(file, failure))
    replace_file(file, new_token());
  return {read_text(file),
          fmt::format("host '{}' leads this run, in '{}'",
                      host_name(),
                      fs::absolute(run).lexically_normal().string())};
}

arbiter::arbiter(const fs::path& save, const std::string& run_id)
    : folder_(save / ".succession" / run_id) {}

fs::path arbiter::file_of(std::uint32_t round) const {
  return folder_ / fmt::format("round-{}", round);
}

fs::path arbiter::prepared_of(const contender& who) const {
  return folder_ / ("by-" + who.token);
}

fs::path arbiter::aside() const {
  return folder_ / (".aside-" + new_token());
}

void arbiter::refuse(const fs::path& name, int failure) const {
  throw io_error("cannot create '{}', which decides which host continues the run: {}",
                 name.string(),
                 system_message(failure));
}

void arbiter::open(const contender& who) const {
  make_folder(folder_);
  prepare(who);
  prepare(end_of(who));
  claim(1, who);
}

void arbiter::forget_others() const {
  std::error_code ignored;
  for (const auto& other : fs::directory_iterator(folder_.parent_path(), ignored))
    if (other.path().filename() != folder_.filename())
      fs::remove_all(other.path(), ignored);
}

void arbiter::prepare(const contender& who) const {
  const auto file = prepared_of(who);
  std::error_code failure;
  if (!fs::exists(file, failure)) {
    const temporary_name whole(aside());
    if (const int refused = write_aside(whole.path(), bytes_of(who)); refused != 0)
      refuse(file, refused);
    if (::link(whole.path().c_str(), file.c_str()) != 0 && errno != EEXIST)
      refuse(file, errno);
  }
  const temporary_name trial(aside());
  if (::link(file.c_str(), trial.path().c_str()) != 0)
    refuse(trial.path(), errno);
}

bool arbiter::is_seen() const {
  std::error_code failure;
  return fs::is_directory(folder_, failure);
}

bool arbiter::is_replaced() const {
  std::error_code failure;
  if (fs::status(folder_, failure).type() != fs::file_type::not_found)
    return false;
  const fs::directory_iterator others(folder_.parent_path(), failure);
  return !failure && others != fs::directory_iterator();
}

// 0, or errno. link(2) creates a name once, for a complete file.
int arbiter::give_name(const fs::path& name, const contender& who) const {
  if (::link(prepared_of(who).c_str(), name.c_str()) == 0)
    return 0;
  if (errno != ENOENT)
    return errno;
  const temporary_name whole(aside());
  if (const int refused = write_aside(whole.path(), bytes_of(who)); refused != 0)
    return refused;
  return ::link(whole.path().c_str(), name.c_str()) == 0 ? 0 : errno;
}

// ARBITER-1. NFS may lose the answer; the file then shows the winner.
bool arbiter::claim(std::uint32_t round, const contender& who) const {
  const auto file = file_of(round);
  const int failure = give_name(file, who);
  if (failure == EEXIST)
    return winner(round) == who;
  if (failure != 0)
    refuse(file, failure);
  return true;
}

std::optional<contender> arbiter::winner(std::uint32_t round) const {
  const auto file = file_of(round);
  std::error_code failure;
  if (!is_seen())
    throw io_error("'{}' does not exist; it decides which host continues the run",
                   folder_.string());
  if (!fs::exists(file, failure) && !failure)
    return std::nullopt;
  try {
    return contender_in(read_text(file), file);
  } catch (const error& refused) {
    throw io_error("{}", refused.what());
  }
}

// An NFS client caches missing names until it changes the folder itself.
std::optional<contender> arbiter::winner_now(std::uint32_t round) const {
  if (auto known = winner(round))
    return known;
  {
    const temporary_name change(aside());
    if (const int refused = write_aside(change.path(), {}); refused != 0)
      refuse(change.path(), refused);
  }
  return winner(round);
}

std::optional<contender> arbiter::leader() const {
  std::optional<contender> out;
  for (std::uint32_t round = 1;; ++round) {
    auto winner = winner_now(round);
    if (!winner)
      return out;
    out = open_round(round) == round ? std::move(winner) : std::nullopt;
  }
}

bool arbiter::end(const contender& by) const {
  std::uint32_t next = 1;
  while (winner_now(next))
    ++next;
  return leader() == by && claim(next, end_of(by));
}

void arbiter::resign(std::uint32_t round, const contender& who) const {
  const auto name = file_of(round).string() + ".resigned";
  const int failure = give_name(name, who);
  if (failure != 0 && failure != EEXIST)
    refuse(name, failure);
}

std::uint32_t arbiter::open_round(std::uint32_t first) const {
  std::error_code failure;
  while (fs::exists(file_of(first).string() + ".resigned", failure))
    ++first;
  return first;
}

void arbiter::resign_all(std::uint32_t first, const contender& who) const {
  for (auto round = open_round(first); winner_now(round) == who; round = open_round(round))
    resign(round, who);
}

void arbiter::remove() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(folder_.parent_path(), ignored);  // succeeds when this was the last run
}

}  // namespace troupe::runtime
