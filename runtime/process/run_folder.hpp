// The folder of a run: what its processes are, their logs, sockets and credentials, and how it
// ended. docs/formats/run_folder.md.

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

/// How a run ended, as the program's exit code and the reason that was told, if there was one.
struct run_end {
  int exit_code = 0;
  std::string reason;
  std::string at;  ///< UTC, "2026-11-25T10:00:00Z"
  bool operator==(const run_end&) const = default;
};

/// What `run.json` says.
struct run_record {
  std::string id;       ///< of this run alone: 16 hexadecimal digits
  std::string program;  ///< version_text
  std::vector<std::string> command;
  std::string started;  ///< UTC
  std::optional<run_end> ended;
  bool operator==(const run_record&) const = default;
};

std::string text_of(const run_record& x);
/// Throws input_error, beginning with `what`.
run_record read_run_record(std::string_view text, const std::string& what);

/// Now, in UTC.
std::string time_of_day();

/// A folder of a run, which belongs to this user alone: mode 0700. One thread.
class run_folder {
 public:
  /// That of a run that there is, or was. Throws input_error: there is none, or others than this
  /// user may enter or own it.
  static run_folder open(const std::filesystem::path& path);
  /// A new one, of a run that another host has the folder of: nobody holds it. Throws input_error
  /// as `open`, and io_error.
  static run_folder copy(const std::filesystem::path& path, const run_record& record);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log_of(const std::string& process) const;
  std::filesystem::path ledger() const { return path_ / "ledger.jsonl"; }
  std::filesystem::path order() const { return path_ / "order"; }  ///< run_succession.hpp
  std::filesystem::path description() const { return path_ / "description.json"; }
  std::filesystem::path rendezvous() const { return path_ / "rendezvous.json"; }
  std::filesystem::path processes() const { return path_ / "processes"; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path sockets() const { return path_ / "sockets"; }
  std::filesystem::path credentials() const { return path_ / "credentials"; }

  /// There when that process was asked to end the run: a successor is asked anew.
  std::filesystem::path asked_to_end_file(const process_id& whom) const;

  /// That something happens once in a run, whichever of its processes does it: false when it has
  /// been claimed before. `what` is a part of a file's name. Throws io_error.
  bool claim(const std::string& run_id, const std::string& what) const;
  /// When that was claimed, in nanoseconds by the steady clock of the machine of who did; nothing:
  /// it was not.
  std::optional<std::uint64_t> claimed_at(const std::string& run_id, const std::string& what) const;

  /// Throws input_error when it is missing or damaged.
  run_record record() const;
  /// Whether a process holds the folder (held_run_folder), now.
  bool is_held() const;

 protected:
  explicit run_folder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// That of a run of this process: nobody else runs in it until this object or process ends,
/// however it ends.
///
///   RUN-1         A folder is of one living run, of this user, and nobody else may enter it.
///   SUCCESSION-2  At most one process leads a run: the one that holds its folder.
class held_run_folder : public run_folder {
 public:
  /// Makes it where there is none; takes one whose run has ended, whose logs become `logs.before`
  /// and of which nothing else is left. Throws input_error: it is another user's, others may enter
  /// it, another run lives there, or it has files and is no run's folder; io_error.
  held_run_folder(const std::filesystem::path& path,
                  const std::string& program,
                  const std::vector<std::string>& command);
  /// The same of one that is removed when this object ends.
  static held_run_folder temporary(const std::filesystem::path& path,
                                   const std::string& program,
                                   const std::vector<std::string>& command);
  /// In a new one (new_temporary_folder).
  static held_run_folder temporary(const std::string& program,
                                   const std::vector<std::string>& command);
  /// That of a run that has died, as it stands: for who says in its place how it ended. Nothing: a
  /// process holds it, or it has ended. Throws input_error as `open`, and io_error.
  static std::optional<held_run_folder> of_died(const std::filesystem::path& path);
  /// The same to go on with the run, in the place of who has held it: waits that long for that
  /// process to be gone.
  static std::optional<held_run_folder> to_go_on(const std::filesystem::path& path,
                                                 std::chrono::milliseconds patience);
  held_run_folder(held_run_folder&&) noexcept = default;
  held_run_folder& operator=(held_run_folder&&) = delete;
  ~held_run_folder();

  /// Says how the run ended, in `run.json`, and removes its credentials: folders of runs are given
  /// to others, with the checkpoints that they lie beside. Throws io_error.
  void end(int exit_code, const std::string& reason);

 private:
  held_run_folder(const std::filesystem::path& path, descriptor lock)
      : run_folder(path), lock_(std::move(lock)) {}

  descriptor lock_;
  bool temporary_ = false;
};

/// 16 hexadecimal digits that nobody else has. Throws io_error.
std::string new_token();

/// An empty one below the system's folder for temporary files, with mode 0700. Throws io_error.
std::filesystem::path new_temporary_folder();
/// That nobody else may enter, where there is none yet. Throws io_error, and input_error where
/// there is one of another user, or that others may enter.
void make_own_folder(const std::filesystem::path& path);

/// Replaces a small file at once, for readers: they see the one before or this one. Not durable.
/// Throws io_error.
void replace_file(const std::filesystem::path& path, std::string_view text);

}  // namespace troupe::runtime
