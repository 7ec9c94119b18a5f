#include "runtime/watch/follower.hpp"

#include "runtime/core/error.hpp"
#include "runtime/http/server.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <deque>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::tests {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

/// The answer of /api/state. `next`: "EPOCH:NUMBER".
std::string state_of(const std::string& id,
                     const std::string& next,
                     const std::string& records = {}) {
  return fmt::format(R"({{"id":"{}","epoch":{},"next":"{}","records":[{}]}})",
                     id,
                     next.substr(0, next.find(':')),
                     next,
                     records);
}

/// The answers of a hub, and the requests that it got.
struct hub_script {
  std::mutex mutex;
  std::string run = R"({"id":"a","epoch":1,"steps":9})", state = state_of("a", "1:5");
  int status = 200;
  std::deque<std::string> lines;
  std::string cut;                 ///< sent after the lines, without a line end; then closes
  bool closes = false;             ///< after the lines; else the stream stays open
  std::vector<std::string> after;  ///< positions in the requests for lines
  /// Called with the path before each answer, under the lock.
  std::function<void(std::string_view path)> on_request = [](std::string_view) {};
};

class scripted_lines final : public http::body_source {
 public:
  explicit scripted_lines(std::shared_ptr<hub_script> of) : of_(std::move(of)) {}
  std::optional<std::string> next() override {
    const std::lock_guard lock(of_->mutex);
    if (of_->lines.empty() && !of_->cut.empty()) {
      of_->closes = true;
      return std::exchange(of_->cut, {});
    }
    if (of_->lines.empty())
      return of_->closes ? std::optional<std::string>() : "";
    auto out = of_->lines.front() + "\n";
    of_->lines.pop_front();
    return out;
  }

 private:
  std::shared_ptr<hub_script> of_;
};

/// A hub at the socket 'hub' in a folder.
class scripted_hub {
 public:
  explicit scripted_hub(std::filesystem::path folder) : folder_(std::move(folder)) { open(); }

  void open() {
    http::settings how;
    how.pulse = 5ms;
    const auto text = [script = script](auto member) {
      return [script, member](const std::shared_ptr<http::exchange>& x) {
        const std::lock_guard lock(script->mutex);
        script->on_request(x->asked().path);
        http::response out{.body = (*script).*member};
        out.status = script->status;
        x->answer(std::move(out));
      };
    };
    server_.emplace(std::vector<http::endpoint>{{.folder = folder_, .name = "hub"}},
                    std::vector<http::server::route>{
                        {http::method::get, "/api/run", text(&hub_script::run)},
                        {http::method::get, "/api/state", text(&hub_script::state)},
                        {http::method::get,
                         "/api/lines",
                         [script = script](const std::shared_ptr<http::exchange>& x) {
                           const std::lock_guard lock(script->mutex);
                           script->on_request(x->asked().path);
                           script->after.push_back(x->asked().query.at("after"));
                           x->stream({.type = "application/x-ndjson"},
                                     std::make_unique<scripted_lines>(script));
                         }}},
                    how);
  }
  /// Closes all connections.
  void shut() { server_.reset(); }

  std::shared_ptr<hub_script> script = std::make_shared<hub_script>();

 private:
  std::filesystem::path folder_;
  std::optional<http::server> server_;
};

/// Records the calls of a follower; may act on a record.
struct noted final : run_listener {
  std::vector<std::string> all;
  std::function<void(std::string_view)> on_record;

  void begin(std::string_view run) override { all.push_back("begin " + std::string(run)); }
  void take(std::string_view record) override {
    all.emplace_back(record);
    if (on_record)
      on_record(record);
  }
  void connection(const std::string& state) override {
    if (!state.empty())
      lost.push_back(state);
  }
  std::vector<std::string> lost;
};

/// Shortens all pauses. Stops after a minute, which only a faulty follower reaches.
follower::pause go_on() {
  return [until = std::chrono::steady_clock::now() + 60s](std::chrono::milliseconds time) {
    if (time > 0ms)
      std::this_thread::sleep_for(1ms);
    return std::chrono::steady_clock::now() < until;
  };
}

struct watched_run {
  scratch_folder above;
  std::optional<held_run_folder> folder{
      std::in_place, above / "run", "troupe 1", std::vector<std::string>{}};
  scripted_hub hub{folder->sockets()};
  noted heard;

