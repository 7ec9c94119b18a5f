// A temporary folder; removed at the end of an example.

#pragma once

#include <filesystem>
#include <string>
#include <unistd.h>

namespace story {

class scratch {
 public:
  explicit scratch(const std::string& name)
      : path_(std::filesystem::temp_directory_path()
              / ("troupe-story-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace story
