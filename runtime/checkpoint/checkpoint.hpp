// Checkpoints: a folder for each iteration, in Megatron-LM's layout.
//
//   DIR/latest_checkpointed_iteration.txt     the tracker: an iteration
//   DIR/iter_0000100/manifest.json            what is here, with hashes; written last
//   DIR/iter_0000100/model-00001-of-00002.safetensors       parameters, by full unsharded name
//   DIR/iter_0000100/optimizer-00001-of-00002.safetensors   exp_avg.<name>, exp_avg_sq.<name>
//
// A rank that holds a part of a tensor writes that part, a box of it, into its file.
//
// CHECKPOINT-VISIBLE: what has an iteration's name is complete and durable;
// docs/formats/checkpoint.md tells when what is visible. A process that writes in DIR, or removes
// from it, holds its directory_lock.

#pragma once

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/core/cancel.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::runtime {

/// Keeps others from writing checkpoints into one folder (ONE-WRITER). The kernel releases it when
/// the process dies, however it dies.
class directory_lock {
 public:
  /// Makes the folder if needed, locks it, and clears away what dead writers left behind. Throws
  /// input_error that names the process holding the lock, or a tracker that is no file, and
  /// io_error.
  explicit directory_lock(const std::filesystem::path& dir);
  ~directory_lock();
  directory_lock(const directory_lock&) = delete;
  directory_lock& operator=(const directory_lock&) = delete;

  /// Not when the folder was removed, or its lock: then others may lock it.
  bool is_there() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Removes what writers left that died, or that a disk did not let remove: staging and removed
/// folders, half-written trackers; and finishes interrupted replacements. Only for who holds the
/// lock and is not writing. Throws io_error.
void clear_remains(const std::filesystem::path& dir);

/// "iter_0000100"; and back: nothing for any other name.
std::string iteration_folder(std::int64_t iteration);
std::optional<std::int64_t> iteration_of_folder(std::string_view name);

/// "model-00001-of-00002.safetensors": `index` counts from 1.
std::string shard_file(std::string_view kind, int index, int count);

/// Writes one file of a checkpoint into its folder, durably: any process may. Throws io_error.
shard_record write_shard_file(const std::filesystem::path& folder,
                              const std::string& file,
                              std::span<const shard_to_write> shards);

/// One checkpoint being written, aside. Without `commit` nothing of it remains.
class checkpoint_writer {
 public:
  /// Stages in DIR/.iter_0000100.generation-1.partial, or for attempts that are counted from 1 in
  /// DIR/.iter_0000100.generation-1.attempt-1.partial: one writer may hang, and another try again.
  /// Where other processes write in it, `by` tells this one from any other, so that who still
  /// writes for one that has died meets no folder of its successor: it is at the end of the name.
  /// Throws io_error, also when that is there.
  /// `token` is of that generation: once it is cancelled, nothing becomes visible any more.
  checkpoint_writer(std::filesystem::path dir,
                    std::int64_t iteration,
                    generation_id generation,
                    cancel_token token = {},
                    std::uint64_t attempt = 0,
                    std::string_view by = {});
  ~checkpoint_writer();
  checkpoint_writer(const checkpoint_writer&) = delete;
  checkpoint_writer& operator=(const checkpoint_writer&) = delete;

  /// Writes one file, durably. Any thread, several at once for different files. Throws io_error and
  /// cancelled.
  shard_record write_shard(const std::string& file, std::span<const shard_to_write> shards);

  /// Another process has written this file into staging(), durably.
  void add_written(const std::string& file);

  /// Makes the checkpoint visible, in place of an older one of the same iteration if there is one,
  /// and then the tracker point to it; returns its folder. `manifest.shards` are all records that
  /// write_shard returned, and those of add_written; iteration and generation are filled in here.
  /// Throws io_error and cancelled; whatever was valid before stays valid, and the tracker points
  /// to something valid at every moment. Called once.
  std::filesystem::path commit(checkpoint_manifest manifest);

  const std::filesystem::path& staging() const { return staging_; }

 private:
  void publish(const std::filesystem::path& target);

  std::filesystem::path dir_;
  std::int64_t iteration_;
  generation_id generation_;
  cancel_token token_;
  std::filesystem::path staging_;
  std::mutex mutex_;                  // guards written_
  std::vector<std::string> written_;  // files
};

/// A checkpoint that is there. Immutable: any thread.
class checkpoint_reader {
 public:
  /// `folder` is DIR/iter_.... Checks the manifest, the size of every shard, and that manifest and
  /// headers of the shards agree; hashes are left to `verify` and `read`. Throws input_error, here
  /// and below also for what the system cannot read.
  explicit checkpoint_reader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const checkpoint_manifest& manifest() const { return manifest_; }

  /// Reads every byte and compares every hash. Throws input_error that names the file and the
  /// tensors that are damaged. `advance` is told now and then how many bytes are done.
  void verify(const std::function<void(std::uint64_t)>& advance = {}) const;

  bool has(std::string_view name) const { return index_.count(name) != 0; }
  std::vector<std::string_view> names() const;  ///< of all tensors, sorted

  /// Of the whole tensor. They throw input_error when there is no such tensor.
  const shape& extents(std::string_view name) const;
  stored_type type(std::string_view name) const;

  /// A whole tensor as floats (from F32, F16 or BF16). Throws input_error when there is no such
  /// tensor, it has another size, or it is damaged.
  void read(std::string_view name, std::span<float> out) const;

  /// A box of a tensor, row-major, put together from whatever pieces there are. Each piece is
  /// compared with its hash when it is first read from. Throws input_error when there is no such
  /// tensor, the box does not lie in it, it is no tensor of floats, or a piece is damaged.
  void read(std::string_view name, const box& part, std::span<float> out) const;

  /// The same for a tensor of any type, as its elements lie in the files.
  void read_bytes(std::string_view name, const box& part, std::span<std::byte> out) const;

 private:
  /// A piece of a tensor; not moved once it is made.
  struct piece {
    const safetensors_file* file = nullptr;
    const stored_tensor* stored = nullptr;
    const stored_shard* record = nullptr;
    mutable std::mutex checking = {};  // guards sound
    mutable bool sound = false;        // it has its hash
  };
  using pieces = std::vector<const piece*>;

  void add_shard(const shard_record& shard);
  const pieces& find(std::string_view name) const;
  const pieces& find(std::string_view name, const box& part) const;
  static bool is_sound(const piece& x);
  void require_sound(const piece& x) const;

  std::filesystem::path folder_;
  checkpoint_manifest manifest_;
  std::vector<std::unique_ptr<safetensors_file>> files_;  // one for each shard of the manifest
  std::deque<piece> pieces_;                              // in the order of the manifest
  std::unordered_map<std::string_view, pieces> index_;    // keys point into manifest_
};

/// Opens and verifies. Throws input_error that says exactly what is wrong. `advance` as `verify`.
std::unique_ptr<checkpoint_reader> open_checkpoint(const std::filesystem::path& folder,
                                                   const std::function<void(std::uint64_t)>& advance
                                                   = {});

/// What latest_checkpoint found.
struct found_checkpoint {
  std::optional<std::filesystem::path> folder;  ///< nothing: there is no checkpoint, start anew
  std::vector<std::string> warnings;            ///< why it is not the one that was expected
};

/// The checkpoint that the tracker names, verified; when it is damaged the newest older one that is
/// not, with a warning for each one passed over. A missing or unreadable tracker beside checkpoints
/// is a warning too. Reads every byte of the checkpoint that it returns. Throws input_error when
/// there are checkpoints but none is valid: starting anew beside them is for the user to decide;
/// and io_error when the system refuses to open one, which says nothing about it. Who is going to
/// save takes the directory_lock before, so that an interrupted replacement is finished.
found_checkpoint latest_checkpoint(const std::filesystem::path& dir,
                                   const std::function<void(std::uint64_t)>& advance = {});

/// Removes checkpoints older than the tracked one but for the newest `keep` - 1 (keep >= 1) whose
/// manifest is sound; those without a sound manifest do not count. Newer than tracked ones stay,
/// and so do iterations that are multiples of `every`, if that is not 0. Returns what was removed.
/// Throws io_error; a half-removed checkpoint never looks like one.
std::vector<std::filesystem::path> remove_all_but_latest(const std::filesystem::path& dir,
                                                         int keep,
                                                         std::uint64_t every = 0);

}  // namespace troupe::runtime
