#include "tests/support/disk_faults.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <sstream>
#include <string_view>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

namespace troupe::tests {
namespace {

struct planted {
  disk_fault what;
  std::atomic<std::uint64_t> seen = 0;
};

// Never destroyed: other code still writes files while the process ends.
planted& state() {
  static auto* const it = new planted;
  return *it;
}

[[gnu::constructor]] void read_environment() {
  const char* const text = std::getenv("TROUPE_TEST_DISK_FAULT");
  if (text == nullptr)
    return;
  disk_fault what;
  std::istringstream(text) >> what.below >> what.nth >> what.error >> what.count >> what.calls
      >> what.gate;
  plant(what);
}

/// The absolute path of a call's arguments.
std::string absolute(int folder, const char* path) {
  char buffer[PATH_MAX] = {};
  if (path != nullptr && path[0] == '/')
    return path;
  if (folder == AT_FDCWD) {
    if (::getcwd(buffer, sizeof buffer) == nullptr)
      return {};
  } else {
    char link[64];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    if (::readlink(link, buffer, sizeof buffer - 1) < 0)
      return {};
  }
  return path == nullptr || path[0] == '\0' ? buffer : std::string(buffer) + "/" + path;
}

enum class verdict { pass, refuse, die };

verdict judge(const char* call, int folder, const char* path) {
  const auto& what = state().what;
  if (what.below.empty())
    return verdict::pass;
  constexpr std::array<std::string_view, 3> only_named = {"read", "mmap", "fdatasync"};
  const bool is_named_alone
      = std::find(only_named.begin(), only_named.end(), call) != only_named.end();
  if (what.calls.empty() && is_named_alone)
    return verdict::pass;
  if (!what.calls.empty()
      && ("," + what.calls + ",").find("," + std::string(call) + ",") == std::string::npos)
    return verdict::pass;
  const int before = errno;
  const bool counts = absolute(folder, path).starts_with(what.below);
  errno = before;
  if (!counts)
    return verdict::pass;
  const auto number = ++state().seen;
  if (what.nth == 0 || number < what.nth || number - what.nth >= what.count)
    return verdict::pass;
  if (!what.gate.empty()) {
    bool stands = ::access(what.gate.c_str(), F_OK) == 0;
    for (; stands && what.error == 0; stands = ::access(what.gate.c_str(), F_OK) == 0)
      ::usleep(2000);
    errno = before;
    return stands ? verdict::refuse : verdict::pass;
  }
  if (what.error < 0) {
    ::kill(::getpid(), -what.error);
    return verdict::pass;
  }
  return what.error == 0 ? verdict::die : verdict::refuse;
}

/// True if the call may run. Otherwise it fails, and errno is set.
bool may(const char* call, int folder, const char* path) {
  switch (judge(call, folder, path)) {
    case verdict::pass:
      return true;
    case verdict::die:
      ::kill(::getpid(), SIGKILL);
      ::pause();
      break;
    case verdict::refuse:
      errno = state().what.error;
      break;
  }
  return false;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool writes(int flags) {
  return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
}

/// A process that is killed in a write has written half of it.
template <class Write>
ssize_t write_or_die(int descriptor, std::size_t size, const Write& write) {
  switch (judge("write", descriptor, nullptr)) {
    case verdict::pass:
      return write(size);
    case verdict::die:
      write(size / 2);
      ::kill(::getpid(), SIGKILL);
      ::pause();
      break;
    case verdict::refuse:
      errno = state().what.error;
      break;
  }
  return -1;
}

}  // namespace

void plant(const disk_fault& what) {
  state().what = what;
  state().seen = 0;
}

std::uint64_t disk_calls() {
  return state().seen;
}

}  // namespace troupe::tests

using namespace troupe::tests;

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open");
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, unsigned);
  va_end(list);
  return writes(flags) && !may("open", AT_FDCWD, path) ? -1 : real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open64");
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, unsigned);
  va_end(list);
  return writes(flags) && !may("open", AT_FDCWD, path) ? -1 : real(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static const auto real = next<int(int, const char*, int, ...)>("openat");
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, unsigned);
  va_end(list);
  return writes(flags) && !may("open", folder, path) ? -1 : real(folder, path, flags, mode);
}

ssize_t write(int descriptor, const void* data, std::size_t size) {
  static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
  return write_or_die(descriptor, size, [&](std::size_t n) { return real(descriptor, data, n); });
}

ssize_t pwrite(int descriptor, const void* data, std::size_t size, off_t at) {
  static const auto real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return write_or_die(
      descriptor, size, [&](std::size_t n) { return real(descriptor, data, n, at); });
}

ssize_t read(int descriptor, void* data, std::size_t size) {
  static const auto real = next<ssize_t(int, void*, std::size_t)>("read");
  return may("read", descriptor, nullptr) ? real(descriptor, data, size) : -1;
}

void* mmap(void* wanted,
           std::size_t size,
           int protection,
           int flags,
           int descriptor,
           off_t offset) noexcept {
  static const auto real = next<void*(void*, std::size_t, int, int, int, off_t)>("mmap");
  void* const out = real(wanted, size, protection, flags, descriptor, offset);
  if (out == MAP_FAILED || descriptor < 0 || may("mmap", descriptor, nullptr))
    return out;
  constexpr std::size_t page = 4096;
  static const int empty = ::memfd_create("unreadable", MFD_CLOEXEC);  // SIGBUS behind its end
  real(static_cast<char*>(out) + size / 2 / page * page,
       page,
       protection,
       MAP_SHARED | MAP_FIXED,
       empty,
       0);
  return out;
}

int fsync(int descriptor) {
  static const auto real = next<int(int)>("fsync");
  return may("fsync", descriptor, nullptr) ? real(descriptor) : -1;
}

int fdatasync(int descriptor) {
  static const auto real = next<int(int)>("fdatasync");
  return may("fdatasync", descriptor, nullptr) ? real(descriptor) : -1;
}

int ftruncate(int descriptor, off_t size) noexcept {
  static const auto real = next<int(int, off_t)>("ftruncate");
  return may("ftruncate", descriptor, nullptr) ? real(descriptor, size) : -1;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("rename");
  return may("rename", AT_FDCWD, to) ? real(from, to) : -1;
}

int renameat2(
    int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return may("rename", to_folder, to) ? real(from_folder, from, to_folder, to, flags) : -1;
}

int unlink(const char* path) noexcept {
  static const auto real = next<int(const char*)>("unlink");
  return may("unlink", AT_FDCWD, path) ? real(path) : -1;
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = next<int(int, const char*, int)>("unlinkat");
  return may("unlink", folder, path) ? real(folder, path, flags) : -1;
}

int remove(const char* path) noexcept {
  static const auto real = next<int(const char*)>("remove");
  return may("unlink", AT_FDCWD, path) ? real(path) : -1;
}

int rmdir(const char* path) noexcept {
  static const auto real = next<int(const char*)>("rmdir");
  return may("rmdir", AT_FDCWD, path) ? real(path) : -1;
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return may("mkdir", AT_FDCWD, path) ? real(path, mode) : -1;
}
}
