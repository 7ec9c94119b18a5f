// Temporary folders for tests.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace troupe::tests {

/// A folder for small files in memory, if the system has one; a checkpoint's dozens of fsync calls
/// then do not wait for a disk.
inline std::filesystem::path place_in_memory() {
  const std::filesystem::path shared = "/dev/shm";
  std::error_code ignored;
  return std::filesystem::is_directory(shared, ignored) && ::access(shared.c_str(), W_OK) == 0
             ? shared
             : std::filesystem::temp_directory_path();
}

/// A new folder, by default below the system's temporary folder. The destructor removes it with its
/// contents.
class scratch_folder {
 public:
  scratch_folder() : scratch_folder(std::filesystem::temp_directory_path()) {}
  explicit scratch_folder(const std::filesystem::path& below) {
    auto name = (below / "troupe-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::tests
