#include "runtime/transport/ucx/silence.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace troupe::runtime::ucx {

namespace {

constexpr int looks = 3;  // at a connection that is idle, within the time

/// Of either end of a connection, in network order; nothing: it is none.
template <class Name>
std::array<char, 2> port_by(const Name& name, int socket) {
  sockaddr_storage at = {};
  socklen_t size = sizeof at;
  std::array<char, 2> out = {};
  if (name(socket, reinterpret_cast<sockaddr*>(&at), &size) == 0
      && (at.ss_family == AF_INET || at.ss_family == AF_INET6))
    std::memcpy(out.data(),
                reinterpret_cast<const char*>(&at) + offsetof(sockaddr_in, sin_port),
                out.size());
  return out;
}

bool names(std::span<const char> address, const std::array<char, 2>& port) {
  return std::search(address.begin(), address.end(), port.begin(), port.end()) != address.end();
}

}  // namespace

// Options of TCP are a hint: where the system does not know one the others still hold.
void end_when_silent(int socket, std::chrono::milliseconds after) {
  if (after.count() <= 0)
    return;
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(after / looks).count();
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, int(seconds));
  set(IPPROTO_TCP, TCP_KEEPINTVL, int(seconds));
  set(IPPROTO_TCP, TCP_KEEPCNT, looks);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, int(after.count()));
}

void end_when_silent(const door& own,
                     std::span<const char> address_of_peer,
                     std::chrono::milliseconds after) {
  if (after.count() <= 0)
    return;
  std::vector<std::array<char, 2>> ports;
  for (const int one : own.sockets())
    ports.push_back(port_by(::getsockname, one));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto name = entry.path().filename().string();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    const auto there = port_by(::getpeername, number);
    if (there == std::array<char, 2>{})
      continue;
    const auto here = port_by(::getsockname, number);
    if (names(address_of_peer, there) || std::find(ports.begin(), ports.end(), here) != ports.end())
      end_when_silent(number, after);
  }
}

}  // namespace troupe::runtime::ucx
