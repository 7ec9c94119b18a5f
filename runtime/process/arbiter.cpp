#include "runtime/process/arbiter.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
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

arbiter::arbiter(const fs::path& save, const std::string& run_id)
    : folder_(save / ".succession" / run_id) {}

fs::path arbiter::file_of(std::uint32_t round) const {
  return folder_ / fmt::format("round-{}", round);
}

void arbiter::open(const std::string& who) const {
  std::error_code ignored;
  fs::remove_all(folder_.parent_path(), ignored);
  make_folder(folder_);
  claim(1, who);
}

bool arbiter::is_seen() const {
  std::error_code failure;
  return fs::is_directory(folder_, failure);
}

void arbiter::write_aside(const fs::path& file, const std::string& text) const {
  const descriptor to(::open(
      file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  const bool whole = to && ::write(to.number(), text.data(), text.size()) == ssize_t(text.size())
                     && ::fsync(to.number()) == 0;
  if (!whole)
    throw io_error("cannot write '{}', which decides who goes on with the run: {}",
                   file.string(),
                   system_message(errno));
}

// ARBITER-1: the system gives a name once, and to a file that is complete. The answer of NFS may be
// lost on its way: then what stands there says who has won.
bool arbiter::claim(std::uint32_t round, const std::string& who) const {
  const auto file = file_of(round);
  const auto aside = folder_ / fmt::format(".{}.{}", file.filename().string(), new_token());
  write_aside(aside, who);
  const bool linked = ::link(aside.c_str(), file.c_str()) == 0;
  const int failure = errno;
  std::error_code ignored;
  fs::remove(aside, ignored);
  if (linked)
    return true;
  if (failure == EEXIST)
    return winner(round) == who;
  throw io_error("cannot make '{}', which decides who goes on with the run: {}",
                 file.string(),
                 system_message(failure));
}

std::string arbiter::winner(std::uint32_t round) const {
  const auto file = file_of(round);
  std::error_code failure;
  if (!is_seen())
    throw io_error("'{}' is not there, which decides who goes on with the run", folder_.string());
  if (!fs::exists(file, failure) && !failure)
    return {};
  try {
    return read_text(file);
  } catch (const error& refused) {
    throw io_error("{}", refused.what());
  }
}

void arbiter::resign(std::uint32_t round) const {
  write_aside(file_of(round).string() + ".resigned", "");
}

std::uint32_t arbiter::open_round(std::uint32_t first) const {
  std::error_code failure;
  while (fs::exists(file_of(first).string() + ".resigned", failure))
    ++first;
  return first;
}

void arbiter::remove() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(folder_.parent_path(), ignored);  // where it was the last
}

std::string contender(const fs::path& run) {
  const auto file = run / "contender";
  std::error_code failure;
  if (!fs::exists(file, failure))
    replace_file(file, new_token());
  return fmt::format("host '{}', '{}' ({})", host_name(), run.string(), read_text(file));
}

}  // namespace troupe::runtime
