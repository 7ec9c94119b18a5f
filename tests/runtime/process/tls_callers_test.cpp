// TLS callers without a verified certificate at CAF's port; seen through epoll.

#include "runtime/process/tls_callers.hpp"

#include "runtime/process/descriptor.hpp"
#include "tests/support/soon.hpp"
#include "tests/support/tcp_caller.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using runtime::descriptor;
using runtime::tls_callers;

namespace {

/// A listening port.
class open_port {
 public:
  open_port() : listens_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    const auto address = reinterpret_cast<sockaddr*>(&at);
    if (::bind(listens_.number(), address, size) != 0 || ::listen(listens_.number(), 100) != 0
        || ::getsockname(listens_.number(), address, &size) != 0)
      throw std::runtime_error("no port can be opened");
    port_ = ntohs(at.sin_port);
  }
  int port() const { return port_; }
  descriptor accept() const { return descriptor(::accept(listens_.number(), nullptr, nullptr)); }

 private:
  descriptor listens_;
  int port_ = 0;
};

/// The waiting thread of the server.
struct serving {
  /// Events that would wake it, as last registered in the epoll.
  std::uint32_t woken() const {
    epoll_event out = {};
    return ::epoll_wait(loop.number(), &out, 1, 0) == 1 ? out.events : 0;
  }
  int ask(int operation, const descriptor& for_whom, std::uint32_t events) {
    epoll_event what = {};
    what.events = events;
    return all.epoll(loop.number(), operation, for_whom.number(), &what);
  }
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex);
    return said;
  }

  descriptor loop{::epoll_create1(EPOLL_CLOEXEC)};
  std::mutex mutex;
  std::vector<std::string> said;
  tls_callers all{&::epoll_ctl, [this](const std::string& what) {
                    const std::lock_guard lock(mutex);
                    said.push_back(what);
                  }};
};

/// Both ends of a connection.
struct called {
  explicit called(const open_port& at) : caller(at.port()) {
    caller.say("");  // connected
    ours = at.accept();
  }
  bool is_hung_up_now() const {
    pollfd what = {ours.number(), POLLIN, 0};
    return ::poll(&what, 1, 0) == 1 && (what.revents & POLLHUP) != 0;
  }

  tests::tcp_caller caller;
  descriptor ours;
};

}  // namespace

