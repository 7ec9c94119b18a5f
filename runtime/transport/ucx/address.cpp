#include "runtime/transport/ucx/address.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace troupe::runtime::ucx {

namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw std::runtime_error("'" + text
                           + "' is not a numeric address with a port, such as 127.0.0.1:40123");
}

std::string host_of(const sockaddr_storage& x) {
  char out[INET6_ADDRSTRLEN] = {};
  sockaddr_in four = {};
  sockaddr_in6 six = {};
  if (x.ss_family == AF_INET) {
    std::memcpy(&four, &x, sizeof four);
    ::inet_ntop(AF_INET, &four.sin_addr, out, sizeof out);
  } else {
    std::memcpy(&six, &x, sizeof six);
    ::inet_ntop(AF_INET6, &six.sin6_addr, out, sizeof out);
  }
  return out;
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
  const bool is_four = x.ss_family == AF_INET;
  sockaddr_in four = {};
  sockaddr_in6 six = {};
  if (is_four)
    std::memcpy(&four, &x, sizeof four);
  else
    std::memcpy(&six, &x, sizeof six);
  const auto host = host_of(x);
  const auto port = std::to_string(ntohs(is_four ? four.sin_port : six.sin6_port));
  return (is_four ? host : "[" + host + "]") + ":" + port;
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

bool is_unspecified(const sockaddr_storage& x) {
  if (x.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &x, sizeof four);
    return four.sin_addr.s_addr == INADDR_ANY;
  }
  sockaddr_in6 six;
  std::memcpy(&six, &x, sizeof six);
  return IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr);
}

namespace {

using interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

interfaces all_interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    throw std::runtime_error("cannot list the network interfaces: "
                             + std::generic_category().message(errno));
  return {all, &::freeifaddrs};
}

}  // namespace

std::string interface_of(const sockaddr_storage& x) {
  if (is_loopback(x))
    return "lo";
  const auto all = all_interfaces();
  for (const auto* one = all.get(); one != nullptr; one = one->ifa_next) {
    sockaddr_storage has = {};
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != x.ss_family)
      continue;
    const bool is_four = x.ss_family == AF_INET;
    std::memcpy(&has, one->ifa_addr, is_four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (host_of(has) == host_of(x))
      return one->ifa_name;
  }
  throw std::runtime_error("no network interface of this machine has the address " + host_of(x));
}

void await_link(const std::string& interface) {
  constexpr auto patience = std::chrono::seconds(5);
  constexpr auto between_looks = std::chrono::milliseconds(10);
  for (const auto until = std::chrono::steady_clock::now() + patience;;) {
    const auto all = all_interfaces();
    for (const auto* one = all.get(); one != nullptr; one = one->ifa_next)
      if (interface == one->ifa_name && (one->ifa_flags & IFF_RUNNING) != 0)
        return;
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error(
          "the network interface '"
          + interface + "' has no link: check its cable, or name another address of this machine");
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace troupe::runtime::ucx
