// Several virtual processes: messages between them, and deaths.

#include "actors/simulation/virtual_process.hpp"

#include "actors/host/registries.hpp"
#include "actors/job/prepare.hpp"
#include "messages/core/error.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::actors::simulation;

namespace {

constexpr std::uint64_t latency = 1'000'000;

/// An actor that runs given functions, and logs its messages with times.
struct probe {
  std::vector<std::pair<std::uint64_t, std::string>> heard;
  std::vector<std::function<void(caf::event_based_actor*)>> acts;
  caf::actor self;

  bool has_heard(const std::string& x) const { return count(x) > 0; }
  std::ptrdiff_t count(const std::string& x) const {
    return std::count_if(
        heard.begin(), heard.end(), [&](const auto& one) { return one.second == x; });
  }
  std::uint64_t when(const std::string& x) const {
    for (const auto& [ns, what] : heard)
      if (what == x)
        return ns;
    return 0;
  }
  void act(std::function<void(caf::event_based_actor*)> what) {
    acts.push_back(std::move(what));
    caf::anon_send(self, int(acts.size()) - 1);
  }
};

caf::behavior behave(caf::event_based_actor* self, world* in, probe* as) {
  self->set_down_handler([=](const caf::down_msg& x) {
    as->heard.emplace_back(
        in->now_ns(), x.reason == caf::exit_reason::remote_link_unreachable ? "link down" : "down");
  });
  return {[=](int i) { as->acts[std::size_t(i)](self); },
          [=](const messages::drain& x) { as->heard.emplace_back(in->now_ns(), x.why); }};
}

struct two_hosts {
  explicit two_hosts(mix how = {.network_latency_ns = latency})
      : in(1, how, std::make_shared<turn_trace>()), network(in, {1, 2}, how) {
    runtime::training_job job;
    add_message_path(told, job);
    for (auto* process : {&a, &b})
      *process = &network.add_process(network.add_host(), told);
    for (auto [process, as] : {std::pair(a, &of_a), std::pair(b, &of_b)}) {
      as->self = in.system().spawn(behave, &in, as);
      network.belongs(as->self.id(), *process);
    }
    run();
  }
  void run() {
    while (in.turn()) {
    }
  }
  void send_to_b(const std::string& what) {
    of_a.act([this, what](caf::event_based_actor* self) {
      a->context()->messages->send(self, of_b.self, messages::drain{what});
    });
  }
  /// Gives both processes places in the job, with data connections.
  void take_places() {
    a->take_place({0, 1});
    b->take_place({1, 1});
    a->links()->use_only({{.who = {1, 1}}});
    b->links()->use_only({{.who = {0, 1}}});
    for (auto [process, heard] : {std::pair(a, &told_a), std::pair(b, &told_b)})
      process->context()->neighbours->when_broken(
          [to = heard](const broken_connection& x) { to->push_back(name_of_connection(x.to)); });
  }
  /// `heard_ns`: when `a` and `b` are told.
  bool break_off(std::array<std::uint64_t, 2> heard_ns) {
    return network.wiring().break_off(*a->links(), *b->links(), {.heard_ns = heard_ns}, "cut");
  }
  runtime::ticket deposit(virtual_process& at,
                          runtime::generation_id generation = runtime::generation_id(1)) const {
    runtime::tensor x(at.context()->pool.allocate(16), runtime::dtype::f32, {4});
    return at.context()->transport->deposit(std::move(x), generation);
  }

  node_context told;
  world in;
  virtual_network network;
  virtual_process *a = nullptr, *b = nullptr;
  probe of_a, of_b;
  std::vector<std::string> told_a, told_b;  ///< reported breaks
};

/// Redeems a ticket on a fiber of the world, and stores the outcome.
struct redeeming {
  std::string outcome = "waits";
  std::uint64_t ended = 0;

