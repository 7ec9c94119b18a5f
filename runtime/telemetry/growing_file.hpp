// A file that grows by whole records.

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Each record is handed to the system at once, so that a reader of the file sees whole records
/// and a killed process has torn none. One thread.
class growing_file {
 public:
  /// `flag` names it in messages. Without `append` it begins anew. Throws io_error.
  growing_file(std::string flag, std::filesystem::path path, bool append);
  ~growing_file();
  growing_file(const growing_file&) = delete;
  growing_file& operator=(const growing_file&) = delete;

  /// Throws io_error; of a record that did not fit nothing stays. A file that was removed begins
  /// anew, with `first` before the record, unless another has taken its place: that may be another
  /// run's.
  void append(std::string_view record, std::string_view first = {});

  /// The same, of a file that means nothing without its beginning. Says what had become of it.
  enum class past {
    whole,
    restored,  ///< it was removed: it stands there again, with all that it had
    cut,       ///< another has made it shorter, and what is missing is lost
  };
  past append_to_whole(std::string_view record);
  /// What is there is made durable by a thread of its own: for who is not to wait. False:
  /// it is to be asked for again, as one is at it that may have begun too early, or none could be
  /// started. Best effort: a disk that refuses tells whoever writes.
  bool sync_beside();
  bool is_empty() const;
  std::uint64_t size() const;  ///< bytes, by the system; 0: it does not say

 private:
  void write(std::string_view record);
  bool is_removed() const;
  void begin_anew();
  void restore();

  std::string flag_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t written_ = 0;  ///< bytes, from its beginning; of one that began here
  past untold_ = past::whole;
  std::shared_ptr<std::atomic<bool>> syncs_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace troupe::runtime
