#include "runtime/process/run_folder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/process/fields.hpp"
#include "runtime/process/temporary_run.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <fmt/chrono.h>
#include <iomanip>
#include <sstream>
#include <sys/random.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace troupe::runtime {
namespace {

constexpr std::size_t digits_of_token = 16;

namespace fs = std::filesystem;

constexpr std::int64_t record_version = 1;
constexpr const char* record_file = "run.json";
constexpr const char* lock_file = "lock";
constexpr const char* asked_to_end = "asked-to-end.";
constexpr const char* claimed = "claimed.";
constexpr mode_t others = S_IRWXG | S_IRWXO;

/// Throws unless this user owns the folder and no other user may enter it.
void require_own(const fs::path& path) {
  struct stat about = {};
  if (::lstat(path.c_str(), &about) != 0)
    throw input_error(
        "cannot use '{}' as the folder of a run: {}", path.string(), system_message(errno));
  const auto refuse = [&](const std::string& why) {
    throw input_error("cannot use '{}' as the folder of a run: {}", path.string(), why);
  };
  if (S_ISLNK(about.st_mode))
    refuse("it is a link; name the folder itself");
  if (!S_ISDIR(about.st_mode))
    refuse("it is not a folder");
  if (about.st_uid != ::geteuid())
    refuse(
        fmt::format("user {} owns it, and this is user {}; run the command as its owner, or name "
                    "another folder",
                    about.st_uid,
                    ::geteuid()));
  if ((about.st_mode & others) != 0)
    refuse(fmt::format("others may enter it (mode {:04o}); `chmod 700` it, or choose another",
                       about.st_mode & 07777));
}

bool has_nothing(const fs::path& folder) {
  std::error_code failure;
  const bool out = fs::is_empty(folder, failure);
  if (failure)
    throw io_error("cannot list '{}': {}", folder.string(), failure.message());
  return out;
}

void remove_tree(const fs::path& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure)
    throw io_error("cannot remove '{}': {}", path.string(), failure.message());
}

descriptor open_lock(const fs::path& folder, int more) {
  return descriptor(::open(
      (folder / lock_file).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | more, S_IRUSR | S_IWUSR));
}

/// A lock of the open file, not of the process, so that it can be tested without being taken.
struct flock whole_file() {
  struct flock out = {};
  out.l_type = F_WRLCK;
  out.l_whence = SEEK_SET;
  return out;
}

/// Writes this process's pid into the lock file, for error messages of others.
void sign(const descriptor& lock) {
  const auto pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.number(), 0) == 0)
    static_cast<void>(::pwrite(lock.number(), pid.data(), pid.size(), 0) == 0);
}

descriptor hold(const fs::path& folder) {
  auto out = open_lock(folder, O_CREAT);
  auto whole = whole_file();
  if (out && ::fcntl(out.number(), F_OFD_SETLK, &whole) == 0) {
    sign(out);
    return out;
  }
  if (out && (errno == EAGAIN || errno == EACCES))
    throw input_error(
        "cannot use '{}' as the folder of a run: another run uses it ({}); end "
        "it, or choose another folder",
        folder.string(),
        holder_of(out.number()));
  throw io_error("cannot lock '{}': {}", (folder / lock_file).string(), system_message(errno));
}

fs::path claim_file(const fs::path& folder, const std::string& run_id, const std::string& what) {
  return folder / fmt::format("{}{}.{}", claimed, run_id, what);
}

/// Removes what an earlier run left. Keeps one generation of logs.
void clear(const run_folder& of) {
  for (const auto& folder : {of.processes(), of.sockets(), of.credentials()})
    remove_tree(folder);
  for (const auto& file : {of.order(),
                           of.description(),
                           of.rendezvous(),
                           of.read_token(),
                           of.control_token(),
                           of.path() / temporary_marker,
                           of.path() / "contender"})
    remove_tree(file);
  std::error_code failure;
  for (const auto& file : fs::directory_iterator(of.path(), failure)) {
    const auto name = file.path().filename().string();
    if (name.starts_with(asked_to_end) || name.starts_with(claimed))
      remove_tree(file.path());
  }
  if (fs::exists(of.logs(), failure) && !has_nothing(of.logs())) {
    const auto before = of.path() / "logs.before";
    remove_tree(before);
    fs::rename(of.logs(), before, failure);
    if (failure)
      throw io_error("cannot rename '{}': {}", of.logs().string(), failure.message());
  }
}

}  // namespace