  redeeming(two_hosts& at, virtual_process& by, runtime::ticket what, runtime::cancel_token until) {
    at.in.fibers()->start("redeems", [&, this, what, until] {
      try {
        const auto x = by.context()->transport->redeem(what, {.until = until});
        outcome = fmt::format("{} bytes", x.bytes());
      } catch (const runtime::cancelled&) {
        outcome = "cancelled";
      } catch (const runtime::io_error& failure) {
        outcome = failure.what();
      } catch (const runtime::broken_promise& failure) {
        outcome = failure.what();
      }
      ended = at.in.now_ns();
    });
  }
};

}  // namespace

TEST_CASE("a message to another host takes the network's time and keeps its order",
          "[simulation]") {
  two_hosts at({.delayed = 0.5, .longest_delay_ns = 10 * latency, .network_latency_ns = latency});
  const auto begin = at.in.now_ns();
  for (int i = 0; i < 20; ++i)
    at.send_to_b(std::to_string(i));
  at.run();
  REQUIRE(at.of_b.heard.size() == 20);
  for (int i = 0; i < 20; ++i)
    CHECK(at.of_b.heard[std::size_t(i)].second == std::to_string(i));
  CHECK(at.of_b.heard.front().first >= begin + latency / 2);
}

TEST_CASE("messages to a dead process are lost, and its earlier messages arrive", "[simulation]") {
  two_hosts at;
  at.of_b.act([&](caf::event_based_actor* self) {
    at.b->context()->messages->send(self, at.of_a.self, messages::drain{"last words"});
  });
  at.in.turn();  // the message is sent
  at.network.kill(*at.b);
  CHECK(at.b->is_dead());
  at.send_to_b("too late");
  bool answered = false;
  at.of_a.act([&](caf::event_based_actor* self) {
    at.a->context()
        ->messages->request(self, at.of_b.self, caf::infinite, messages::drain{"a question"})
        .then([&] { answered = true; }, [&](const caf::error&) { answered = true; });
  });
  at.run();
  CHECK(at.of_a.has_heard("last words"));
  CHECK(at.of_b.heard.empty());
  CHECK_FALSE(answered);
}

TEST_CASE("the death of another process is reported late, as a broken link", "[simulation]") {
  two_hosts at;
  at.of_a.act([&](caf::event_based_actor* self) {
    at.a->context()->messages->monitor(self, at.of_b.self);
  });
  at.run();
  const auto death = at.in.now_ns();
  at.network.kill(*at.b);
  CHECK(at.of_a.heard.empty());
  at.run();
  REQUIRE(at.of_a.count("link down") == 1);
  CHECK(at.of_a.when("link down") >= death + latency);
  CHECK(!at.in.find(at.of_b.self.id()));
  CHECK(bool(at.in.find(at.of_a.self.id())));
}

TEST_CASE("an actor that ends by itself in another process reports its own reason",
          "[simulation]") {
  two_hosts at;
  at.of_a.act([&](caf::event_based_actor* self) {
    at.a->context()->messages->monitor(self, at.of_b.self);
  });
  at.of_b.act([](caf::event_based_actor* self) { self->quit(); });
  at.run();
  CHECK(at.of_a.count("down") == 1);
}

TEST_CASE("a one-way partition delays messages of that direction and loses none", "[simulation]") {
  two_hosts at;
  const auto healed = at.in.now_ns() + 100 * latency;
  at.network.part(*at.a, *at.b, healed);
  at.send_to_b("there");
  at.of_b.act([&](caf::event_based_actor* self) {
    at.b->context()->messages->send(self, at.of_a.self, messages::drain{"back"});
  });
  at.run();
  CHECK(at.of_b.when("there") >= healed);
  CHECK(at.of_a.when("back") < healed);
}

