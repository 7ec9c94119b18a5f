// A small disk for tests of full disks.

#pragma once

#include "tests/support/disk_faults.hpp"

#include <cerrno>
#include <filesystem>
#include <string>
#include <sys/mount.h>

namespace troupe::tests {

/// A folder on a small tmpfs if this process may mount one. Otherwise `mounted` is false, the
/// folder is an ordinary one, and the test has to plant the disk errors.
class small_disk {
 public:
  explicit small_disk(const std::filesystem::path& at, const std::string& size = "256k") : at_(at) {
    std::filesystem::create_directories(at_);
    mounted_ = ::mount("tmpfs", at_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~small_disk() {
    if (mounted_)
      ::umount2(at_.c_str(), MNT_DETACH);
  }
  small_disk(const small_disk&) = delete;
  small_disk& operator=(const small_disk&) = delete;

  bool mounted() const { return mounted_; }
  bool make_read_only() const {
    return ::mount("", at_.c_str(), "", MS_REMOUNT | MS_RDONLY, "") == 0;
  }

  /// Describes the disk in a test's output.
  const char* way() const { return mounted_ ? "a small tmpfs" : "planted refusals: may not mount"; }

 private:
  std::filesystem::path at_;
  bool mounted_ = false;
};

}  // namespace troupe::tests
