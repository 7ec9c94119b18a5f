// The folder of a launch, which all its processes see: rank 0 writes the credentials of the run and
// the address of the meeting there, the others wait for it. Mode 0700, files 0600.

#pragma once

#include "runtime/file/file_lock.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

/// Rank 0 creates it and removes it with this object.
class launch_folder {
 public:
  /// Replaces a folder that a killed launch of the same name left. Other processes do not see the
  /// new one before `publish`. Throws input_error when such a launch lives, or when another user
  /// owns the folder; and io_error.
  launch_folder(const std::filesystem::path& path, bool insecure);
  ~launch_folder();
  launch_folder(const launch_folder&) = delete;
  launch_folder& operator=(const launch_folder&) = delete;

  /// Folder of the credentials; empty without.
  std::filesystem::path credentials() const;
  void publish(const std::string& address, std::uint16_t port);
  /// Instead: why rank 0 does not start.
  void publish_failure(const std::string& why);

 private:
  void publish_file(const char* name, const std::string& text);

  const std::filesystem::path path_, hidden_;  ///< `hidden_` until it is published
  const bool insecure_;
  bool is_published_ = false;
  file_lock lock_;
};

/// Removes the folders that killed launches left beside `path`, with their secrets; keeps those of
/// living ones.
void remove_left_launch_folders(const std::filesystem::path& path);

struct published_meeting {
  std::string address = {};
  std::uint16_t port = 0;
  std::filesystem::path credentials = {};  ///< empty without
  std::string failure = {};                ///< why rank 0 does not start; empty: it does
};

/// Empty: there is none yet. Throws input_error when another user owns the folder or may enter it.
std::optional<published_meeting> find_launch_folder(const std::filesystem::path& path,
                                                    bool insecure);

/// The path of the folder for a launch with this id: in `shared`, or below the system's temporary
/// folder if that is empty. Changes characters that do not suit a name.
std::filesystem::path launch_folder_path(const std::filesystem::path& shared,
                                         const std::string& id);

}  // namespace troupe::runtime
