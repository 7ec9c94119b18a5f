#include "runtime/process/arbiter.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/process_id.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::runtime {

namespace fs = std::filesystem;

arbiter::arbiter(const fs::path& save, const std::string& run_id)
    : folder_(save / ".succession" / run_id) {}

fs::path arbiter::file_of(std::uint32_t round) const {
  return folder_ / fmt::format("round-{}", round);
}

void arbiter::open() const {
  make_folder(folder_);
}

bool arbiter::is_seen() const {
  std::error_code failure;
  return fs::is_directory(folder_, failure);
}

// ARBITER-1: the system makes it once.
bool arbiter::claim(std::uint32_t round, const std::string& who) const {
  const auto file = file_of(round);
  const descriptor made(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!made && errno == EEXIST)
    return winner(round) == who;
  // Who wins and could not say who it is has won all the same; only it cannot win once more.
  if (!made || ::write(made.number(), who.data(), who.size()) < 0 || ::fsync(made.number()) != 0)
    throw io_error("cannot write '{}', which decides who goes on with the run: {}",
                   file.string(),
                   system_message(errno));
  return true;
}

std::string arbiter::winner(std::uint32_t round) const {
  std::error_code failure;
  const auto file = file_of(round);
  if (!fs::exists(file, failure))
    return {};
  try {
    const auto out = read_text(file);
    return out.empty() ? "a process that has not said who it is" : out;
  } catch (const error&) {
    return {};
  }
}

void arbiter::remove() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(folder_.parent_path(), ignored);  // where it was the last
}

std::string contender(const fs::path& run) {
  return fmt::format("host '{}', '{}'", host_name(), run.string());
}

}  // namespace troupe::runtime
