// Numeric addresses with a port: "127.0.0.1:40123", "[::1]:40123".

#pragma once

#include <cstdint>
#include <string>
#include <sys/socket.h>

namespace troupe::runtime::ucx {

struct socket_address {
  sockaddr_storage at = {};
  socklen_t size = 0;
};

/// Throw std::runtime_error when that is none.
socket_address address_of(const std::string& host, std::uint16_t port);
socket_address address_of(const std::string& host_and_port);

std::string to_string(const sockaddr_storage& x);
/// Of this machine alone: 127.0.0.0/8 and ::1.
bool is_loopback(const sockaddr_storage& x);
/// All addresses of this machine: 0.0.0.0 and ::.
bool is_unspecified(const sockaddr_storage& x);
/// The network interface that has it: "lo", "eth0". Throws std::runtime_error: none has.
std::string interface_of(const sockaddr_storage& x);
/// Waits until it has a link, five seconds at most: the system says that of a new one up to a
/// second late, and UCX passes over one that has none, so that nobody could be reached. Throws
/// std::runtime_error: it has none.
void await_link(const std::string& interface);

}  // namespace troupe::runtime::ucx
