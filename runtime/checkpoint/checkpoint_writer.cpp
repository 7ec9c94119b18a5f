#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace troupe::runtime {

namespace fs = std::filesystem;

checkpoint_writer::checkpoint_writer(fs::path dir,
                                     std::int64_t iteration,
                                     generation_id generation,
                                     cancel_token token,
                                     std::uint64_t attempt,
                                     std::string_view by)
    : dir_(std::move(dir)),
      iteration_(iteration),
      generation_(generation),
      token_(std::move(token)),
      staging_(dir_ / staging_folder(iteration, generation, attempt, by)) {
  ensure(iteration >= 0, "CHECKPOINT-1: iterations count from 0");
  make_folder(dir_);
  if (::mkdir(staging_.c_str(), 0777) != 0)
    throw io_error("cannot stage a checkpoint in '{}': {}; {}",
                   staging_.string(),
                   system_message(errno),
                   errno == EEXIST ? "another writer of the same iteration is at work"
                                   : "choose a folder that is writable and has space");
}

checkpoint_writer::~checkpoint_writer() {
  if (staging_.empty())
    return;
  std::error_code ignored;  // the next directory_lock removes the rest
  fs::remove_all(staging_, ignored);
}

shard_record checkpoint_writer::write_shard(const std::string& file,
                                            std::span<const shard_to_write> shards) {
  token_.throw_if_cancelled();
  add_written(file);
  return write_shard_file(staging_, file, shards);
}

void checkpoint_writer::add_written(const std::string& file) {
  const std::lock_guard guard(mutex_);
  ensure(std::find(written_.begin(), written_.end(), file) == written_.end(),
         "CHECKPOINT-2: each shard of a checkpoint is written once");
  written_.push_back(file);
}

shard_record write_shard_file(const fs::path& folder,
                              const std::string& file,
                              std::span<const shard_to_write> shards) {
  require_plain_file_name(file, "checkpoint '" + folder.string() + "'");
  for (const auto& x : shards)
    ensure(x.name.find(box_begin) == std::string::npos
               && (x.part.size() > 0 || x.part == whole(x.whole)),
           "CHECKPOINT-5: names have no bracket, and parts have elements");
  const auto done = write_safetensors(folder / file, shards, {{"format", "pt"}});
  shard_record record{file, done.bytes, done.sha256, {}};
  for (std::size_t i = 0; i < shards.size(); ++i)
    record.pieces.push_back(shards[i].with(stored_elements{shards[i].elements.type, done.xxh3[i]}));
  return record;
}

fs::path checkpoint_writer::commit(checkpoint_manifest manifest) {
  manifest.iteration = iteration_;
  manifest.generation = generation_;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& file : written_)
      ensure(std::any_of(manifest.shards.begin(),
                         manifest.shards.end(),
                         [&](const shard_record& x) { return x.file == file; }),
             "CHECKPOINT-3: the manifest lists every shard that was written");
    for (const auto& x : manifest.shards)
      ensure(std::find(written_.begin(), written_.end(), x.file) != written_.end(),
             "CHECKPOINT-7: the manifest lists only shards that are durable");
  }
  const auto text = to_json(manifest);
  write_text(staging_ / manifest_file, text);
  // Opens the staged checkpoint as a reader does, so that only a readable one becomes visible.
  try {
    const checkpoint_reader as_a_reader_sees_it(staging_);
  } catch (const input_error& failure) {
    throw io_error("cannot save iteration {}: the written checkpoint cannot be read back: {}",
                   iteration_,
                   failure.what());
  }
  token_.throw_if_cancelled();
  const auto target = dir_ / iteration_folder(iteration_);
  publish(target);
  write_text(dir_ / tracker_file, fmt::format("{}\n", iteration_));
  return target;
}

void checkpoint_writer::publish(const fs::path& target) {
  std::error_code failure;
  if (!fs::exists(target, failure) && !failure) {
    rename_durably(staging_, target);
    return;
  }
  // Atomic if the file system can exchange names.
  if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    const auto older = std::exchange(staging_, {});  // kept if the exchange is not durable
    sync_folder(dir_);
    std::error_code ignored;
    fs::remove_all(older, ignored);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    throw io_error("cannot replace '{}': {}; check the permissions of the folder",
                   target.string(),
                   system_message(errno));
  const auto older
      = dir_ / replaced_folder(iteration_);  // clear_remains finishes this after a crash
  rename_durably(target, older);
  try {
    rename_durably(staging_, target);
  } catch (const io_error&) {
    rename_durably(older, target);
    throw;
  }
  remove_all_of(older);
}

}  // namespace troupe::runtime
