// The rendezvous port of a run, with processes of the run and with strangers.

#include "actors/process/control_plane.hpp"

#include "messages/control/rendezvous.hpp"
#include "runtime/core/error.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/descriptor.hpp"
#include "tests/support/losing_packets.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tcp_caller.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <deque>
#include <filesystem>
#include <memory>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

constexpr auto patience = std::chrono::seconds(20);  // reached by a hang only
constexpr const char* here = "127.0.0.1";

/// A process of a run.
struct process {
  explicit process(const fs::path& credentials, double suspicion = 10)
      : config(actors::make_configuration(2, actors::control_settings{credentials, suspicion})),
        system(*config) {}
  std::unique_ptr<caf::actor_system_config> config;
  caf::actor_system system;
};

struct run {
  explicit run(const tests::scratch_folder& folder, const std::string& name)
      : credentials(folder / name) {
    runtime::make_credentials(credentials, name);
    home.emplace(credentials);
    rendezvous = home->system.spawn([this]() -> messages::rendezvous_actor::behavior_type {
      return {[this](const messages::join& x) {
                ++asked;
                return messages::admitted{{.settings = x.host}};
              },
              [](const messages::present&) {},
              [](const messages::withdraw& x) { return messages::withdrawn{x.who}; }};
    });
    port = actors::publish(rendezvous, here);
  }
  ~run() {
    caf::scoped_actor(home->system)->send_exit(rendezvous, caf::exit_reason::kill);
    rendezvous = nullptr;
  }
  run(const run&) = delete;
  run& operator=(const run&) = delete;

  const fs::path credentials;
  std::optional<process> home;
  messages::rendezvous_actor rendezvous;
  std::uint16_t port = 0;
  std::atomic<int> asked = 0;
};

/// True if the published actor answers a request of the process.
bool is_answered(process& by, const messages::rendezvous_actor& from, const std::string& name) {
  bool out = false;
  caf::scoped_actor self(by.system);
  self->request(from, patience, messages::join{.host = name})
      .receive([&](const messages::admitted& x) { out = x.job.settings == name; },
               [](const caf::error&) {});
  return out;
}

messages::rendezvous_actor connect(process& by, std::uint16_t port) {
  return actors::rendezvous_at(by.system, here, port, patience);
}

double processor_seconds() {  // of this process
  timespec out = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &out);
  return double(out.tv_sec) + double(out.tv_nsec) / 1e9;
}

/// A listening port with a full backlog: the system ignores further callers.
class silent_port {
 public:
  silent_port() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(listens_.number(), at, size) != 0 || ::listen(listens_.number(), 0) != 0
        || ::getsockname(listens_.number(), at, &size) != 0)
      throw std::runtime_error("no port");
    number_ = ntohs(address.sin_port);
    for (auto& x : waiting_)
      (void)::connect(x.number(), at, size);
  }
  std::uint16_t number() const { return number_; }

 private:
  static runtime::descriptor end(int flags) {
    return runtime::descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  }
  runtime::descriptor listens_ = end(0);
  std::array<runtime::descriptor, 4> waiting_{
      end(SOCK_NONBLOCK), end(SOCK_NONBLOCK), end(SOCK_NONBLOCK), end(SOCK_NONBLOCK)};
  std::uint16_t number_ = 0;
};

/// A listening port: the system accepts calls and drops each packet with data.
class losing_port {
 public:
  losing_port() {
    tests::drop_packets_above(listens_.number(), tests::longest_tcp_header);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(listens_.number(), at, size) != 0 || ::listen(listens_.number(), 8) != 0
        || ::getsockname(listens_.number(), at, &size) != 0)
      throw std::runtime_error("no port");
    number_ = ntohs(address.sin_port);
  }
  std::uint16_t number() const { return number_; }

 private:
  runtime::descriptor listens_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t number_ = 0;
};

