#include "runtime/transport/ucx/address.hpp"

#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <netinet/in.h>
#include <stdexcept>

namespace troupe::runtime::ucx {

namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw std::runtime_error("'" + text
                           + "' is no numeric address with a port, such as 127.0.0.1:40123");
}

}  // namespace

socket_address address_of(const std::string& host, std::uint16_t port) {
  socket_address out;
  sockaddr_in four = {};
  sockaddr_in6 six = {};
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&out.at, &four, out.size = sizeof four);
  } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    std::memcpy(&out.at, &six, out.size = sizeof six);
  } else {
    refuse(host);
  }
  return out;
}

socket_address address_of(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == text.npos || colon == 0)
    refuse(text);
  std::uint16_t port = 0;
  const auto* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, port);
  if (read.ec != std::errc() || read.ptr != end || port == 0)
    refuse(text);
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return address_of(host, port);
}

std::string to_string(const sockaddr_storage& x) {
  char host[INET6_ADDRSTRLEN] = {};
  if (x.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &x, sizeof four);
    ::inet_ntop(AF_INET, &four.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(four.sin_port));
  }
  sockaddr_in6 six;
  std::memcpy(&six, &x, sizeof six);
  ::inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof host);
  return "[" + std::string(host) + "]:" + std::to_string(ntohs(six.sin6_port));
}

bool is_loopback(const sockaddr_storage& x) {
  if (x.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &x, sizeof four);
    return ntohl(four.sin_addr.s_addr) >> 24 == 127;
  }
  sockaddr_in6 six;
  std::memcpy(&six, &x, sizeof six);
  return x.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

}  // namespace troupe::runtime::ucx
