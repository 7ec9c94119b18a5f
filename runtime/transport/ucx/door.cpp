#include "runtime/transport/ucx/door.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>

namespace troupe::runtime::ucx {

namespace {

/// Network byte order, as in UCX addresses.
std::array<char, 2> port_of(int socket) {
  sockaddr_storage at = {};
  socklen_t size = sizeof at;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return {};
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::array<char, 2> out;
  std::memcpy(
      out.data(), reinterpret_cast<const char*>(&at) + offsetof(sockaddr_in, sin_port), out.size());
  return out;
}

bool is_internet(int socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0
         && (domain == AF_INET || domain == AF_INET6);
}

}  // namespace

std::set<int> listening_sockets() {
  std::set<int> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto name = entry.path().filename().string();
    int number = -1, listens = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    socklen_t size = sizeof listens;
    if (::getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0
        && is_internet(number))
      out.insert(number);
  }
  return out;
}

door::door(const std::set<int>& before, std::span<const char> address_of_worker) {
  for (const int one : listening_sockets()) {
    const auto port = port_of(one);
    if (!before.contains(one)
        && std::search(address_of_worker.begin(), address_of_worker.end(), port.begin(), port.end())
               != address_of_worker.end())
      sockets_.push_back(one);
  }
  shut();
}

void door::open() {
  for (const int one : sockets_) {
    const int ignored = 0;
    ::setsockopt(one, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored);
  }
}

void door::shut() {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {1, &drop};
  for (const int one : sockets_)
    if (::setsockopt(one, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
      throw std::system_error(
          errno, std::generic_category(), "a wire cannot shut a port that UCX listens on");
}

}  // namespace troupe::runtime::ucx
