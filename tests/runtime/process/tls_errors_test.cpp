// TLS handshakes over a path that loses packets.

#include "runtime/process/tls_errors.hpp"

#include "runtime/process/credentials.hpp"
#include "runtime/process/descriptor.hpp"
#include "tests/support/losing_packets.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>

using namespace troupe;
using runtime::descriptor;

namespace {

constexpr auto silence = std::chrono::milliseconds(300);
constexpr std::uint32_t no_limit = 1U << 20;
constexpr int patience_ms = 20'000;  // reached by a hang only

/// A TCP connection of this process with itself. The ends drop received packets above these sizes.
struct losing_connection {
  losing_connection(std::uint32_t above_at_caller, std::uint32_t above_at_called) {
    const descriptor listens(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    tests::drop_packets_above(caller.number(), above_at_caller);
    tests::drop_packets_above(listens.number(), above_at_called);
    if (::bind(listens.number(), at, size) != 0 || ::listen(listens.number(), 1) != 0
        || ::getsockname(listens.number(), at, &size) != 0
        || ::connect(caller.number(), at, size) != 0)
      throw std::runtime_error("no connection");
    called = descriptor(::accept(listens.number(), nullptr, nullptr));
    for (const auto* end : {&caller, &called})
      ::fcntl(end->number(), F_SETFL, O_NONBLOCK);
  }

  descriptor caller{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}, called;
};

/// One side of a handshake.
class handshake_side {
 public:
  explicit handshake_side(const descriptor& socket) : socket_(socket.number()) {
    ::SSL_set_fd(on_.get(), socket_);
  }
  handshake_side(const descriptor& socket, const runtime::credential_files& files)
      : handshake_side(socket) {
    ::SSL_use_certificate_file(on_.get(), files.certificate.c_str(), SSL_FILETYPE_PEM);
    ::SSL_use_PrivateKey_file(on_.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  }

  SSL* on() const { return on_.get(); }
  bool waits(int result) const {
    return result != 1 && ::SSL_get_error(on(), result) == SSL_ERROR_WANT_READ;
  }
  bool hears() const { return heard(POLLIN) == POLLIN; }
  bool is_ended() const { return (heard(POLLRDHUP) & (POLLERR | POLLHUP | POLLRDHUP)) != 0; }

 private:
  struct frees {
    void operator()(SSL_CTX* x) const { ::SSL_CTX_free(x); }
    void operator()(SSL* x) const { ::SSL_free(x); }
  };
  short heard(short what) const {
    pollfd asked = {socket_, what, 0};
    return ::poll(&asked, 1, patience_ms) == 1 ? asked.revents : short(0);
  }

  int socket_;
  std::unique_ptr<SSL_CTX, frees> context_{::SSL_CTX_new(::TLS_method())};
  std::unique_ptr<SSL, frees> on_{::SSL_new(context_.get())};
};

}  // namespace

TEST_CASE("the system ends a TLS call that is not acknowledged", "[process]") {
  runtime::end_tls_when_silent(silence);
  const losing_connection between(tests::longest_tcp_header, tests::longest_tcp_header);
  const handshake_side caller(between.caller);
  REQUIRE(caller.waits(::SSL_connect(caller.on())));
  CHECK(caller.is_ended());
  CHECK_FALSE(caller.waits(::SSL_connect(caller.on())));
  runtime::end_tls_when_silent({});
}

// The certificate is longer than 700 bytes. Its sender ends first; then the other end's system asks
// for a sign of life.
TEST_CASE("the system ends both ends of a TLS handshake that loses packets above 700 bytes",
          "[process]") {
  const tests::scratch_folder folder;
  runtime::make_credentials(folder / "run", "ours");
  runtime::end_tls_when_silent(silence);
  const losing_connection between(700, 700);
  const handshake_side caller(between.caller);
  const handshake_side called(between.called, runtime::credential_files_in(folder / "run"));
  REQUIRE(caller.waits(::SSL_connect(caller.on())));
  REQUIRE(called.hears());
  REQUIRE(called.waits(::SSL_accept(called.on())));
  CHECK(called.is_ended());
  CHECK(caller.is_ended());
  runtime::end_tls_when_silent({});
}

TEST_CASE("a process that ends hangs up its TLS calls without an answer", "[process]") {
  const losing_connection between(tests::longest_tcp_header, tests::longest_tcp_header);
  const handshake_side caller(between.caller);
  REQUIRE(caller.waits(::SSL_connect(caller.on())));
  runtime::hang_up_on_unknown_callers();
  CHECK(caller.is_ended());
}

TEST_CASE("a process that ends does not hang up a failed TLS call: its number may be reused",
          "[process]") {
  const losing_connection between(no_limit, no_limit);
  const handshake_side caller(between.caller);
  REQUIRE(caller.waits(::SSL_connect(caller.on())));
  REQUIRE(::send(between.called.number(), "no TLS", 6, 0) == 6);
  REQUIRE(caller.hears());
  REQUIRE_FALSE(caller.waits(::SSL_connect(caller.on())));
  runtime::hang_up_on_unknown_callers();
  CHECK(::send(between.caller.number(), "x", 1, MSG_NOSIGNAL) == 1);
}