TEST_CASE("a silent caller does not wake a thread that only has data to write", "[process]") {
  const open_port port;
  called by(port);
  serving it;
  it.all.waits(&by, by.ours.number(), true);
  REQUIRE(it.ask(EPOLL_CTL_ADD, by.ours, EPOLLIN) == 0);
  REQUIRE(it.ask(EPOLL_CTL_MOD, by.ours, EPOLLIN | EPOLLOUT) == 0);
  CHECK(it.woken() == 0);
  by.caller.say("x");
  pollfd heard = {by.ours.number(), POLLIN, 0};
  REQUIRE(::poll(&heard, 1, 60'000) == 1);
  CHECK(it.woken() == EPOLLIN);
  char byte = 0;
  REQUIRE(::read(by.ours.number(), &byte, 1) == 1);
  CHECK(it.woken() == 0);
  it.all.waits(&by, by.ours.number(), false);  // the handshake wants to write first
  CHECK(it.woken() == EPOLLOUT);
  it.all.waits(&by, by.ours.number(), true);
  CHECK(it.woken() == 0);
  it.all.is_known(&by);
  CHECK(it.woken() == EPOLLOUT);
  REQUIRE(it.ask(EPOLL_CTL_MOD, by.ours, EPOLLIN) == 0);
  CHECK(it.woken() == 0);
  CHECK(it.ask(EPOLL_CTL_DEL, by.ours, 0) == 0);
  CHECK(it.told().empty());
}

TEST_CASE("a thread that does not wait for a caller's data is woken on request", "[process]") {
  const open_port port;
  called by(port);
  const called other(port);
  serving it;
  it.all.waits(&by, by.ours.number(), true);
  REQUIRE(it.ask(EPOLL_CTL_ADD, by.ours, EPOLLOUT) == 0);
  CHECK(it.woken() == EPOLLOUT);
  REQUIRE(it.ask(EPOLL_CTL_DEL, by.ours, 0) == 0);
  REQUIRE(it.ask(EPOLL_CTL_ADD, other.ours, EPOLLIN | EPOLLOUT) == 0);  // no handshake waits
  CHECK(it.woken() == EPOLLOUT);
}

TEST_CASE("a silent caller is disconnected after a timeout and reported with its address",
          "[process]") {
  const open_port port;
  called by(port);
  called known(port);
  serving it;
  it.all.wait_no_longer_than(std::chrono::milliseconds(20));
  it.all.waits(&by, by.ours.number(), true);
  CHECK(by.caller.is_hung_up());
  REQUIRE(tests::soon([&] { return it.told().size() == 1; }));  // the report follows shortly
  CHECK_THAT(it.told()[0], ContainsSubstring("within 0.02 s"));
  CHECK_THAT(it.told()[0],
             ContainsSubstring("from " + runtime::other_end_of(by.ours.number()) + " was"));
  // A later error of the handshake adds no second report.
  it.all.is_refused(&by, by.ours.number(), "it does not speak TLS");
  it.all.is_gone(&by);
  CHECK(it.told().size() == 1);
  it.all.is_refused(&known, known.ours.number(), "it has no certificate");
  CHECK(it.told().size() == 2);
}

TEST_CASE("a caller that leaves by itself is not reported and frees its place", "[process]") {
  const open_port port;
  std::deque<called> some;
  serving it;
  for (std::size_t n = 0; n < 2 * runtime::most_unknown_tls_callers; ++n) {
    const auto& one = some.emplace_back(port);
    it.all.waits(&one, one.ours.number(), true);
    it.all.has_left(&one);
  }
  CHECK(it.told().empty());
}

TEST_CASE("when there are too many callers, the oldest is disconnected", "[process]") {
  const open_port port;
  std::deque<called> crowd;
  serving it;
  for (std::size_t n = 0; n <= runtime::most_unknown_tls_callers; ++n) {
    for (const auto& before : crowd)
      CHECK_FALSE(before.is_hung_up_now());
    const auto& one = crowd.emplace_back(port);
    it.all.waits(&one, one.ours.number(), true);
  }
  CHECK(crowd[0].caller.is_hung_up());
  CHECK_FALSE(crowd[1].is_hung_up_now());
  CHECK(it.told().size() == 1);
}

TEST_CASE("end_all disconnects all callers that are not verified", "[process]") {
  const open_port port;
  std::deque<called> some;
  serving it;
  for (int n = 0; n < 3; ++n) {
    const auto& one = some.emplace_back(port);
    it.all.waits(&one, one.ours.number(), true);
  }
  it.all.is_known(&some[1]);
  it.all.end_all();
  CHECK(some[0].caller.is_hung_up());
  CHECK_FALSE(some[1].is_hung_up_now());
  CHECK(some[2].caller.is_hung_up());
  CHECK(it.told().empty());
}

TEST_CASE("a caller that reset its connection is still reported with its address", "[process]") {
  const open_port port;
  descriptor caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(std::uint16_t(port.port()));
  const auto address = reinterpret_cast<sockaddr*>(&at);
  socklen_t size = sizeof at;
  REQUIRE(::connect(caller.number(), address, size) == 0);
  REQUIRE(::getsockname(caller.number(), address, &size) == 0);
  const auto its_port = ntohs(at.sin_port);
  const linger at_once{1, 0};
  REQUIRE(::setsockopt(caller.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  caller.close();
  const auto ours = port.accept();
  REQUIRE(::getpeername(ours.number(), address, &size) != 0);
  CHECK(runtime::other_end_of(ours.number()) == "127.0.0.1:" + std::to_string(its_port));
}
