// A file that grows by whole records.

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Each record is written to the system at once: a reader sees whole records, and a killed process
/// leaves no torn record. One thread.
class growing_file {
 public:
  /// `flag` names the file in messages. Truncates the file unless `append`. Throws io_error.
  growing_file(std::string flag, std::filesystem::path path, bool append);
  ~growing_file();
  growing_file(const growing_file&) = delete;
  growing_file& operator=(const growing_file&) = delete;

  /// Appends a record. Throws io_error, after removing a partial record. If the file was deleted,
  /// it is created again with `first` before the record, unless the path exists already: that file
  /// may belong to another run.
  void append(std::string_view record, std::string_view first = {});

  /// Overwrites the newest record in place. Returns false and changes nothing if `record` is
  /// shorter, if no record was written since the file was opened, or if another process has changed
  /// the file. Throws io_error and keeps the old record if there is no room.
  bool replace_newest(std::string_view record);

  /// Like `append`, for a file that is useless without its beginning. Returns the state of the file
  /// before the record.
  enum class past {
    whole,
    restored,  ///< it was deleted and has been restored with all its contents
    cut,       ///< another process has truncated it; the missing part is lost
  };
  past append_to_whole(std::string_view record);
  /// Starts a background thread that makes the written data durable (fdatasync). False: call it
  /// again later, because an earlier sync is still running or no thread could be started. Errors
  /// are ignored; later writes report them.
  bool sync_beside();
  bool is_empty() const;
  std::uint64_t size() const;  ///< in bytes, as reported by the system; 0 if unknown

 private:
  void write(std::string_view record);
  bool is_removed() const;
  void begin_anew();
  void restore();

  std::string flag_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t written_ = 0;          ///< bytes since it was opened
  std::int64_t begin_ = 0, end_ = 0;  ///< offsets of the newest record; equal: none
  past untold_ = past::whole;
  std::shared_ptr<std::atomic<bool>> syncs_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace troupe::runtime
