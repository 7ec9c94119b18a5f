// Writes, reads, finds and removes checkpoints: one folder per iteration, in Megatron-LM's layout.
//
//   DIR/latest_checkpointed_iteration.txt     tracker: the latest iteration
//   DIR/iter_0000100/manifest.json            contents with hashes; written last
//   DIR/iter_0000100/model-00001-of-00002.safetensors       parameters, by full unsharded name
//   DIR/iter_0000100/optimizer-00001-of-00002.safetensors   exp_avg.<name>, exp_avg_sq.<name>
//
// A rank that holds a part of a tensor (a box) writes that part into its file.
//
// CHECKPOINT-VISIBLE: a folder with an iteration's name is complete and durable.
// docs/formats/checkpoint.md describes the order of steps. A process that writes to DIR or removes
// from it holds its directory_lock.

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

/// Exclusive lock of a checkpoint folder (ONE-WRITER). The kernel releases it when the process
/// dies.
class directory_lock {
 public:
  /// Creates the folder if needed, locks it, and removes the remains of dead writers. Throws
  /// input_error with the process that holds the lock, or if the tracker is not a file. Throws
  /// io_error.
  explicit directory_lock(const std::filesystem::path& dir);
  ~directory_lock();
  directory_lock(const directory_lock&) = delete;
  directory_lock& operator=(const directory_lock&) = delete;

  /// Returns false if the folder or its lock file was removed; other processes may then lock it.
  bool is_there() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Removes the remains of dead writers and of failed removals: staging folders, removed folders,
/// half-written trackers. Also finishes interrupted replacements. The caller holds the lock and is
/// not writing. Throws io_error.
void clear_remains(const std::filesystem::path& dir);

/// Converts between an iteration and its folder name, "iter_0000100". Returns nothing for other
/// names.
std::string iteration_folder(std::int64_t iteration);
std::optional<std::int64_t> iteration_of_folder(std::string_view name);

/// Returns a name such as "model-00001-of-00002.safetensors". `index` counts from 1.
std::string shard_file(std::string_view kind, int index, int count);

/// Writes one checkpoint file into its folder durably. Any process may call it. Throws io_error.
shard_record write_shard_file(const std::filesystem::path& folder,
                              const std::string& file,
                              std::span<const shard_to_write> shards);

/// Writes one checkpoint to a staging folder. Without commit() nothing of it remains.
class checkpoint_writer {
 public:
  /// Stages in DIR/.iter_0000100.generation-1.partial. Attempts count from 1 and add ".attempt-1"
  /// before ".partial", because one writer may hang while another retries. `by` is a suffix that
  /// identifies this process if several processes write there. A late writer for a dead process
  /// then cannot touch its successor's folder.
  ///
  /// After `token`, of that generation, is cancelled, nothing becomes visible. Throws io_error,
  /// also if the staging folder exists.
  checkpoint_writer(std::filesystem::path dir,
                    std::int64_t iteration,
                    generation_id generation,
                    cancel_token token = {},
                    std::uint64_t attempt = 0,
                    std::string_view by = {});
  ~checkpoint_writer();
  checkpoint_writer(const checkpoint_writer&) = delete;
  checkpoint_writer& operator=(const checkpoint_writer&) = delete;

  /// Writes one file durably. Thread-safe for different files. Throws io_error and cancelled.
  shard_record write_shard(const std::string& file, std::span<const shard_to_write> shards);

  /// Registers a file that another process wrote into staging() durably.
  void add_written(const std::string& file);

  /// Makes the checkpoint visible, replaces an older one of the same iteration, and then updates
  /// the tracker. Returns the folder. `manifest.shards` are all records of write_shard and of the
  /// files of add_written. This call fills in iteration and generation. Call it once.
  ///
  /// Throws io_error and cancelled. Older checkpoints then stay valid, and the tracker always
  /// points to a valid one.
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

/// A checkpoint on disk. Immutable and thread-safe.
class checkpoint_reader {
 public:
  /// `folder` is DIR/iter_.... Checks the manifest, the size of each shard, and that the shard
  /// headers match the manifest. `verify` and `read` check hashes. All methods throw input_error,
  /// also for files that the system cannot read.
  explicit checkpoint_reader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const checkpoint_manifest& manifest() const { return manifest_; }

