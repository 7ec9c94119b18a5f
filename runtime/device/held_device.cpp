#include "runtime/device/held_device.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

struct held_socket {
  int handle = -1;

  explicit held_socket(int x) : handle(x) {}
  held_socket(const held_socket&) = delete;
  held_socket& operator=(const held_socket&) = delete;
  ~held_socket() { ::close(handle); }
};

}  // namespace

// An abstract name of a Unix socket: the kernel frees it with the process, and no file remains.
std::shared_ptr<void> hold_device(const std::string& run, const std::string& device) {
  const auto what = fmt::format("{}/{}/{}", ::getuid(), run, device);
  const auto name = fmt::format("troupe device {:016x}", hash64(what.data(), what.size()));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int handle = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0)
    throw io_error(
        "cannot make a socket to claim a device: {}; raise the limit of descriptors "
        "(ulimit -n)",
        system_message(errno));
  auto out = std::make_shared<held_socket>(handle);
  if (::bind(handle, reinterpret_cast<const sockaddr*>(&address), size) == 0)
    return out;
  if (errno != EADDRINUSE)
    throw io_error("cannot claim a device by a socket's name: {}", system_message(errno));
  return nullptr;
}

std::vector<int> choose_devices(const std::vector<int>& all,
                                std::size_t wanted,
                                std::size_t first,
                                const std::function<bool(int device)>& hold) {
  std::vector<int> out;
  for (std::size_t i = 0; i < all.size() && out.size() < wanted; ++i)
    if (const int device = all[(first + i) % all.size()]; hold(device))
      out.push_back(device);
  return out;
}

}  // namespace troupe::runtime
