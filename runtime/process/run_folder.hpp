// The folder of a run: entries of its processes, logs, sockets, credentials, and how it ended.
// docs/formats/run_folder.md.

#pragma once

#include "runtime/process/descriptor.hpp"
#include "runtime/process/process_id.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The end of a run: the program's exit code and the reason, if any.
struct run_end {
  int exit_code = 0;
  std::string reason;
  std::string at;  ///< UTC, "2026-11-25T10:00:00Z"
  bool operator==(const run_end&) const = default;
};

/// The contents of `run.json`.
struct run_record {
  std::string id;       ///< 16 hexadecimal digits, unique to this run
  std::string program;  ///< version_text
  std::vector<std::string> command;
  std::string started;  ///< UTC, as `run_end::at`
  std::optional<run_end> ended;
  bool operator==(const run_record&) const = default;
};

std::string text_of(const run_record& x);
/// Throws input_error; `what` begins the message.
run_record read_run_record(std::string_view text, const std::string& what);

std::string time_of_day();

/// Unix seconds of a time as in `run_record::started`.
std::int64_t unix_seconds(const std::string& utc);

/// A run's folder, private to this user (mode 0700). One thread.
class run_folder {
 public:
  /// The folder of a current or past run. Throws input_error when it is not one, or when another
  /// user owns it or may enter it.
  static run_folder open(const std::filesystem::path& path);
  /// Creates a copy of a folder that is on another host. It is not held. Throws input_error as
  /// `open`, and io_error.
  static run_folder copy(const std::filesystem::path& path, const run_record& record);

  const std::filesystem::path& path() const { return path_; }
  /// The folder's name; of a hidden one (`.run` in a folder of checkpoints), the parent's name.
  std::string name() const;
  std::filesystem::path log_of(const std::string& process) const;
  std::filesystem::path ledger() const { return path_ / "ledger.jsonl"; }
  std::filesystem::path order() const { return path_ / "order"; }  ///< see run_succession.hpp
  std::filesystem::path description() const { return path_ / "description.json"; }
  std::filesystem::path rendezvous() const { return path_ / "rendezvous.json"; }
  std::filesystem::path processes() const { return path_ / "processes"; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path sockets() const { return path_ / "sockets"; }
  std::filesystem::path credentials() const { return path_ / "credentials"; }
  std::filesystem::path read_token() const { return path_ / "read.token"; }  ///< run_tokens.hpp
  std::filesystem::path control_token() const { return path_ / "control.token"; }
  /// Name of the hub's Unix socket in `sockets()` (runtime/watch/hub.hpp).
  static constexpr const char* hub_socket = "hub";

  /// Exists when that process was asked to end the run. A successor has its own file.
  std::filesystem::path asked_to_end_file(const process_id& whom) const;

  /// Lets an action happen once per run, across its processes: returns false when it was claimed
  /// before. `what` is a part of a file name. Throws io_error.
  bool claim(const std::string& run_id, const std::string& what) const;
  /// Time of the claim in nanoseconds of the claiming machine's steady clock; empty if not claimed.
  std::optional<std::uint64_t> claimed_at(const std::string& run_id, const std::string& what) const;

  /// Throws input_error when `run.json` is missing or damaged.
  run_record record() const;
  /// Whether a process holds the folder now (held_run_folder).
  bool is_held() const;

 protected:
  explicit run_folder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// The folder of a run of this process, locked until this object or the process ends.
///
///   RUN-1         A folder belongs to one living run of this user, and no other user may enter it.
///   SUCCESSION-2  At most one process leads a run: the one that holds its folder.
class held_run_folder : public run_folder {
 public:
  /// Creates the folder, or takes over that of an ended run: its logs become `logs.before`, the
  /// rest is removed. Throws input_error when another user owns it or may enter it, when another
  /// run lives in it, or when it has files but is not a run's folder. Throws io_error.
  held_run_folder(const std::filesystem::path& path,
                  const std::string& program,
                  const std::vector<std::string>& command);
  /// Same, for a folder that the destructor removes.
  static held_run_folder temporary(const std::filesystem::path& path,
                                   const std::string& program,
                                   const std::vector<std::string>& command);
  /// Same, in new_temporary_folder.
  static held_run_folder temporary(const std::string& program,
                                   const std::vector<std::string>& command);
  /// The folder of a run that died, unchanged, to record its end. Empty if a process holds it or
  /// the end is recorded. Throws input_error as `open`, and io_error.
  static std::optional<held_run_folder> of_died(const std::filesystem::path& path);
  /// Same, for a run with a recorded end.
  static std::optional<held_run_folder> of_ended(const std::filesystem::path& path);
  /// Like of_died, to continue the run in place of the process that held the folder. Waits up to
  /// `patience` until that process is gone.
  static std::optional<held_run_folder> to_go_on(const std::filesystem::path& path,
                                                 std::chrono::milliseconds patience);
  held_run_folder(held_run_folder&&) noexcept = default;
  held_run_folder& operator=(held_run_folder&&) = delete;
  ~held_run_folder();

  /// Records the end in `run.json` and removes credentials and tokens: run folders are passed on
  /// together with the checkpoints beside them. Throws io_error.
  void end(int exit_code, const std::string& reason);

 private:
  static std::optional<held_run_folder> of_free(const std::filesystem::path& path);
  held_run_folder(const std::filesystem::path& path, descriptor lock)
      : run_folder(path), lock_(std::move(lock)) {}

  descriptor lock_;
  bool temporary_ = false;
};

/// A random token of 16 hexadecimal digits. Throws io_error.
std::string new_token();

/// A new, empty folder in the system's temporary folder, mode 0700. Throws io_error.
std::filesystem::path new_temporary_folder();
/// Creates a private folder unless it exists. Throws io_error; throws input_error when another user
/// owns the existing one or may enter it.
void make_own_folder(const std::filesystem::path& path);

/// Replaces a small file atomically: readers see the old text or the new one. Not durable. Throws
/// io_error.
void replace_file(const std::filesystem::path& path, std::string_view text);
/// Removes such a file and what a killed writer left of it. No process may be writing it.
void remove_replaced(const std::filesystem::path& path);

}  // namespace troupe::runtime