  followed_run place() const {
    return {.at = {.url = {}, .folder = folder->sockets(), .socket = "hub"},
            .folder = run_folder::open(folder->path())};
  }
};

constexpr const char* last = R"({"kind":"end","exit_code":3,"reason":"by a test"})";

}  // namespace

TEST_CASE("a follower delivers the run, its state and its lines to the end") {
  watched_run x;
  x.hub.script->state = state_of("a", "1:5", R"({"kind":"step","iteration":4})");
  x.hub.script->lines = {R"({"kind":"step","iteration":5})", "", last};
  follower by(x.place(), x.heard, go_on());
  const auto end = by.follow();
  CHECK(end.how == follow_outcome::ended);
  CHECK(end.end.exit_code == 3);
  CHECK(end.end.reason == "by a test");
  CHECK(x.heard.all
        == std::vector<std::string>{"begin " + x.hub.script->run,
                                    R"({"iteration":4,"kind":"step"})",
                                    R"({"kind":"step","iteration":5})",
                                    last});
  CHECK(x.hub.script->after == std::vector<std::string>{"1:5"});
}

TEST_CASE("a follower continues after the newest record when it reconnects to the same process") {
  watched_run x;
  const std::string gap = R"({"kind":"dropped","count":4})",
                    step = R"({"kind":"step","iteration":1})";
  x.hub.script->lines = {gap, step};
  x.heard.on_record = [&](std::string_view record) {
    if (record.find("step") == std::string_view::npos)
      return;
    x.hub.shut();
    x.hub.script->lines = {last};
    x.hub.open();
  };
  CHECK(follower(x.place(), x.heard, go_on()).follow().how == follow_outcome::ended);
  CHECK(x.hub.script->after == std::vector<std::string>{"1:5", "1:10"});
  CHECK(x.heard.all == std::vector<std::string>{"begin " + x.hub.script->run, gap, step, last});
  CHECK_FALSE(x.heard.lost.empty());
}

TEST_CASE("a new process of the run, and a new run, begin with their state") {
  watched_run x;
  const auto other = GENERATE(true, false);
  const std::string next = other ? R"({"id":"b","epoch":1})" : R"({"id":"a","epoch":2})";
  const std::string position = other ? "1:0" : "2:0";
  const auto state = state_of(other ? "b" : "a", position);
  x.hub.script->lines = {R"({"kind":"step","iteration":1})"};
  bool moved = false;
  x.heard.on_record = [&](std::string_view) {
    if (std::exchange(moved, true))
      return;
    x.hub.shut();
    x.hub.script->run = next;
    x.hub.script->state = state;
    x.hub.script->lines = {last};
    x.hub.open();
  };
  CHECK(follower(x.place(), x.heard, go_on()).follow().how == follow_outcome::ended);
  CHECK(x.hub.script->after == std::vector<std::string>{"1:5", position});
  REQUIRE(x.heard.all.size() == 4);
  CHECK(x.heard.all[2] == "begin " + next);
}

TEST_CASE("FOLLOW-1: a state is not used if another process answered /api/run") {
  watched_run x;
  auto& script = *x.hub.script;
  const std::string second = R"({"id":"a","epoch":2})";
  script.state = state_of("a", "2:7", R"({"kind":"step","iteration":6})");
  script.lines = {last};
  script.on_request = [&, asked = 0](std::string_view path) mutable {
    if (path == "/api/run" && ++asked == 2)
      script.run = second;
  };
  CHECK(follower(x.place(), x.heard, go_on()).follow().how == follow_outcome::ended);
  CHECK(x.heard.all
        == std::vector<std::string>{"begin " + second, R"({"iteration":6,"kind":"step"})", last});
  CHECK(script.after == std::vector<std::string>{"2:7"});
}

TEST_CASE("FOLLOW-1: lines of a new process are not used before its state") {
  watched_run x;
  auto& script = *x.hub.script;
  const auto first = script.run;
  const std::string second = R"({"id":"a","epoch":2})";
  script.lines = {R"({"kind":"step","iteration":6})"};
  script.closes = true;  // so that the first stream does not take the lines of the second
  script.on_request = [&](std::string_view path) {
    if (path != "/api/lines")
      return;
    if (script.run == second)
      script.lines = {last};
    script.run = second;
    script.state = state_of("a", "2:7");
  };
  CHECK(follower(x.place(), x.heard, go_on()).follow().how == follow_outcome::ended);
  CHECK(x.heard.all == std::vector<std::string>{"begin " + first, "begin " + second, last});
  CHECK(script.after == std::vector<std::string>{"1:5", "2:7"});
}