/// A listening port: each accepted call is reset.
class resetting_port {
 public:
  resetting_port() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(listens_.number(), at, size) != 0 || ::listen(listens_.number(), 8) != 0
        || ::getsockname(listens_.number(), at, &size) != 0)
      throw std::runtime_error("no port");
    number_ = ntohs(address.sin_port);
    resets_ = std::thread([this] {
      for (;;) {
        const runtime::descriptor called(::accept(listens_.number(), nullptr, nullptr));
        if (!called)
          return;
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        (void)::setsockopt(called.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      }
    });
  }
  ~resetting_port() {
    ::shutdown(listens_.number(), SHUT_RDWR);
    resets_.join();
  }
  resetting_port(const resetting_port&) = delete;
  resetting_port& operator=(const resetting_port&) = delete;
  std::uint16_t number() const { return number_; }

 private:
  runtime::descriptor listens_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t number_ = 0;
  std::thread resets_;
};

/// A stranger that speaks TLS, without a certificate.
class stranger_with_tls {
 public:
  explicit stranger_with_tls(int port) : caller_(port), context_(SSL_CTX_new(TLS_client_method())) {
    caller_.say("");  // connected
    ssl_ = SSL_new(context_);
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_);
  }
  ~stranger_with_tls() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  stranger_with_tls(const stranger_with_tls&) = delete;
  stranger_with_tls& operator=(const stranger_with_tls&) = delete;

  /// Completes the handshake, sends `what` and waits; true if data follow the handshake.
  bool is_answered(const std::string& what) {
    for (;;) {
      const bool done = SSL_do_handshake(ssl_) == 1;
      if (done)
        SSL_write(ssl_, what.data(), int(what.size()));
      send();
      char bytes[256];
      if (done && SSL_read(ssl_, bytes, sizeof bytes) > 0)
        return true;
      const auto heard = caller_.hear(1);
      if (heard.empty())
        return false;
      BIO_write(SSL_get_rbio(ssl_), heard.data(), int(heard.size()));
      if (SSL_get_error(ssl_, SSL_do_handshake(ssl_)) == SSL_ERROR_SSL)
        return false;
    }
  }

 private:
  void send() {
    char bytes[8192];
    const int n = BIO_read(SSL_get_wbio(ssl_), bytes, sizeof bytes);
    if (n > 0)
      caller_.say(std::string(bytes, std::size_t(n)));
  }

  tests::tcp_caller caller_;
  SSL_CTX* const context_;
  SSL* ssl_ = nullptr;
};

}  // namespace

TEST_CASE("a process of a run reaches its rendezvous", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process node(ours.credentials);
  CHECK(is_answered(node, connect(node, ours.port), "one"));
}

TEST_CASE("strangers at the rendezvous port do not disturb the run", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process before(ours.credentials);
  const auto known = connect(before, ours.port);
  REQUIRE(is_answered(before, known, "before"));
  std::deque<tests::tcp_caller> held;  // silent connections
  for (int n = 0; n < 8; ++n) {
    INFO("round " << n);
    tests::tcp_caller(ours.port).say("");  // a port scanner
    tests::tcp_caller garbage(ours.port);
    garbage.say(std::string(4096, char('a' + n)));
    CHECK(garbage.is_hung_up());
    tests::tcp_caller web(ours.port);
    web.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(web.is_hung_up());
    held.emplace_back(ours.port);  // a slow caller
    held.emplace_back(ours.port).say(std::string("\x16\x03\x01\x02", 4));
    // Existing connections work, and new ones are accepted.
    CHECK(is_answered(before, known, "again"));
  }
  process node(ours.credentials);
  CHECK(is_answered(node, connect(node, ours.port), "during"));
  held.clear();
  CHECK(is_answered(node, connect(node, ours.port), "after"));
}

TEST_CASE("silent callers take no processor time", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process before(ours.credentials);
  const auto known = connect(before, ours.port);
  std::deque<tests::tcp_caller> silent;
  for (int n = 0; n < 4; ++n) {
    silent.emplace_back(ours.port).say("");
    silent.emplace_back(ours.port).say(std::string("\x16\x03\x01\x02", 4));
  }
  process after(ours.credentials);  // accepted after them
  REQUIRE(is_answered(after, connect(after, ours.port), "they have been accepted"));
  const auto began = processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(processor_seconds() - began < 0.1);  // attempts to write take ten times as much
  CHECK(is_answered(before, known, "again"));
}

TEST_CASE("messages without a certificate of the run are ignored", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process before(ours.credentials);
  const auto known = connect(before, ours.port);
  CHECK_FALSE(stranger_with_tls(ours.port).is_answered(std::string(64, '\0')));
  CHECK(ours.asked == 0);
  CHECK(is_answered(before, known, "one"));
}