TEST_CASE("a ticket of another process is redeemed once, after the network's time",
          "[simulation]") {
  two_hosts at;
  const auto ticket = at.deposit(*at.b);
  const auto begin = at.in.now_ns();
  const redeeming first(at, *at.a, ticket, {});
  at.run();
  CHECK(first.outcome == "16 bytes");
  CHECK(first.ended >= begin + latency);
  CHECK(at.b->context()->transport->leased() == 0);
  const redeeming second(at, *at.a, ticket, {});
  at.run();
  CHECK(second.outcome.starts_with("HANDOFF-2"));
}

TEST_CASE("the death of the holder ends a redeem at once", "[simulation]") {
  two_hosts at;
  const redeeming under_test(at, *at.a, at.deposit(*at.b), {});
  at.in.turn();
  at.network.kill(*at.b);
  at.run();
  CHECK(under_test.outcome.find("has died") != std::string::npos);
}

TEST_CASE("the end of its own generation ends a redeem", "[simulation]") {
  two_hosts at;
  const runtime::cancel_token token;
  const auto ticket = at.deposit(*at.b);
  const redeeming by_token(at, *at.a, ticket, token);
  const redeeming by_transport(at, *at.a, at.deposit(*at.b), {});
  at.in.turn();
  at.in.turn();
  token.cancel();
  at.a->context()->transport->end_generation(runtime::generation_id(1));
  at.run();
  CHECK(by_token.outcome == "cancelled");
  CHECK(by_transport.outcome == "cancelled");
}

TEST_CASE("ranks of several processes meet, and each is released by its own process",
          "[simulation]") {
  two_hosts at;
  const auto groups_of = [](virtual_process& x) {
    return x.context()->env.make_groups(1, runtime::collectives::local, {});
  };
  const auto at_a = groups_of(*at.a), at_b = groups_of(*at.b);
  std::vector<std::string> seen;
  const auto meet = [&](group_registry& by, int rank, const std::string& name) {
    at.in.fibers()->start(name, [&, rank, name] {
      const auto group = by.join({.name = "data", .members = {0, 1}, .rank = rank});
      try {
        for (;;) {
          group->barrier();
          seen.push_back(name + " met");
          if (rank == 0)
            return;
        }
      } catch (const runtime::cancelled&) {
        seen.push_back(name + " released");
      }
    });
  };
  meet(*at_a, 0, "a");
  meet(*at_b, 1, "b");
  at.run();
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::string>{"a met", "b met"});
  at_a->token().cancel();
  at.run();
  CHECK(seen.size() == 2);  // the other still waits
  at_b->token().cancel();
  at.run();
  CHECK(seen.back() == "b released");
}

TEST_CASE("a redeem over a broken connection fails once its end is notified", "[simulation]") {
  two_hosts at;
  at.take_places();
  const auto ticket = at.deposit(*at.b);
  const auto begin = at.in.now_ns();
  const redeeming under_test(at, *at.a, ticket, {});
  at.in.turn();
  CHECK(at.break_off({100 * latency, 0}));
  at.run();
  CHECK(under_test.outcome.find("cut") != std::string::npos);
  CHECK(under_test.ended >= begin + 100 * latency);
  CHECK(at.told_a == std::vector<std::string>{"connection:1.1"});
  CHECK(at.told_b.empty());  // it lost nothing
  const redeeming again(at, *at.a, ticket, {});
  at.run();
  CHECK(again.outcome.find("cut") != std::string::npos);  // same generation
}

TEST_CASE("LINK-1: a broken connection is replaced in the next generation", "[simulation]") {
  two_hosts at;
  at.take_places();
  const redeeming lost(at, *at.a, at.deposit(*at.b), {});
  at.in.turn();
  at.break_off({0, 0});
  at.run();
  for (auto* const x : {at.a, at.b})
    x->context()->transport->end_generation(runtime::generation_id(1));
  const redeeming next(at, *at.a, at.deposit(*at.b, runtime::generation_id(2)), {});
  at.run();
  CHECK(next.outcome == "16 bytes");
}