TEST_CASE("FOLLOW-2: a stream that is cut within a part continues at the cut") {
  watched_run x;
  auto& script = *x.hub.script;
  const std::string step = R"({"kind":"step","iteration":1})",
                    gap = R"({"kind":"dropped","count":4})";
  std::string cut, rest;
  std::string position;
  SECTION("in a record") {
    cut = gap + "\n" + step + "\n" + step.substr(0, 9);
    rest = step;
    position = "1:10";
  }
  SECTION("in the gap before a record") {
    cut = step + "\n" + gap.substr(0, 20);
    rest = gap;
    position = "1:6";
  }
  SECTION("between a gap and its record") {
    cut = step + "\n" + gap + "\n";
    rest = step;
    position = "1:10";
  }
  SECTION("before a line end") {
    cut = step + "\n" + step;
    rest = step;
    position = "1:6";
  }
  script.cut = cut;
  script.on_request = [&](std::string_view path) {
    if (path != "/api/lines" || script.after.empty())
      return;
    script.closes = false;
    script.lines = {rest, last};
  };
  CHECK(follower(x.place(), x.heard, go_on()).follow().how == follow_outcome::ended);
  CHECK(script.after == std::vector<std::string>{"1:5", position});
  REQUIRE(x.heard.all.size() >= 2);
  CHECK(x.heard.all[x.heard.all.size() - 2] == rest);
  CHECK(x.heard.all.back() == last);
}

TEST_CASE("a follower reconnects at growing intervals to a hub that closes each stream") {
  watched_run x;
  x.hub.script->closes = true;
  std::vector<std::chrono::milliseconds> waits;
  const auto count = [&](std::chrono::milliseconds time) {
    if (time > 0ms)
      waits.push_back(time);
    return waits.size() < 7;
  };
  CHECK(follower(x.place(), x.heard, count).follow().how == follow_outcome::stopped);
  CHECK(waits
        == std::vector<std::chrono::milliseconds>{
            100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms, 2000ms});
}

TEST_CASE("an end without an exit code says that the run died") {
  watched_run x;
  x.hub.script->lines = {R"({"kind":"end","exit_code":null,"reason":"no process is left"})"};
  const auto end = follower(x.place(), x.heard, go_on()).follow();
  CHECK(end.how == follow_outcome::died);
  CHECK(text_of(end) == "the run died: no process is left");
}

TEST_CASE("a follower reads the end from the folder if the hub is gone") {
  watched_run x;
  const bool recorded = GENERATE(true, false);
  x.hub.script->lines = {R"({"kind":"step","iteration":1})"};
  const auto place = x.place();
  x.heard.on_record = [&](std::string_view) {
    x.hub.shut();
    if (recorded)
      x.folder->end(4, "a reason");
    x.folder.reset();
  };
  const auto end = follower(place, x.heard, go_on()).follow();
  CHECK(end.how == (recorded ? follow_outcome::ended : follow_outcome::died));
  CHECK(end.end.exit_code == (recorded ? 4 : 0));
}

TEST_CASE("a follower ends when the folder is removed") {
  watched_run x;
  x.hub.script->lines = {R"({"kind":"step","iteration":1})"};
  const auto place = x.place();
  x.heard.on_record = [&](std::string_view) {
    x.hub.shut();
    std::filesystem::remove_all(x.folder->path());
  };
  CHECK(follower(place, x.heard, go_on()).follow().how == follow_outcome::gone);
}

TEST_CASE("a follower needs no lines if the state has the end") {
  watched_run x;
  x.hub.script->state = state_of("a", "1:5", last);
  CHECK(follower(x.place(), x.heard, go_on()).follow().end.exit_code == 3);
  CHECK(x.hub.script->after.empty());
}

TEST_CASE("a viewer can stop a follower") {
  watched_run x;
  bool stops = false;
  const auto until
      = [&, more = go_on()](std::chrono::milliseconds time) { return !stops && more(time); };
  SECTION("while lines arrive") {
    x.hub.script->lines = {R"({"kind":"step","iteration":1})"};
    x.heard.on_record = [&](std::string_view) { stops = true; };
  }
  SECTION("between two attempts") {
    x.hub.shut();
    stops = true;
  }
  CHECK(follower(x.place(), x.heard, until).follow().how == follow_outcome::stopped);
  CHECK(stops);
}

