// Attachments to a fake hub.

#include "actors/monitor/attach.hpp"

#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/http/server.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace http = runtime::http;

constexpr const char* last = R"({"kind":"end","exit_code":3,"reason":"by a test"})";
constexpr const char* token = "secret";

std::string step(int iteration) {
  return fmt::format(R"({{"kind":"step","iteration":{},"lm_loss":2.5,"grad_norm":1}})", iteration);
}

/// Lines that the fake hub still has to send. Its stream stays open after the last.
struct played_lines {
  std::mutex mutex;
  std::deque<std::string> left;
};

class line_source final : public http::body_source {
 public:
  explicit line_source(std::shared_ptr<played_lines> of) : of_(std::move(of)) {}
  std::optional<std::string> next() override {
    const std::lock_guard lock(of_->mutex);
    if (of_->left.empty())
      return "";
    auto out = of_->left.front() + "\n";
    of_->left.pop_front();
    return out;
  }

 private:
  std::shared_ptr<played_lines> of_;
};

http::handler says(std::string text) {
  return [text = std::move(text)](const std::shared_ptr<http::exchange>& x) {
    x->answer({.body = text});
  };
}

void take_command(const std::shared_ptr<http::exchange>& x) {
  if (http::bearer_token(x->asked()) != token)
    return x->answer(http::error_response(401, "commands need the control token"));
  if (x->asked().body != R"({"command":"pause"})")
    return x->answer(http::error_response(409, "'stop' is refused: it ends already"));
  x->answer({.body = R"({"message":"paused after step 7"})"});
}

/// A fake hub at the socket 'hub' of a folder. Its state has step 1.
struct played_hub {
  explicit played_hub(const std::vector<std::string>& first) {
    lines->left.assign(first.begin(), first.end());
    http::settings how;
    how.pulse = 5ms;
    server.emplace(std::vector<http::endpoint>{{.folder = folder.path(), .name = "hub"}},
                   std::vector<http::server::route>{
                       {http::method::get, "/api/run", says(R"({"id":"a","epoch":1,"steps":9})")},
                       {http::method::get,
                        "/api/state",
                        says(R"({"id":"a","epoch":1,"next":"1:5","records":[)" + step(1) + "]}")},
                       {http::method::get,
                        "/api/lines",
                        [of = lines](const std::shared_ptr<http::exchange>& x) {
                          x->stream({.type = "application/x-ndjson"},
                                    std::make_unique<line_source>(of));
                        }},
                       {http::method::post, "/api/command", take_command}},
                   how);
  }

  runtime::followed_run run() const {
    return {.at = {.url = {}, .folder = folder.path(), .socket = "hub"}};
  }
  void add(std::string line) const {
    const std::lock_guard lock(lines->mutex);
    lines->left.push_back(std::move(line));
  }

  scratch_folder folder;
  std::shared_ptr<played_lines> lines = std::make_shared<played_lines>();
  std::optional<http::server> server;
};

/// Records of an observer.
struct notes {
  std::mutex mutex;
  std::vector<std::string> all;
  std::atomic<bool> waits = false;  ///< the observer blocks in its handler
  std::atomic<bool> dies = false;   ///< the next message kills the observer
  std::atomic<bool> ended = false;

  void add(std::string x) {
    {
      const std::lock_guard lock(mutex);
      all.push_back(std::move(x));
    }
    if (dies)
      throw std::runtime_error("an observer fails");
    soon([this] { return !waits; });
  }
  std::vector<std::string> read() {
    const std::lock_guard lock(mutex);
    return all;
  }
};

messages::observer_actor::behavior_type noting(messages::observer_actor::pointer self,
                                               const std::shared_ptr<notes>& to) {
  self->set_exception_handler(
      [](std::exception_ptr&) -> caf::error { return caf::make_error(caf::sec::runtime_error); });
  return {[=](const messages::committed& x) {
            to->add(fmt::format("step {} {}", x.report.iteration, x.report.loss));
          },
          [=](const messages::validated& x) {
            to->add(fmt::format("validation {} {}", x.report.iteration, x.report.loss));
          },
          [=](const messages::happened& x) { to->add(x.event.kind + " " + x.event.who); },
          [=](const messages::told_record& x) { to->add(x.kind + " " + x.text); },
          [=](const messages::connection_changed& x) { to->add("connection " + x.state); },
          [=](const messages::run_ended& x) {
            to->ended = true;
            to->add(fmt::format("end {} {}", int(x.how), x.exit_code));
          }};
}

struct watching_system {
  struct configuration : caf::actor_system_config {
    configuration() { messages::add_message_types(*this); }
  } config;
  caf::actor_system system{config};
  std::shared_ptr<notes> told = std::make_shared<notes>();