  /// Reads all bytes and compares all hashes. Throws input_error with the damaged file and tensors.
  /// `advance` receives the number of bytes done from time to time.
  void verify(const std::function<void(std::uint64_t)>& advance = {}) const;

  bool has(std::string_view name) const { return index_.count(name) != 0; }
  std::vector<std::string_view> names() const;  ///< names of all tensors, sorted

  /// Extents and type of the whole tensor. Throw input_error if there is no such tensor.
  const shape& extents(std::string_view name) const;
  stored_type type(std::string_view name) const;

  /// Reads a whole tensor as floats (from F32, F16 or BF16). Throws input_error if the tensor is
  /// missing, damaged or of another size.
  void read(std::string_view name, std::span<float> out) const;

  /// Reads a box of a tensor, row-major, from any pieces. Checks the hash of each piece on its
  /// first use. Throws input_error if the tensor is missing, the box is outside it, its type is not
  /// a float type above, or a piece is damaged.
  void read(std::string_view name, const box& part, std::span<float> out) const;

  /// Reads a box of a tensor of any type, without conversion.
  void read_bytes(std::string_view name, const box& part, std::span<std::byte> out) const;

 private:
  /// A piece of a tensor. Its address is stable.
  struct piece {
    const safetensors_file* file = nullptr;
    const stored_tensor* stored = nullptr;
    const stored_shard* record = nullptr;
    mutable std::mutex checking = {};  // guards sound
    mutable bool sound = false;        // the hash was checked
  };
  using pieces = std::vector<const piece*>;

  void add_shard(const shard_record& shard);
  const pieces& find(std::string_view name) const;
  const pieces& find(std::string_view name, const box& part) const;
  static bool is_sound(const piece& x);
  void require_sound(const piece& x) const;

  std::filesystem::path folder_;
  checkpoint_manifest manifest_;
  std::vector<std::unique_ptr<safetensors_file>> files_;  // one per shard of the manifest
  std::deque<piece> pieces_;                              // in the order of the manifest
  std::unordered_map<std::string_view, pieces> index_;    // keys point into manifest_
};

/// Opens and verifies a checkpoint. Throws input_error with the exact fault. `advance` as in
/// `verify`.
std::unique_ptr<checkpoint_reader> open_checkpoint(const std::filesystem::path& folder,
                                                   const std::function<void(std::uint64_t)>& advance
                                                   = {});

/// Result of latest_checkpoint.
struct found_checkpoint {
  std::optional<std::filesystem::path> folder;  ///< nothing: no checkpoint, start anew
  std::vector<std::string> warnings;            ///< why it is not the expected one
};

/// Returns the checkpoint that the tracker names, verified. If it is damaged, returns the newest
/// valid older one, with a warning for each skipped one. A missing or unreadable tracker beside
/// checkpoints is also a warning. Reads every byte of the returned checkpoint.
///
/// Throws input_error if there are checkpoints but none is valid: only the user may decide to start
/// anew. Throws io_error if the system refuses to open one. A process that will save takes the
/// directory_lock first, so that an interrupted replacement is finished.
found_checkpoint latest_checkpoint(const std::filesystem::path& dir,
                                   const std::function<void(std::uint64_t)>& advance = {});

/// Opens and verifies the checkpoint `from`, or the latest one of a run that saved in `from`. Logs
/// a warning for each skipped one. Throws input_error if there is none.
std::unique_ptr<checkpoint_reader> open_model(const std::filesystem::path& from);

/// Removes checkpoints older than the tracked one, except the newest `keep` - 1 with a valid
/// manifest (keep >= 1). Checkpoints without a valid manifest do not count towards `keep`. Keeps
/// checkpoints newer than the tracked one and, if `every` is not 0, iterations that are multiples
/// of `every`. Returns the removed folders. Throws io_error; a half-removed checkpoint never looks
/// complete.
std::vector<std::filesystem::path> remove_all_but_latest(const std::filesystem::path& dir,
                                                         int keep,
                                                         std::uint64_t every = 0);

}  // namespace troupe::runtime
