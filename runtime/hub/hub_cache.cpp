#include "runtime/hub/hub_cache.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

std::string folder_name(std::string repository) {
  for (auto at = repository.find('/'); at != std::string::npos; at = repository.find('/'))
    repository.replace(at, 1, "--");
  return "models--" + repository;
}

class opened_lock {
 public:
  explicit opened_lock(const fs::path& file)
      : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  ~opened_lock() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  opened_lock(const opened_lock&) = delete;
  opened_lock& operator=(const opened_lock&) = delete;

  /// False if another process holds it. True too where the file system has no locks.
  bool take(bool wait) const {
    while (descriptor_ >= 0 && ::flock(descriptor_, wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0)
      if (errno != EINTR)
        return errno != EWOULDBLOCK;
    return true;
  }

 private:
  int descriptor_;
};

}  // namespace

hub_cache::hub_cache(fs::path cache, const std::string& repository)
    : cache_(std::move(cache)), folder_(cache_ / folder_name(repository)) {}

fs::path hub_cache::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

fs::path hub_cache::blob(const std::string& etag) const {
  return folder_ / "blobs" / etag;
}

fs::path hub_cache::part(const std::string& etag) const {
  return folder_ / "blobs" / (etag + ".incomplete");
}

std::optional<std::string> hub_cache::commit_of(const std::string& revision) const {
  if (is_hub_commit(revision))
    return revision;
  std::error_code failure;
  const auto file = folder_ / "refs" / revision;
  if (!fs::is_regular_file(file, failure))
    return std::nullopt;
  auto text = read_text(file);
  text.erase(text.find_last_not_of(" \r\n") + 1);
  return is_hub_commit(text) ? std::optional(text) : std::nullopt;
}

void hub_cache::remember(const std::string& revision, const std::string& commit) const {
  if (is_hub_commit(revision) || commit_of(revision) == commit)
    return;
  const auto file = folder_ / "refs" / revision;
  make_folder(file.parent_path());
  write_text(file, commit);
}

bool hub_cache::has(const std::string& commit, const std::string& file) const {
  std::error_code failure;
  return fs::is_regular_file(snapshot(commit) / file, failure);
}

bool hub_cache::lacks(const std::string& commit, const std::string& file) const {
  std::error_code failure;
  return fs::is_regular_file(folder_ / ".no_exist" / commit / file, failure);
}

void hub_cache::remember_absence(const std::string& commit, const std::string& file) const {
  if (lacks(commit, file))
    return;
  const auto path = folder_ / ".no_exist" / commit / file;
  make_folder(path.parent_path());
  write_text(path, "");
}

void hub_cache::link(const std::string& commit,
                     const std::string& file,
                     const std::string& etag) const {
  if (has(commit, file))  // another process was faster, and may read it already
    return;
  const auto path = snapshot(commit) / file;
  make_folder(path.parent_path());
  std::error_code failure;
  const auto target = fs::relative(blob(etag), path.parent_path(), failure);
  const fs::path fresh = fmt::format("{}.partial-{}", path.string(), ::getpid());
  fs::remove(fresh, failure);
  fs::create_symlink(target, fresh, failure);
  if (!failure)
    fs::rename(fresh, path, failure);  // also replaces a link to a removed blob
  if (failure) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
  }
  if (failure && !has(commit, file))
    fs::rename(blob(etag), path, failure);
  if (failure && !has(commit, file))
    throw io_error("cannot create '{}': {}", path.string(), failure.message());
}

void hub_cache::alone(const std::string& etag,
                      const std::function<void()>& waiting,
                      const std::function<void()>& work) const {
  const auto locks = cache_ / ".locks" / folder_.filename();
  make_folder(locks);
  const opened_lock lock(locks / (etag + ".lock"));
  if (!lock.take(false)) {
    waiting();
    lock.take(true);
  }
  work();
}

}  // namespace troupe::runtime