TEST_CASE("processes of two runs refuse each other", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  run theirs(folder, "theirs");
  process before(ours.credentials);
  const auto known = connect(before, ours.port);
  process other(theirs.credentials);
  CHECK_THROWS_AS(actors::rendezvous_at(other.system, here, ours.port, patience),
                  runtime::io_error);
  CHECK(ours.asked == 0);
  CHECK(is_answered(before, known, "one"));
  CHECK(is_answered(other, connect(other, theirs.port), "two"));
}

TEST_CASE("a failed connection names the address", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process node(ours.credentials);
  std::uint16_t nobodys = 0;
  {
    run gone(folder, "gone");
    nobodys = gone.port;
  }
  CHECK_THROWS_WITH(actors::rendezvous_at(node.system, here, nobodys, patience),
                    ContainsSubstring(std::string(here) + " port " + std::to_string(nobodys)));
}

// Imitates a network cut: the system drops calls to a port with a full backlog.
TEST_CASE("a connection to a silent host does not block other connections of the process",
          "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process node(ours.credentials);
  const silent_port silent;
  CHECK_THROWS_WITH(
      actors::rendezvous_at(node.system, here, silent.number(), std::chrono::milliseconds(100)),
      ContainsSubstring("port " + std::to_string(silent.number())));
  CHECK(is_answered(node, connect(node, ours.port), "one"));
}

TEST_CASE("a handshake without acknowledgements ends after the suspicion timeout", "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process node(ours.credentials, 1);
  const losing_port losing;
  for (int n = 0; n < 2; ++n) {  // the second call would wait for the first one
    const auto began = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(actors::rendezvous_at(node.system, here, losing.number(), patience),
                      ContainsSubstring("cannot connect to"));
    CHECK(std::chrono::steady_clock::now() - began < patience / 2);
  }
  CHECK(is_answered(node, connect(node, ours.port), "one"));
}

TEST_CASE("a connection that is reset during its handshake fails at once, and says so",
          "[actors]") {
  const tests::scratch_folder folder;
  run ours(folder, "ours");
  process node(ours.credentials);
  const resetting_port resetting;
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(actors::rendezvous_at(node.system, here, resetting.number(), patience),
                    ContainsSubstring("the network reset the connection"));
  CHECK(std::chrono::steady_clock::now() - began < patience / 2);
  CHECK(is_answered(node, connect(node, ours.port), "one"));
}

TEST_CASE("missing or readable credentials are refused by name", "[actors]") {
  const tests::scratch_folder folder;
  const auto open = [](const fs::path& at) {
    return actors::make_configuration(2, actors::control_settings{at, 10});
  };
  CHECK_THROWS_AS(open(folder / "none"), runtime::input_error);
  int n = 0;
  for (const auto file : {&runtime::credential_files::authority,
                          &runtime::credential_files::certificate,
                          &runtime::credential_files::key,
                          &runtime::credential_files::secret}) {
    const auto at = folder / std::to_string(n++);
    runtime::make_credentials(at, "ours");
    CHECK_NOTHROW(open(at));
    const auto path = runtime::credential_files_in(at).*file;
    fs::permissions(path, fs::perms::group_read, fs::perm_options::add);
    CHECK_THROWS_AS(open(at), runtime::input_error);
    CHECK_THROWS_WITH(open(at), ContainsSubstring(path.string()));
    fs::remove(path);
    CHECK_THROWS_AS(open(at), runtime::input_error);
    CHECK_THROWS_WITH(open(at), ContainsSubstring(path.string()));
  }
}

TEST_CASE("there is a spare thread for each allowed hang, and spare threads sleep", "[actors]") {
  CHECK(actors::spare_threads({.on = false, .max_restarts = 10}) == 0);
  CHECK(actors::spare_threads({.on = true, .max_restarts = 0}) == 1);
  CHECK(actors::spare_threads({.on = true, .max_restarts = 10}) == 11);
  CHECK(actors::spare_threads({.on = true, .max_restarts = 1'000'000}) == 64);
  const auto config = actors::make_configuration(64);
  const caf::actor_system system(*config);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // they have started
  const auto before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(processor_seconds() - before < 0.1);  // polling would take ten times as much
}