fs::path run_folder::asked_to_end_file(const process_id& whom) const {
  return path_ / fmt::format("{}{}.{}", asked_to_end, whom.pid, whom.start_time);
}

bool run_folder::claim(const std::string& run_id, const std::string& what) const {
  const auto file = claim_file(path_, run_id, what);
  const descriptor made(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!made && errno != EEXIST)
    throw io_error("cannot make '{}': {}", file.string(), system_message(errno));
  if (!made)
    return false;
  const auto now = fmt::format(
      "{}\n", std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  static_cast<void>(::write(made.number(), now.data(), now.size()) == 0);  // only to be known
  return true;
}

std::optional<std::uint64_t> run_folder::claimed_at(const std::string& run_id,
                                                    const std::string& what) const {
  std::error_code failure;
  const auto file = claim_file(path_, run_id, what);
  if (!fs::exists(file, failure))
    return std::nullopt;
  return std::strtoull(read_text(file).c_str(), nullptr, 10);
}

std::string new_token() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != ssize_t(sizeof bits))
    throw io_error("the system gives no random numbers: {}", system_message(errno));
  return fmt::format("{:016x}", bits);
}

void make_own_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw io_error("cannot make the folder '{}': {}", path.string(), system_message(errno));
  require_own(path);
}

fs::path new_temporary_folder() {
  auto name = (fs::temp_directory_path() / "troupe-run-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw io_error("cannot make the folder '{}': {}", name, system_message(errno));
  return name;
}

std::string time_of_day() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

std::int64_t unix_seconds(const std::string& utc) {
  std::tm out = {};
  std::istringstream(utc) >> std::get_time(&out, "%Y-%m-%dT%H:%M:%SZ");
  return ::timegm(&out);
}

namespace {

std::string partial_of(const fs::path& path) {
  return path.string() + ".partial";
}

}  // namespace

void remove_replaced(const fs::path& path) {
  ::unlink(path.c_str());
  ::unlink(partial_of(path).c_str());
}

void replace_file(const fs::path& path, std::string_view text) {
  const auto partial = partial_of(path);
  descriptor file(::open(
      partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  const auto written = file ? ::write(file.number(), text.data(), text.size()) : -1;
  if (written >= 0 && std::size_t(written) < text.size())
    errno = ENOSPC;  // a short write has no errno
  if (written != ssize_t(text.size()) || ::rename(partial.c_str(), path.c_str()) != 0)
    throw io_error("cannot write '{}': {}", path.string(), system_message(errno));
}

std::string text_of(const run_record& x) {
  nlohmann::json out = {{"version", record_version},
                        {"id", x.id},
                        {"program", x.program},
                        {"command", x.command},
                        {"started", x.started}};
  if (x.ended)
    out["ended"]
        = {{"exit_code", x.ended->exit_code}, {"reason", x.ended->reason}, {"at", x.ended->at}};
  return json_text_replacing(out, 1) + "\n";
}

run_record read_run_record(std::string_view text, const std::string& what) {
  const auto x = read_object(text, what);
  const auto version = whole_field(x, "version", what, 0);
  if (version != record_version)
    throw input_error(
        "{}: it has version {}, but this program reads version {}", what, version, record_version);
  run_record out{.id = text_field(x, "id", what),
                 .program = text_field(x, "program", what),
                 .command = texts_field(x, "command", what),
                 .started = text_field(x, "started", what),
                 .ended = {}};
  if (out.id.size() != digits_of_token
      || out.id.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw input_error(
        "{}: `id` is '{}', but must be {} hexadecimal digits", what, out.id, digits_of_token);
  if (x.contains("ended")) {
    constexpr int most = 255;
    const auto& end = object_field(x, "ended", what);
    out.ended = run_end{.exit_code = int(whole_field(end, "exit_code", what, 0, most)),
                        .reason = text_field(end, "reason", what),
                        .at = text_field(end, "at", what)};
  }
  return out;
}

run_folder run_folder::open(const fs::path& path) {
  run_folder out(path);
  std::error_code failure;
  if (fs::is_directory(path, failure) && !fs::exists(path / record_file, failure) && !failure)
    static_cast<void>(out.record());  // reports the missing run.json first: chmod cannot make it
  require_own(path);
  static_cast<void>(out.record());
  return out;
}

run_folder run_folder::copy(const fs::path& path, const run_record& record) {
  make_own_folder(path);
  run_folder out(path);
  for (const auto& folder : {out.processes(), out.logs(), out.sockets()})
    make_own_folder(folder);
  if (!open_lock(path, O_CREAT))
    throw io_error("cannot make '{}': {}", (path / lock_file).string(), system_message(errno));
  replace_file(path / record_file, text_of(record));
  return out;
}

std::string run_folder::name() const {
  const auto full = fs::absolute(path_).lexically_normal();
  const auto of = full.has_filename() ? full : full.parent_path();  // "runs/a/" ends without one
  const auto name = of.filename().string();
  return name.starts_with('.') ? of.parent_path().filename().string() : name;
}

fs::path run_folder::log_of(const std::string& process) const {
  return logs() / (process + ".log");
}

run_record run_folder::record() const {
  const auto file = path_ / record_file;
  std::error_code failure;
  if (!fs::exists(file, failure))
    throw input_error("'{}' is not the folder of a run: it has no {}", path_.string(), record_file);
  return read_run_record(read_text(file), "'" + file.string() + "'");
}

bool run_folder::is_held() const {
  const auto lock = open_lock(path_, 0);
  auto whole = whole_file();
  return lock && ::fcntl(lock.number(), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

held_run_folder::held_run_folder(const fs::path& path,
                                 const std::string& program,
                                 const std::vector<std::string>& command)
    : run_folder(path.has_filename() ? path : path.parent_path()) {
  if (path_.has_parent_path())
    make_folder(path_.parent_path());
  make_own_folder(path_);
  std::error_code failure;
  const bool anew = !fs::exists(path_ / record_file, failure);
  if (anew && !fs::exists(path_ / lock_file, failure) && !has_nothing(path_))
    throw input_error(
        "cannot use '{}' as the folder of a run: it has files and no {}; choose another",
        path_.string(),
        record_file);
  lock_ = hold(path_);
  clear(*this);
  for (const auto& folder : {processes(), logs(), sockets()})
    make_own_folder(folder);
  const run_record record{.id = new_token(),
                          .program = program,
                          .command = command,
                          .started = time_of_day(),
                          .ended = {}};
  replace_file(path_ / record_file, text_of(record));
}

held_run_folder held_run_folder::temporary(const fs::path& path,
                                           const std::string& program,
                                           const std::vector<std::string>& command) {
  held_run_folder out(path, program, command);
  out.temporary_ = true;
  return out;
}

held_run_folder held_run_folder::temporary(const std::string& program,
                                           const std::vector<std::string>& command) {
  return temporary(new_temporary_folder(), program, command);
}

std::optional<held_run_folder> held_run_folder::of_free(const fs::path& path) {
  static_cast<void>(run_folder::open(path));
  auto lock = open_lock(path, 0);
  auto whole = whole_file();
  if (!lock || ::fcntl(lock.number(), F_OFD_SETLK, &whole) != 0)
    return std::nullopt;
  return held_run_folder(path, std::move(lock));
}

std::optional<held_run_folder> held_run_folder::of_died(const fs::path& path) {
  auto out = of_free(path);
  return out && !out->record().ended ? std::move(out) : std::nullopt;
}

std::optional<held_run_folder> held_run_folder::of_ended(const fs::path& path) {
  auto out = of_free(path);
  return out && out->record().ended ? std::move(out) : std::nullopt;
}

std::optional<held_run_folder> held_run_folder::to_go_on(const fs::path& path,
                                                         std::chrono::milliseconds patience) {
  constexpr auto between_tries = std::chrono::milliseconds(10);
  for (const auto until = std::chrono::steady_clock::now() + patience;;) {
    if (auto out = of_died(path)) {
      sign(out->lock_);
      return out;
    }
    if (run_folder::open(path).record().ended || std::chrono::steady_clock::now() > until)
      return std::nullopt;
    std::this_thread::sleep_for(between_tries);
  }
}

held_run_folder::~held_run_folder() {
  if (!temporary_ || !lock_)
    return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void held_run_folder::end(int exit_code, const std::string& reason) {
  auto all = record();
  all.ended = run_end{.exit_code = exit_code, .reason = reason, .at = time_of_day()};
  replace_file(path_ / record_file, text_of(all));
  std::error_code ignored;  // the user has other copies of given credentials
  fs::remove_all(credentials(), ignored);
  for (const auto& file : {order(),
                           description(),
                           rendezvous(),
                           read_token(),
                           control_token(),
                           sockets() / hub_socket})
    fs::remove(file, ignored);
}

}  // namespace troupe::runtime
