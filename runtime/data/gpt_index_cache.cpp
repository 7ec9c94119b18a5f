#include "runtime/data/gpt_index_cache.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/log.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

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

  void take(const std::filesystem::path& path) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      throw io_error(
          "cannot create '{}': {}; give a writable cache folder, or none to keep the index in "
          "memory",
          path.string(),
          system_message(errno));
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }

 private:
  int descriptor_ = -1;
};

struct cache_files {
  std::filesystem::path folder;
  std::string base;

  std::filesystem::path path(const char* affix) const { return folder / (base + "-" + affix); }
};

constexpr const char* documents_file = "document_index.npy";
constexpr const char* bounds_file = "sample_index.npy";
constexpr const char* order_file = "shuffle_index.npy";
constexpr const char* description_file = "description.txt";

/// The description, followed by a digest of each array to detect damage.
std::string with_digests(const std::string& description, const gpt_index& index) {
  return fmt::format("{}\n{} {}\n{} {}\n{} {}\n",
                     description,
                     index.documents.digest(),
                     documents_file,
                     index.bounds.digest(),
                     bounds_file,
                     index.order.digest(),
                     order_file);
}

std::optional<gpt_index> load(const cache_files& files,
                              const gpt_index_request& request,
                              const gpt_index_plan& plan,
                              const std::string& description) try {
  auto documents = index_array::open(files.path(documents_file), plan.documents(request));
  auto bounds = index_array::open(files.path(bounds_file), plan.bounds(request));
  auto order = index_array::open(files.path(order_file), plan.order());
  if (!documents || !bounds || !order)
    return std::nullopt;
  gpt_index index{std::move(*documents), std::move(*bounds), std::move(*order)};
  if (read_text(files.path(description_file)) != with_digests(description, index))
    return std::nullopt;
  return index;
} catch (const input_error&) {
  return std::nullopt;  // the file is unreadable
}

}  // namespace

std::string describe(const token_source& source,
                     const gpt_index_request& request,
                     data_split part) {
  digester lengths;
  for (auto i = request.range.begin; i < request.range.end; ++i) {
    const auto length = source.length(i);
    lengths.add(&length, sizeof length);
  }
  return fmt::format(
      "{{\n"
      "    \"class\": \"GPTDataset\",\n"
      "    \"format\": 1,\n"
      "    \"sequences\": [{}, {}],\n"
      "    \"sequence_lengths_xxh3\": \"{}\",\n"
      "    \"num_samples\": {},\n"
      "    \"index_split\": \"{}\",\n"
      "    \"random_seed\": {},\n"
      "    \"sequence_length\": {},\n"
      "    \"drop_last_partial_sequence\": {}\n"
      "}}",
      request.range.begin,
      request.range.end,
      to_string(lengths.result()),
      request.samples ? std::to_string(*request.samples) : "null",
      to_string(part),
      request.seed,
      request.sequence_length,
      request.drop_last_partial);
}

namespace {

void save(const gpt_index& index,
          const cache_files& files,
          const std::string& description,
          const cancel_token& stop) {
  index.documents.save(files.path(documents_file));
  stop.throw_if_cancelled();
  index.bounds.save(files.path(bounds_file));
  stop.throw_if_cancelled();
  index.order.save(files.path(order_file));
  // The description is written last: after a crash the other files are ignored without it.
  write_text(files.path(description_file), with_digests(description, index));
}

}  // namespace

gpt_index load_or_build_gpt_index(const token_source& source,
                                  const gpt_index_request& request,
                                  const gpt_index_plan& plan,
                                  data_split part,
                                  const std::filesystem::path& folder,
                                  const cancel_token& stop) {
  const auto description = describe(source, request, part);
  digester name;
  name.add(description);
  const cache_files files{
      folder, fmt::format("{}-GPTDataset-{}", to_string(name.result()), to_string(part))};
  // A failed save only costs time at the next start.
  const auto tell = [&](const io_error& failure) {
    log_warning("the index of the {} data is not saved for the next run: {}",
                to_string(part),
                failure.what());
  };
  folder_lock held;
  try {
    make_folder(folder);
    held.take(files.path("lock"));
    for (const auto* file : {documents_file, bounds_file, order_file, description_file})
      remove_parts_of(files.path(file));
    std::error_code failure;
    if (std::filesystem::exists(files.path(description_file), failure)) {
      if (auto found = load(files, request, plan, description))
        return std::move(*found);
      log_warning("the cached index '{}' is damaged; it is built again",
                  files.path(description_file).string());
    }
  } catch (const io_error& failure) {
    tell(failure);
    return build_gpt_index(source, request, plan, stop);
  }
  auto index = build_gpt_index(source, request, plan, stop);
  try {
    save(index, files, description, stop);
  } catch (const io_error& failure) {
    tell(failure);
  }
  return index;
}

}  // namespace troupe::runtime
