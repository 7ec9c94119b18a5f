#include "runtime/transport/ucx/silence.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <vector>

namespace troupe::runtime::ucx {

namespace {

// Number of keepalive probes within the timeout. With TCP_USER_TIMEOUT, the first failed probe
// after the timeout ends the connection, whatever the probe count.
constexpr int looks = 3;

/// One end of a connection, in network byte order.
struct socket_end {
  std::vector<char>
      address;  ///< empty: an address of this host only, which UCX does not put into its addresses
  std::array<char, 2> port = {};
  bool is_one = false;
};

template <class Name>
socket_end end_by(const Name& name, int socket) {
  sockaddr_storage at = {};
  socklen_t size = sizeof at;
  if (name(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return {};
  const auto* const bytes = reinterpret_cast<const char*>(&at);
  socket_end out;
  if (at.ss_family == AF_INET) {
    const auto* const from = bytes + offsetof(sockaddr_in, sin_addr);
    if (*from != 127)
      out.address.assign(from, from + sizeof(in_addr));
  } else if (at.ss_family == AF_INET6) {
    in6_addr where = {};
    std::memcpy(&where, bytes + offsetof(sockaddr_in6, sin6_addr), sizeof where);
    if (!IN6_IS_ADDR_LOOPBACK(&where))
      out.address.assign(reinterpret_cast<const char*>(&where),
                         reinterpret_cast<const char*>(&where) + sizeof where);
  } else {
    return {};
  }
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::memcpy(out.port.data(), bytes + offsetof(sockaddr_in, sin_port), out.port.size());
  out.is_one = true;
  return out;
}

// A packed UCX address contains an interface's address and later its port, with other fields
// between.
bool names(std::span<const char> packed, const socket_end& x) {
  const auto at = std::search(packed.begin(), packed.end(), x.address.begin(), x.address.end());
  return std::search(at, packed.end(), x.port.begin(), x.port.end()) != packed.end();
}

}  // namespace

// TCP options are a hint: when the system does not know one, the others still apply.
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
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, int(after.count()));
}

void end_when_silent(const door& own,
                     std::span<const char> address_of_peer,
                     std::chrono::milliseconds after) {
  if (after.count() <= 0)
    return;
  std::vector<std::array<char, 2>> ports;
  for (const int one : own.sockets())
    ports.push_back(end_by(::getsockname, one).port);
  std::error_code refused;  // not an error, for example when no descriptor is free
  std::filesystem::directory_iterator entry("/proc/self/fd", refused);
  for (; !refused && entry != std::filesystem::directory_iterator(); entry.increment(refused)) {
    const auto name = entry->path().filename().string();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    const auto there = end_by(::getpeername, number);
    if (!there.is_one)
      continue;
    const auto here = end_by(::getsockname, number).port;
    if (names(address_of_peer, there) || std::find(ports.begin(), ports.end(), here) != ports.end())
      end_when_silent(number, after);
  }
}

}  // namespace troupe::runtime::ucx
