#include "runtime/process/unix_socket.hpp"

#include "runtime/core/error.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int waiting_connections = 128;

/// Addresses the folder by its descriptor: "/proc/self/fd/7/name" is short for every folder.
class socket_address {
 public:
  socket_address(const fs::path& folder, const std::string& name)
      : path_(folder / name), folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!folder_)
      throw io_error("cannot open the folder '{}': {}", folder.string(), system_message(errno));
    const auto text = fmt::format("/proc/self/fd/{}/{}", folder_.number(), name);
    if (text.size() >= sizeof address_.sun_path)
      throw io_error("the name of the socket '{}' is too long", path_.string());
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, text.c_str(), text.size() + 1);
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() { return sizeof(sockaddr_un); }
  const char* path() const { return address_.sun_path; }

  io_error failure(const char* what) const {
    return io_error("cannot {} the socket '{}': {}", what, path_.string(), system_message(errno));
  }

 private:
  fs::path path_;
  descriptor folder_;
  sockaddr_un address_ = {};
};

descriptor new_socket(const socket_address& at, int kind) {
  descriptor out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | kind, 0));
  if (!out)
    throw at.failure("make");
  return out;
}

}  // namespace

descriptor listen_in(const fs::path& folder, const std::string& name) {
  const socket_address at(folder, name);
  auto out = new_socket(at, SOCK_NONBLOCK);
  ::unlink(at.path());
  if (::bind(out.number(), at.get(), at.size()) != 0
      || ::listen(out.number(), waiting_connections) != 0)
    throw at.failure("listen on");
  return out;
}

descriptor connect_in(const fs::path& folder, const std::string& name) {
  const socket_address at(folder, name);
  auto out = new_socket(at, 0);
  if (::connect(out.number(), at.get(), at.size()) != 0)
    throw at.failure("connect to");
  return out;
}

descriptor accept_own_user(const descriptor& listening, std::string& refused) {
  descriptor out(::accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!out)
    return out;
  const auto user = user_of_peer(out.number());
  if (user == ::geteuid())
    return out;
  refused = user ? fmt::format("a connection of user {} was refused", *user)
                 : "a connection of an unknown user was refused";
  return {};
}

std::optional<uid_t> user_of_peer(int connection) {
  ucred who = {};
  socklen_t size = sizeof who;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return {};
  return who.uid;
}

std::pair<descriptor, descriptor> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw io_error("cannot make a pair of sockets: {}", system_message(errno));
  return {descriptor(ends[0]), descriptor(ends[1])};
}

void make_non_blocking(const descriptor& x) {
  const int flags = ::fcntl(x.number(), F_GETFL);
  if (flags < 0 || ::fcntl(x.number(), F_SETFL, flags | O_NONBLOCK) != 0)
    throw io_error("descriptor {} is not a connection: {}", x.number(), system_message(errno));
}

}  // namespace troupe::runtime
