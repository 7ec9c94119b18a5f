#include "runtime/data/index_cache.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/waiting.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::chrono::milliseconds between_tries{50};

/// A lock per open file, so it excludes threads as well as processes. On a file system without
/// locks all processes build the index; this is safe because they write the same bytes atomically.
class folder_lock {
 public:
  folder_lock() = default;
  ~folder_lock() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

  /// Waits for the holder. Throws `cancelled` and io_error.
  void take(const std::filesystem::path& path, const cancel_token& stop) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      throw io_error(
          "cannot create '{}': {}; give a writable cache folder, or none to keep the index in "
          "memory",
          path.string(),
          system_message(errno));
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      stop.throw_if_cancelled();
      sleep_for(between_tries);
    }
  }

 private:
  int descriptor_ = -1;
};

using index_arrays = std::vector<index_array>;

constexpr const char* description_file = "description.txt";

struct cache_files {
  explicit cache_files(const cached_index& of) : what(of) {
    digester name;
    name.add(of.description);
    base = fmt::format("{}-{}-{}", to_string(name.result()), of.kind, to_string(of.part));
  }
  std::filesystem::path path(const char* affix) const { return what.folder / (base + "-" + affix); }

  /// The description, followed by a digest of each array to detect damage.
  std::string with_digests(const index_arrays& arrays) const {
    auto out = what.description + "\n";
    for (std::size_t i = 0; i < arrays.size(); ++i)
      out += fmt::format("{} {}\n", arrays[i].digest(), what.files[i].name);
    return out;
  }

  const cached_index& what;
  std::string base;
};

std::optional<index_arrays> load(const cache_files& files) try {
  index_arrays out;
  for (const auto& file : files.what.files) {
    auto found = index_array::open(files.path(file.name), file.shape);
    if (!found)
      return std::nullopt;
    out.push_back(std::move(*found));
  }
  if (read_text(files.path(description_file)) != files.with_digests(out))
    return std::nullopt;
  return out;
} catch (const input_error&) {
  return std::nullopt;  // the file is unreadable
}

void save(const index_arrays& arrays, const cache_files& files, const cancel_token& stop) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    arrays[i].save(files.path(files.what.files[i].name));
    stop.throw_if_cancelled();
  }
  // The description is written last: after a crash the other files are ignored without it.
  write_text(files.path(description_file), files.with_digests(arrays));
}

}  // namespace

std::vector<index_array> load_or_build(const cached_index& what,
                                       const std::function<index_arrays()>& build,
                                       const cancel_token& stop) {
  const cache_files files(what);
  // A failed save only costs time at the next start.
  const auto tell = [&](const io_error& failure) {
    log_warning("the index of the {} data is not saved for the next run: {}",
                to_string(what.part),
                failure.what());
  };
  folder_lock held;
  try {
    make_folder(what.folder);
    held.take(files.path("lock"), stop);
    for (const auto& file : what.files)
      remove_parts_of(files.path(file.name));
    remove_parts_of(files.path(description_file));
    std::error_code failure;
    if (std::filesystem::exists(files.path(description_file), failure)) {
      if (auto found = load(files))
        return std::move(*found);
      log_warning("the cached index '{}' is damaged; it is built again",
                  files.path(description_file).string());
    }
  } catch (const io_error& failure) {
    tell(failure);
    return build();
  }
  auto arrays = build();
  try {
    save(arrays, files, stop);
  } catch (const io_error& failure) {
    tell(failure);
  }
  return arrays;
}

std::string digest_of_lengths(const token_source& source, std::int64_t begin, std::int64_t end) {
  digester lengths;
  for (auto i = begin; i < end; ++i) {
    const auto length = source.length(i);
    lengths.add(&length, sizeof length);
  }
  return to_string(lengths.result());
}

}  // namespace troupe::runtime