TEST_CASE("a break without a waiting redeem is not reported, and the next redeem reconnects",
          "[simulation]") {
  two_hosts at;
  at.take_places();
  CHECK_FALSE(at.break_off({0, 0}));  // there is no connection yet
  const redeeming first(at, *at.a, at.deposit(*at.b), {});
  at.run();
  CHECK(at.break_off({0, 0}));
  at.run();
  const redeeming second(at, *at.a, at.deposit(*at.b), {});
  at.run();
  CHECK(second.outcome == "16 bytes");
  CHECK(at.told_a.empty());
}

namespace {

/// A rank in a barrier with the other process, on a fiber.
struct meeting_rank {
  runtime::cancel_token until;
  std::string outcome = "waits";
  std::unique_ptr<runtime::communicator> group;

  meeting_rank(virtual_process& at, int rank, std::uint64_t generation)
      : group(at.context()->neighbours->join(
          {.name = "data", .generation = runtime::generation_id(generation)},
          {0, 1},
          rank,
          until)) {}
  void meet(two_hosts& at) {
    outcome = "waits";
    at.in.fibers()->start("meets", [this] {
      try {
        group->barrier();
        outcome = "met";
      } catch (const runtime::cancelled&) {
        outcome = "cancelled";
      } catch (const runtime::peer_lost& failure) {
        outcome = failure.what();
      }
    });
  }
};

}  // namespace

TEST_CASE("a group with a broken connection cannot meet, and each end is notified separately",
          "[simulation]") {
  two_hosts at;
  at.take_places();
  meeting_rank of_a(*at.a, 0, 1), of_b(*at.b, 1, 1);
  of_a.meet(at);
  of_b.meet(at);
  at.run();
  CHECK(of_a.outcome == "met");
  CHECK(of_b.outcome == "met");
  of_a.meet(at);
  at.in.turn();
  CHECK(at.break_off({0, 50 * latency}));
  of_b.meet(at);
  const auto begin = at.in.now_ns();
  while (of_a.outcome == "waits" && at.in.turn()) {
  }
  CHECK(of_a.outcome.find("cut") != std::string::npos);
  CHECK(of_b.outcome == "waits");
  at.run();
  CHECK(of_b.outcome.find("cut") != std::string::npos);
  CHECK(at.in.now_ns() >= begin + 50 * latency);
  CHECK(at.told_a == std::vector<std::string>{"connection:1.1"});
  CHECK(at.told_b == std::vector<std::string>{"connection:0.1"});
}

TEST_CASE("LINK-1: an end that closed a broken connection gets no later report, the other does",
          "[simulation]") {
  two_hosts at;
  at.take_places();
  const bool both = GENERATE(false, true);
  {
    const meeting_rank of_a(*at.a, 0, 1), of_b(*at.b, 1, 1);
    at.break_off({0, 50 * latency});
    at.in.turn();  // `a` is told
  }
  REQUIRE(at.told_a.size() == 1);
  at.a->context()->neighbours->renew_connections(1);
  if (both)
    at.b->context()->neighbours->renew_connections(0);
  meeting_rank of_a(*at.a, 0, 2), of_b(*at.b, 1, 2);
  of_a.meet(at);
  of_b.meet(at);
  at.run();
  CHECK(of_a.outcome == (both ? "met" : "waits"));
  CHECK(at.told_b.size() == (both ? 0 : 1));
  of_a.until.cancel();
  at.run();
}

TEST_CASE("the connections of a dead process break for its peers", "[simulation]") {
  two_hosts at;
  at.take_places();
  meeting_rank of_a(*at.a, 0, 1);
  const meeting_rank of_b(*at.b, 1, 1);
  of_a.meet(at);
  at.in.turn();
  at.network.kill(*at.b);
  at.run();
  CHECK(of_a.outcome.find("process:1: its connection is gone") != std::string::npos);
  CHECK(at.told_a == std::vector<std::string>{"connection:1.1"});
}