  messages::observer_actor observer() { return system.spawn<caf::detached>(noting, told); }
};

}  // namespace

TEST_CASE_METHOD(watching_system, "an observer gets typed records in order, then the end") {
  const played_hub hub({R"({"kind":"validation","iteration":1,"validation_loss":2.25})",
                        R"({"kind":"event","iteration":1,"event":"restart","who":"stage:0.1"})",
                        step(1),  // in the state already: sent once
                        step(2),
                        R"({"kind":"save","iteration":2})",
                        R"({"kind":"step","iteration":"of another version"})",
                        last});
  const auto attached = actors::attach(system, hub.run(), observer());
  REQUIRE(soon([&] { return bool(told->ended); }));
  CHECK(told->read()
        == std::vector<std::string>{R"(run {"id":"a","epoch":1,"steps":9})",
                                    "step 1 2.5",
                                    "connection ",
                                    "validation 1 2.25",
                                    "restart stage:0.1",
                                    "step 2 2.5",
                                    R"(save {"kind":"save","iteration":2})",
                                    R"(step {"kind":"step","iteration":"of another version"})",
                                    std::string("end ") + last,
                                    "end 0 3"});
  CHECK(attached.dropped() == 0);
}

TEST_CASE_METHOD(watching_system,
                 "ATTACH-2: a slow observer loses the oldest records, and gets their number and "
                 "the newest records") {
  const played_hub hub({});
  told->waits = true;
  const auto attached
      = actors::attach(system, hub.run(), observer(), {.control_token = {}, .most_waiting = 5});
  REQUIRE(soon([&] { return told->read().size() == 1; }));
  constexpr int most = 40;
  for (int i = 2; i <= most; ++i)
    hub.add(step(i));
  hub.add(last);
  // The observer handles "run". Step 1, the connection, the other steps and two ends follow. None
  // of them is in its mailbox (ATTACH-1), and five wait.
  REQUIRE(soon([&] { return attached.dropped() == 2 + (most - 1) + 2 - 5; }));
  told->waits = false;
  REQUIRE(soon([&] { return bool(told->ended); }));
  CHECK(told->read()
        == std::vector<std::string>{R"(run {"id":"a","epoch":1,"steps":9})",
                                    R"(dropped {"kind":"dropped","count":38})",
                                    "step 38 2.5",
                                    "step 39 2.5",
                                    "step 40 2.5",
                                    std::string("end ") + last,
                                    "end 0 3"});
}

TEST_CASE_METHOD(watching_system,
                 "ATTACH-3: an attachment ends within seconds, and when its observer dies") {
  const played_hub hub({});
  std::optional attached(actors::attach(system, hub.run(), observer()));
  REQUIRE(soon([&] { return told->read().size() == 3; }));
  SECTION("destroyed") {
    const auto since = std::chrono::steady_clock::now();
    attached.reset();
    CHECK(std::chrono::steady_clock::now() - since < 10s);  // one second on an idle machine
  }
  SECTION("the observer dies") {
    told->dies = true;
    hub.add(step(2));
    CHECK(soon([&] { return hub.server->connections() == 0; }));
    CHECK(told->read().size() == 4);
  }
}

TEST_CASE_METHOD(watching_system, "an unreachable run is reported as lost") {
  const scratch_folder empty;
  runtime::follower_limits limits;
  limits.first_attempts = 1;
  const auto attached = actors::attach(system,
                                       {.at = {.url = {}, .folder = empty.path(), .socket = "hub"}},
                                       observer(),
                                       {.control_token = {}, .limits = limits});
  REQUIRE(soon([&] { return bool(told->ended); }));
  CHECK(told->read().back() == "end 3 0");
}

TEST_CASE_METHOD(watching_system,
                 "a command returns the run's answer, or throws the reason of a refusal") {
  namespace commands = runtime::commands;
  const played_hub hub({});
  const auto attached = actors::attach(system, hub.run(), observer(), {.control_token = token});
  CHECK(attached.command(commands::pause{}) == "paused after step 7");
  CHECK_THROWS_MATCHES(attached.command(commands::stop{}),
                       runtime::input_error,
                       MessageMatches(ContainsSubstring("'stop' is refused")));
  CHECK_THROWS_MATCHES(actors::command_to(hub.run(), commands::pause{}),
                       runtime::input_error,
                       MessageMatches(ContainsSubstring("control.token")));
  CHECK_THROWS_MATCHES(actors::command_to(hub.run(), commands::pause{}, "another"),
                       runtime::input_error,
                       MessageMatches(ContainsSubstring("need the control token")));
}

}  // namespace troupe::tests
