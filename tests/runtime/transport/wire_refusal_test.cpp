// A wire with a secret refuses strangers, while two good peers continue.

#include "kernels/backend/plugin.hpp"
#include "runtime/transport/handshake.hpp"
#include "tests/support/soon.hpp"
#include "tests/support/tcp_caller.hpp"
#include "tests/support/wire_peers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <filesystem>
#include <linux/filter.h>
#include <set>
#include <string_view>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

wire_settings of_run(const std::string& secret = "secret") {
  wire_settings out;
  out.secret = secret;
  out.run_id = "run";
  return out;
}

/// Collects the reports of refusals.
class complaints {
 public:
  wire_settings heard_from(wire_settings x) {
    x.report_refusal = [this](const std::string& what) {
      const std::lock_guard lock(mutex_);
      all_.push_back(what);
    };
    return x;
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

std::unique_ptr<wire_transport> transport_of(std::uint64_t process, const wire_settings& with) {
  return std::make_unique<wire_transport>(
      wire_transport_settings{.process = process},
      [&](wire_owner& owner) { return make_ucx_wire(owner, with); });
}

/// Two good peers; one is under attack.
struct company {
  memory_pool pool;
  complaints said;
  std::unique_ptr<wire_transport> here, there;

  explicit company(wire_settings with = of_run())
      : here(transport_of(1, said.heard_from(with))), there(transport_of(2, of_run())) {
    there->introduce(here->address());
    CHECK(goes_on());
  }
  std::string address() const { return here->address().where; }
  bool goes_on() {
    return there->redeem(here->deposit(numbered(pool, 100'000), now)).size() == 100'000;
  }
  /// True if a new peer of the run can connect.
  bool takes_newcomers() {
    const auto third = transport_of(3, of_run());
    third->introduce(here->address());
    return third->redeem(here->deposit(numbered(pool, 10), now)).size() == 10;
  }
  bool has_said_once(const std::string& words) {
    const auto times = [&] {
      const auto all = said.all();
      return std::count_if(
          all.begin(), all.end(), [&](const auto& x) { return x.find(words) != x.npos; });
    };
    return soon([&] { return times() > 0; }) && times() == 1 && said.all().size() == 1;
  }
};

std::string announced(int kind, std::uint32_t bytes) {
  std::string out = "TRPH";
  out += char(kind);
  out.append(3, '\0');
  return out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
}

std::string why_not(wire_transport& by, const ticket& x) {
  auto failure = redeeming(by, x);
  REQUIRE(is_ready(failure));
  return failure.get();
}

/// Listening ports of this process.
std::set<int> listening_ports() {
  std::set<int> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_in at = {};
    socklen_t at_size = sizeof at;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0
        && ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &at_size) == 0
        && at.sin_family == AF_INET)
      out.insert(ntohs(at.sin_port));
  }
  return out;
}

}  // namespace

TEST_CASE("WIRE-1: a peer with another secret is refused, logged once, and the others go on",
          "[transport]") {
  company two;
  for (int i = 0; i < 2; ++i) {
    const auto stranger = transport_of(4, of_run("another"));
    stranger->introduce(two.here->address());
    const auto x = two.here->deposit(numbered(two.pool, 10), now);
    CHECK_THAT(why_not(*stranger, x), ContainsSubstring("without a reason"));
    CHECK(two.here->leased() == 1);
    two.here->take_back({&x, 1});
    CHECK(two.goes_on());
  }
  CHECK(two.has_said_once("not made with this run's secret"));
}

TEST_CASE("WIRE-2: a peer of another run or an older build learns the reason; the others go on",
          "[transport]") {
  company two;
  auto with = of_run();
  std::string words;
  SECTION("another run with the same secret") {
    with.run_id = "yesterday's";
    words = "belongs to the run 'yesterday's'";
  }
  SECTION("an older build") {
    with.build = "0.0.9";
    words = "of the build '0.0.9'";
  }
  SECTION("an older protocol") {
    with.protocol = 1;
    words = "version 1 of the wire's protocol";
  }
  for (int i = 0; i < 2; ++i) {
    const auto other = transport_of(4, with);
    other->introduce(two.here->address());
    CHECK_THAT(why_not(*other, two.here->deposit(numbered(two.pool, 10), now)),
               ContainsSubstring(words));
    CHECK(two.goes_on());
  }
  CHECK(two.has_said_once(words));
}

TEST_CASE(
    "WIRE-3: scanners, garbage and impossible lengths are refused, logged once; the others go on",
    "[transport]") {
  company two;
  std::string bytes, words;
  SECTION("a port scanner") {
    words = "closed the connection before";
  }
  SECTION("garbage") {
    bytes = std::string(100'000, 'x');
    words = "does not begin with TRPH";
  }
  SECTION("a message of UCX itself") {
    bytes = std::string("\x78\x56\x34\x12\xbe\xba\xfe\xca\x00\xff\xff\xff\xff", 13)
            + std::string(4096, '\0');
    words = "does not begin with TRPH";
  }
  SECTION("a huge announced length") {
    bytes = announced(1, 0xffffffff);
    words = "announced 4294967295 bytes";
  }
  for (int i = 0; i < 3; ++i) {
    const tcp_caller some(two.address());
    REQUIRE(some.is_connected(60'000));
    if (!bytes.empty()) {
      some.say(bytes);
      CHECK(some.is_hung_up());
    }
    CHECK(two.goes_on());
  }
  CHECK(two.has_said_once(words));
  CHECK(two.takes_newcomers());
}

TEST_CASE("WIRE-3: a silent or slow peer is disconnected in time, and the others go on",
          "[transport]") {
  auto with = of_run();
  with.handshake_within = std::chrono::milliseconds(300);
  company two(with);
  const tcp_caller silent(two.address()), slow(two.address());
  slow.say("TR");
  CHECK(two.goes_on());
  CHECK(silent.is_hung_up());
  CHECK(slow.is_hung_up());
  CHECK(two.goes_on());
  CHECK(two.has_said_once("within 300 ms"));
}

TEST_CASE("WIRE-3: when there are too many unknown peers, the oldest is disconnected",
          "[transport]") {
  auto with = of_run();
  with.most_unknown = 4;
  with.handshake_within = std::chrono::hours(1);
  company two(with);
  std::vector<std::unique_ptr<tcp_caller>> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(std::make_unique<tcp_caller>(two.address()));
    REQUIRE(all.back()->is_connected(60'000));
  }
  for (int i = 0; i < 8; ++i)
    CHECK(all[std::size_t(i)]->is_hung_up());
  CHECK(two.goes_on());
  CHECK(two.takes_newcomers());
  CHECK(two.has_said_once("the oldest one is disconnected"));
}

TEST_CASE("WIRE-1: a replay of a good caller's bytes is refused, and the others go on",
          "[transport]") {
  // A caller of the run; a man in the middle forwards and records its bytes.
  company two;
  auto caller = handshake::calling({.secret = "secret",
                                    .run_id = "run",
                                    .build = "build",
                                    .process = 4,
                                    .address = "127.0.0.1:1"},
                                   two.address(),
                                   random_bytes(),
                                   "where it is");
  const auto hello = caller.take_output();
  std::string claim;
  {
    const tcp_caller between(two.address());
    between.say(hello);
    caller.feed(between.hear(44));
    claim = caller.take_output();
    REQUIRE(claim.size() > 44);
  }
  const tcp_caller again(two.address());
  again.say(hello);
  CHECK(again.hear(44).size() == 44);
  again.say(claim);
  CHECK(again.hear(1000) == announced(6, 0));
  CHECK(again.is_hung_up());
  CHECK(two.goes_on());
  CHECK(soon([&] { return two.said.all().size() == 2; }));  // the first one has left
  CHECK_THAT(two.said.all().back(), ContainsSubstring("the message is a replay"));
}

namespace {

/// A caller of the run that has not yet sent its last message, with its UCX address.
class caller_of_run {
 public:
  caller_of_run(const std::string& to, const std::string& payload)
      : end_(to),
        talk_(handshake::calling({.secret = "secret",
                                  .run_id = "run",
                                  .build = kernels::build_of_plugins(),
                                  .process = 4,
                                  .address = "127.0.0.1:1"},
                                 to,
                                 random_bytes(),
                                 payload)) {
    while (!talk_.is_done() && !talk_.has_failed()) {
      end_.say(talk_.take_output());
      const auto said = end_.hear(1);
      REQUIRE_FALSE(said.empty());
      talk_.feed(said);
    }
    REQUIRE(talk_.why().empty());
  }
  const std::string& payload_of_other() const { return talk_.payload(); }
  void say_where() { end_.say(talk_.take_output()); }

 private:
  tcp_caller end_;
  handshake talk_;
};

/// A listening port that drops all connections, like a dead machine.
class silent_port {
 public:
  silent_port() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program = {1, &drop};
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(listener_, 1) == 0);
    REQUIRE(::setsockopt(listener_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    std::memcpy(port_.data(), &at.sin_port, port_.size());
  }
  ~silent_port() { ::close(listener_); }
  silent_port(const silent_port&) = delete;
  silent_port& operator=(const silent_port&) = delete;
  const std::string& in_network_order() const { return port_; }

 private:
  const int listener_;
  std::string port_ = std::string(2, '\0');
};

}  // namespace

TEST_CASE("WIRE-3: an authenticated peer that falls silent before UCX connects blocks no others",
          "[transport]") {
  company two;
  const silent_port nowhere;
  const auto before = listening_ports();
  const caller_of_run first(two.address(), "where it is");
  auto payload = first.payload_of_other();
  int replaced = 0;
  for (const int port : listening_ports()) {
    const auto number = htons(std::uint16_t(port));
    const std::string_view bytes(reinterpret_cast<const char*>(&number), sizeof number);
    if (const auto at = payload.find(bytes); !before.contains(port) && at != payload.npos) {
      payload.replace(at, bytes.size(), nowhere.in_network_order());
      ++replaced;
    }
  }
  REQUIRE(replaced > 0);
  caller_of_run second(two.address(), payload);
  second.say_where();
  CHECK(why_not(*two.there, two.here->deposit(numbered(two.pool, 100'000), now)) == "");
  CHECK(two.takes_newcomers());
}

TEST_CASE("WIRE-4: once two peers are connected, UCX's ports refuse strangers", "[transport]") {
  const auto before = listening_ports();
  company two;
  const auto own = [](const wire_transport& x) {
    const auto where = x.address().where;
    return std::stoi(where.substr(where.rfind(':') + 1));
  };
  int of_ucx = 0;
  for (const int port : listening_ports()) {
    if (before.contains(port) || port == own(*two.here) || port == own(*two.there))
      continue;
    ++of_ucx;
    CAPTURE(port);
    CHECK(soon([&] { return !tcp_caller(port).is_connected(50); }));
    CHECK_FALSE(tcp_caller(port).is_connected(200));
  }
  CHECK(of_ucx > 0);
  CHECK(tcp_caller(own(*two.here)).is_connected(60'000));  // for comparison: an open port
  CHECK(two.goes_on());
}

TEST_CASE("a wire listens on loopback by default and refuses invalid settings", "[transport]") {
  CHECK_THAT(transport_of(1, of_run())->address().where, ContainsSubstring("127.0.0.1:"));
  auto with = of_run();
  std::string words;
  SECTION("no secret") {
    with.secret.clear();
    words = "was given no secret";
  }
  SECTION("both a secret and `without_secret`") {
    with.without_secret = true;
    words = "a secret and `without_secret`";
  }
  SECTION("every address") {
    with.listen_address = "0.0.0.0";
    words = "other processes cannot call that address";
  }
  SECTION("without a secret beyond this machine") {
    with = settings_without_secret();
    with.listen_address = "192.0.2.1";
    words = "give it the run's secret";
  }
  SECTION("an address of another machine") {
    with.listen_address = "192.0.2.1";
    words = "cannot listen on 192.0.2.1:0";
  }
  SECTION("a port in use") {
    const auto first = transport_of(1, of_run());
    const auto where = first->address().where;
    with.port = std::uint16_t(std::stoi(where.substr(where.rfind(':') + 1)));
    CHECK_THROWS_WITH(transport_of(2, with), ContainsSubstring("cannot listen on " + where));
    if (with.port < 65000) {
      with.last_port = std::uint16_t(with.port + 500);
      CHECK(transport_of(2, with)->address().where != where);
    }
    return;
  }
  CHECK_THROWS_WITH(transport_of(1, with), ContainsSubstring(words));
}
