#include "runtime/process/host_address.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/descriptor.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

namespace troupe::runtime {
namespace {

using found_addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

found_addresses look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failure != 0 || found == nullptr)
    throw input_error(
        "no address of the host '{}' is known ({}): check its name, or give a "
        "numeric address",
        host,
        ::gai_strerror(failure));
  return {found, ::freeaddrinfo};
}

std::string text_of(const sockaddr* x, socklen_t size) {
  std::array<char, NI_MAXHOST> out = {};
  if (::getnameinfo(x, size, out.data(), out.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    throw io_error("cannot format an address of this machine");
  return out.data();
}

struct interface_address {
  std::string interface, address;
  int family;
};

/// Addresses of interfaces that are up, without link-local ones: IPv4 first.
std::vector<interface_address> addresses_of_interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    throw io_error("cannot list the network interfaces of this host: {}", system_message(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  std::vector<interface_address> out;
  for (const int family : {AF_INET, AF_INET6})
    for (const auto* x = all; x != nullptr; x = x->ifa_next) {
      if (x->ifa_addr == nullptr || x->ifa_addr->sa_family != family
          || (x->ifa_flags & IFF_UP) == 0)
        continue;
      const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(x->ifa_addr);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        continue;
      out.push_back({x->ifa_name,
                     text_of(x->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof *v6),
                     family});
    }
  return out;
}

}  // namespace

host_and_port read_host_and_port(const std::string& text) {
  const auto colon = text.rfind(':');
  host_and_port out;
  if (colon != std::string::npos) {
    out.host = text.substr(0, colon);
    if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
      out.host = out.host.substr(1, out.host.size() - 2);
    const auto* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, out.port);
    if (read.ec == std::errc() && read.ptr == end && !out.host.empty())
      return out;
  }
  throw input_error("'{}' is not HOST:PORT, such as 10.0.0.1:7000, with a port up to 65535", text);
}

std::string numeric_address(const std::string& host) {
  const auto found = look_up(host, 0, 0);
  return text_of(found->ai_addr, found->ai_addrlen);
}

bool is_wildcard(const std::string& numeric) {
  return numeric == "0.0.0.0" || numeric == "::";
}

bool is_loopback(const std::string& numeric) {
  in_addr v4 = {};
  in6_addr v6 = {};
  constexpr std::uint32_t first = 127, bits_below = 24;
  if (::inet_pton(AF_INET, numeric.c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> bits_below == first;
  return ::inet_pton(AF_INET6, numeric.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string address_of_interface(const std::string& name) {
  std::string names;
  for (const auto& x : addresses_of_interfaces()) {
    if (x.interface == name)
      return x.address;
    if (names.find(x.interface) == std::string::npos)
      names += (names.empty() ? "" : ", ") + x.interface;
  }
  throw input_error(
      "this host has no network interface '{}' with an address: name one of {}", name, names);
}

std::string address_of_this_host() {
  constexpr const char* any_global = "192.0.2.1";  // for documentation (RFC 5737): never near
  try {
    return own_address_towards(any_global);
  } catch (const io_error&) {  // without a default route
  }
  auto all = addresses_of_interfaces();
  std::erase_if(all, [](const auto& x) { return is_loopback(x.address); });
  if (all.empty())
    return "127.0.0.1";
  if (all.size() == 1 || all[1].family != all[0].family)
    return all[0].address;
  throw input_error(
      "this host has several addresses ({} on {}, {} on {}) and no default route: give "
      "`hosts.interface` the one that other hosts reach",
      all[0].address,
      all[0].interface,
      all[1].address,
      all[1].interface);
}

std::string own_address_towards(const std::string& numeric) {
  constexpr std::uint16_t any_port = 9;
  const auto to = look_up(numeric, any_port, AI_NUMERICHOST);
  const descriptor probe(::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  if (!probe || ::connect(probe.number(), to->ai_addr, to->ai_addrlen) != 0
      || ::getsockname(probe.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw io_error("there is no route from this host to {}: {}", numeric, system_message(errno));
  return text_of(reinterpret_cast<const sockaddr*>(&own), size);
}

void require_listener(const std::string& numeric,
                      std::uint16_t port,
                      std::chrono::milliseconds patience) {
  const auto to = look_up(numeric, port, AI_NUMERICHOST);
  const descriptor probe(::socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int failure = probe ? 0 : errno;
  if (probe && ::connect(probe.number(), to->ai_addr, to->ai_addrlen) != 0) {
    failure = errno;
    pollfd waiting{probe.number(), POLLOUT, 0};
    const auto until = std::chrono::steady_clock::now() + patience;
    for (int ready = -1; failure == EINPROGRESS && ready <= 0;) {
      const auto left
          = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      ready = left.count() > 0 ? ::poll(&waiting, 1, int(left.count())) : 0;
      socklen_t size = sizeof failure;
      if (ready > 0)
        ::getsockopt(probe.number(), SOL_SOCKET, SO_ERROR, &failure, &size);
      else if (ready == 0)
        failure = ETIMEDOUT;
      else if (errno != EINTR)
        failure = errno;
    }
  }
  // Only a connection that was accepted is reset, so a process listens.
  if (failure != 0 && failure != ECONNRESET)
    throw io_error("cannot connect to {} port {}: {}", numeric, port, system_message(failure));
}

}  // namespace troupe::runtime