TEST_CASE("a follower explains why an answer is not from a hub of this version") {
  watched_run x;
  follower by(x.place(), x.heard, go_on());
  const auto refused = [&](const std::string& why) {
    CHECK_THROWS_MATCHES(by.follow(), input_error, MessageMatches(ContainsSubstring(why)));
    CHECK(x.heard.all.empty());
  };
  SECTION("a page") {
    x.hub.script->run = "<html>\x1b[31m</html>";
    refused("it is another service");
  }
  SECTION("another version") {
    x.hub.script->run = R"({"program":"troupe 9.1","run":"a"})";
    refused("troupe 9.1");
  }
  SECTION("another state") {
    x.hub.script->state = R"({"steps":[]})";
    refused("another version");
  }
  SECTION("a state without its run") {
    x.hub.script->state = R"({"next":"1:5","records":[]})";
    refused("lacks 'id'");
  }
  SECTION("another path") {
    x.hub.script->status = 404;
    refused("status 404");
  }
  SECTION("a missing token") {
    x.hub.script->status = 401;
    x.hub.script->run = R"({"error":{"message":"viewers need the run's token"}})";
    refused("(401): viewers need the run's token; give a copy of 'read.token'");
  }
}

TEST_CASE("a follower gives up a silent hub after a bounded number of attempts") {
  watched_run x;
  x.hub.shut();
  int waits = 0;
  const auto count = [&](std::chrono::milliseconds time) {
    waits += time > 0ms ? 1 : 0;
    return true;
  };
  follower_limits limits;
  limits.first_attempts = 4;
  SECTION("by its folder") {
    follower by(x.place(), x.heard, count, limits);
    CHECK_THROWS_MATCHES(by.follow(), io_error, MessageMatches(ContainsSubstring("troupe status")));
  }
  SECTION("by its address") {
    auto place = x.place();
    place.folder.reset();
    follower by(place, x.heard, count, limits);
    CHECK_THROWS_MATCHES(
        by.follow(), io_error, MessageMatches(ContainsSubstring("compare host and port")));
  }
  CHECK(waits == 3);
  CHECK(x.heard.lost.size() == 3);
}

TEST_CASE("a follower gives up a hub that takes its first request and does not answer") {
  watched_run x;
  x.hub.shut();
  std::vector<std::shared_ptr<http::exchange>> kept;
  const auto keep
      = [&kept](std::shared_ptr<http::exchange> asked) { kept.push_back(std::move(asked)); };
  std::optional<http::server> silent;
  silent.emplace(std::vector<http::endpoint>{{.folder = x.folder->sockets(), .name = "hub"}},
                 std::vector<http::server::route>{{http::method::get, "/api/run", keep}});
  follower_limits limits;
  limits.lost = 1s;
  follower by(x.place(), x.heard, go_on(), limits);
  CHECK_THROWS_MATCHES(
      by.follow(), io_error, MessageMatches(ContainsSubstring("0 bytes received within 1 s")));
  silent.reset();
  CHECK(kept.size() == 1);
}

TEST_CASE("a follower without a folder gives up a lost run after a bounded number of attempts") {
  watched_run x;
  x.hub.script->lines = {R"({"kind":"step","iteration":1})"};
  x.heard.on_record = [&](std::string_view) { x.hub.shut(); };
  auto place = x.place();
  place.folder.reset();
  follower_limits limits;
  limits.attempts = 3;
  follower by(place, x.heard, go_on(), limits);
  CHECK_THROWS_MATCHES(by.follow(), io_error, MessageMatches(ContainsSubstring("lost the run at")));
  CHECK(by.position() == viewer_position{1, 6});
}

TEST_CASE("a shared view forgets the members of an earlier process") {
  shared_view x;
  x.begin(R"({"id":"a","epoch":1})");
  x.take(R"({"kind":"member","who":"node-1","state":"running"})");
  const auto before = x.changes();
  x.begin(R"({"id":"a","epoch":2})");
  CHECK(x.changes() > before);
  x.connection("lost");
  x.look([](const run_view& view, const std::string& connection) {
    CHECK(view.id == "a");
    CHECK(view.members.empty());
    CHECK(connection == "lost");
  });
}

}  // namespace troupe::tests
