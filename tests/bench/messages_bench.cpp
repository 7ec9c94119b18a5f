// Latency of actor messages, within a process and between two over TLS: docs/benchmarks.
//
//   bench_messages [--smoke]

#include "actors/process/control_plane.hpp"
#include "messages/control/rendezvous.hpp"
#include "runtime/process/credentials.hpp"
#include "tests/support/child.hpp"
#include "tests/support/scratch_folder.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <vector>

using namespace troupe;

namespace {

constexpr auto patience = std::chrono::seconds(20);
constexpr const char* here = "127.0.0.1";

struct process {
  explicit process(const std::string& credentials)
      : config(actors::make_configuration(2, actors::control_settings{credentials, 10})),
        system(*config) {}
  std::unique_ptr<caf::actor_system_config> config;
  caf::actor_system system;
};

messages::rendezvous_actor::behavior_type answering() {
  return {[](const messages::join&) { return messages::admitted{}; },
          [](const messages::present&) {},
          [](const messages::withdraw& x) { return messages::withdrawn{x.who}; }};
}

int answer(const std::string& credentials) {
  process home(credentials);
  const auto whom = home.system.spawn([] { return answering(); });
  fmt::print("{}\n", actors::publish(whom, here));
  std::fflush(stdout);
  for (;;)
    ::pause();
}

/// Measures a request and its response: median and 99th percentile in microseconds.
void measure(const std::string& what,
             process& by,
             const messages::rendezvous_actor& whom,
             int times) {
  caf::scoped_actor self(by.system);
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    bool answered = false;
    self->request(whom, patience, messages::withdraw{})
        .receive([&](const messages::withdrawn&) { answered = true; }, [](const caf::error&) {});
    if (!answered)
      std::exit(1);
    all.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::sort(all.begin(), all.end());
  fmt::print("{}: {:.1f} us, p99 {:.1f}\n", what, all[all.size() / 2], all[all.size() * 99 / 100]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "--answer" && argc == 3)
    return answer(argv[2]);
  const int times = verb == "--smoke" ? 10 : 3000;
  const tests::scratch_folder folder;
  const auto credentials = (folder / "credentials").string();
  runtime::make_credentials(credentials, "bench");
  process home(credentials);
  const auto near = home.system.spawn([] { return answering(); });
  measure("a message of actors and its answer, in one process", home, near, times);
  caf::scoped_actor(home.system)->send_exit(near, caf::exit_reason::kill);
  tests::child other({argv[0], "--answer", credentials});
  const auto far
      = actors::rendezvous_at(home.system, here, std::uint16_t(std::stoi(other.line())), patience);
  measure("the same between two processes, over TLS", home, far, times);
}
