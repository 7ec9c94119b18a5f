#include "runtime/watch/monitor_proxy.hpp"

#include "runtime/core/error.hpp"
#include "runtime/watch/part_queue.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::tests {
namespace {

using namespace std::chrono_literals;
namespace http = runtime::http;
using runtime::monitor_proxy;
using runtime::part_queue;

/// Sends one event, and never ends.
class one_event final : public http::body_source {
 public:
  explicit one_event(std::string text) : text_(std::move(text)) {}
  std::optional<std::string> next() override { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

/// Returns false after a minute; only a hang takes that long.
std::function<bool()> patience() {
  return [until = std::chrono::steady_clock::now() + 60s] {
    return std::chrono::steady_clock::now() < until;
  };
}

/// A fake hub that answers with the request. It claims to send a page, and never answers a command
/// 'wait'.
class played_hub {
 public:
  explicit played_hub(std::string name) {
    std::vector<http::server::route> routes;
    const auto repeat = [name, kept_ = kept_](const std::shared_ptr<http::exchange>& x) {
      std::string told = name + " " + x->asked().path;
      for (const auto& [key, value] : x->asked().query)
        told += " " + key + "=" + value;
      told += " " + std::string(bearer_token(x->asked())) + " " + x->asked().body;
      if (bearer_token(x->asked()) == "wrong")
        return x->answer(http::error_response(403, "not you"));
      if (x->asked().body.find("wait") != std::string::npos) {
        const std::lock_guard lock(kept_->mutex);
        return kept_->all.push_back(x);
      }
      x->answer({.type = "text/html",
                 .body = told,
                 .headers = {{"Content-Security-Policy", "default-src *"}}});
    };
    for (const auto* path : {"/api/run", "/api/records", "/metrics"})
      routes.push_back({http::method::get, path, repeat});
    routes.push_back({http::method::post, "/api/command", repeat});
    routes.push_back(
        {http::method::get, "/api/events", [](const std::shared_ptr<http::exchange>& x) {
           const auto at = x->asked().query.find("after");
           if (bearer_token(x->asked()) == "wrong")
             return x->answer(http::error_response(403, "not you"));
           if (at != x->asked().query.end() && at->second == "never")
             return x->answer(http::error_response(400, "'after=never': give a position"));
           x->stream({.type = "text/event-stream", .body = {}},
                     std::make_unique<one_event>(
                         http::event_text(at == x->asked().query.end() ? "none" : at->second)));
         }});
    server_.emplace(std::vector<http::endpoint>{{}}, std::move(routes));
  }
  http::service_address at(const std::string& token = "read") const {
    return {.url = fmt::format("http://127.0.0.1:{}", server_->ports().front()), .token = token};
  }

  bool has_kept() const {
    const std::lock_guard lock(kept_->mutex);
    return !kept_->all.empty();
  }

 private:
  struct kept_commands {
    std::mutex mutex;
    std::vector<std::shared_ptr<http::exchange>> all;
  };
  std::shared_ptr<kept_commands> kept_ = std::make_shared<kept_commands>();
  std::optional<http::server> server_;
};

/// Values of a header in a response.
std::vector<std::string> values_of(const http::response& x, const std::string& name) {
  std::vector<std::string> out;
  for (const auto& [its, value] : x.headers)
    if (its == name)
      out.push_back(value);
  return out;
}

http::client client_of(const monitor_proxy& x, const std::string& token) {
  return http::client({.url = fmt::format("http://127.0.0.1:{}", x.port()), .token = token},
                      {.silence = 20s});
}

}  // namespace

TEST_CASE("PROXY-1: the proxy refuses a request without its token") {
  const played_hub hub("a");
  const monitor_proxy x({}, [&] { return hub.at(); });
  CHECK(x.token().size() == 32);
  CHECK(client_of(x, "").get("/").status == 200);
  for (const auto* path : {"/api/run", "/api/records", "/api/events", "/metrics"}) {
    CHECK(client_of(x, "").get(path).status == 401);
    CHECK(client_of(x, "read").get(path).status == 401);
  }
  const auto got = client_of(x, x.token()).get("/api/records?after=1:2&kinds=step,event&token=x");
  CHECK(got.status == 200);
  CHECK(got.body == "a /api/records after=1:2 kinds=step,event read ");
}

TEST_CASE("PROXY-1: a command is forwarded with the token of its request") {
  const played_hub hub("a");
  const monitor_proxy x({}, [&] { return hub.at(); });
  CHECK(client_of(x, "control").post("/api/command", "{}").status == 401);
  // The proxy accepts its own token and forwards it; the hub checks it.
  const auto got = client_of(x, x.token()).post("/api/command", "{\"command\":\"pause\"}");
  CHECK(got.body == "a /api/command " + x.token() + " {\"command\":\"pause\"}");
  CHECK(client_of(x, x.token()).post("/api/command", "{}", "text/plain").status == 415);
}

TEST_CASE("a hub's refusal of the proxy's token is not a refusal of the browser's") {
  const played_hub hub("a");
  const monitor_proxy x({}, [&] { return hub.at("wrong"); });
  for (const auto* path : {"/api/run", "/api/events"}) {
    const auto got = client_of(x, x.token()).get(path);
    CHECK(got.status == 502);
    CHECK(got.body.find("read.token") != std::string::npos);
  }
}

TEST_CASE("PROXY-4: the proxy sets the type of a response, and forbids it to load anything") {
  const played_hub hub("a");
  const monitor_proxy x({}, [&] { return hub.at(); });
  auto viewer = client_of(x, x.token());
  const auto check = [&](const http::response& got, const char* type) {
    CHECK(got.type == type);
    CHECK(values_of(got, "content-security-policy")
          == std::vector<std::string>{"default-src 'none'"});
    CHECK(values_of(got, "x-content-type-options") == std::vector<std::string>{"nosniff"});
  };
  for (const auto* path : {"/api/run", "/api/records"})
    check(viewer.get(path), "application/json");
  check(viewer.get("/metrics"), "text/plain; version=0.0.4");
  check(viewer.post("/api/command", "{}"), "application/json");
  check(viewer.follow(
            "/api/events", [](std::string_view) { return false; }, patience()),
        "text/event-stream");
}

TEST_CASE("a refusal of a stream reaches the browser with its status and reason") {
  const played_hub hub("a");
  const monitor_proxy x({}, [&] { return hub.at(); });
  const auto got = client_of(x, x.token()).get("/api/events?after=never");
  CHECK(got.status == 400);
  CHECK(got.type == "application/json");
  CHECK(got.body.find("'after=never': give a position") != std::string::npos);
}

TEST_CASE("the proxy ends while a command waits for the run") {
  const played_hub hub("a");
  std::optional<monitor_proxy> x;
  x.emplace(http::endpoint{}, [&] { return hub.at(); });
  auto viewer = client_of(*x, x->token());
  std::atomic<bool> has_ended = false;
  std::thread browser([&] {  // a test's own thread
    try {
      viewer.post("/api/command", R"({"command":"wait"})", "application/json", patience());
    } catch (const runtime::error&) {
    }
    has_ended = true;
  });
  const auto more = patience();
  while (!hub.has_kept() && more())
    std::this_thread::sleep_for(1ms);
  CHECK(hub.has_kept());
  x.reset();  // waiting for the hub's answer here would exceed the limit of a test case
  browser.join();
  CHECK(has_ended);
}

TEST_CASE("PROXY-3: the proxy finds the next run after the first is gone") {
  std::optional<played_hub> hub;
  hub.emplace("a");
  std::mutex mutex;
  const monitor_proxy x({}, [&] {
    const std::lock_guard lock(mutex);
    if (!hub)
      throw runtime::input_error("the folder has no run");
    return hub->at();
  });
  auto viewer = client_of(x, x.token());
  const auto use = [&](const char* name) {
    const std::lock_guard lock(mutex);
    hub.reset();
    if (name != nullptr)
      hub.emplace(name);
  };
  CHECK(viewer.get("/api/run").body.starts_with("a "));
  use(nullptr);
  const auto gone = viewer.get("/api/run");
  CHECK(gone.status == 503);
  CHECK(gone.body.find("cannot reach the run: the folder has no run") != std::string::npos);
  use("b");
  CHECK(viewer.get("/api/run").body.starts_with("b "));
}

TEST_CASE("events are forwarded at once, and the stream ends when the hub's stream ends") {
  std::optional<played_hub> hub;
  hub.emplace("a");
  const auto at = hub->at();
  std::optional<monitor_proxy> x;
  x.emplace(http::endpoint{}, [&] { return at; });
  std::string got;
  const auto answer = client_of(*x, x->token())
                          .follow(
                              "/api/events?after=1:7",
                              [&](std::string_view part) {
                                got += part;
                                if (got.find("data: 1:7\n\n") != std::string::npos)
                                  hub.reset();
                                return true;
                              },
                              patience());
  CHECK(answer.type == "text/event-stream");
  CHECK(got.starts_with("retry: "));
  CHECK(got.ends_with("data: 1:7\n\n"));
  x.reset();  // after the end of all streams
}

TEST_CASE("the proxy ends while a browser reads events") {
  const played_hub hub("a");
  std::optional<monitor_proxy> x;
  x.emplace(http::endpoint{}, [&] { return hub.at(); });
  auto viewer = client_of(*x, x->token());
  std::atomic<bool> has_one = false, has_ended = false;
  std::thread browser([&] {  // a test's own thread
    try {
      viewer.follow(
          "/api/events",
          [&](std::string_view) {
            has_one = true;
            return true;
          },
          patience());
    } catch (const runtime::error&) {
    }
    has_ended = true;
  });
  const auto more = patience();
  while (!has_one && more())
    std::this_thread::sleep_for(1ms);
  CHECK(has_one);
  x.reset();
  browser.join();
  CHECK(has_ended);
}

TEST_CASE(
    "PROXY-2: a full queue of parts waits for its receiver, and stops waiting when the receiver is "
    "gone") {
  const auto queue = std::make_shared<part_queue>(4);
  int woken = 0;
  CHECK(queue->put("abc"));
  queue->on_part([&] { ++woken; });
  CHECK(woken == 1);
  CHECK(queue->put("defg"));  // exceeds the limit: the next one waits
  std::atomic<bool> is_put = false;
  std::thread more([&] { is_put = queue->put("h"); });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(is_put);
  CHECK(queue->take() == "abcdefg");
  more.join();
  CHECK(is_put);
  CHECK(queue->take() == "h");
  CHECK(queue->take() == "");
  queue->end();
  CHECK_FALSE(queue->take().has_value());
  auto body = body_of(queue);
  CHECK_FALSE(queue->is_closed());
  body.reset();
  CHECK(queue->is_closed());
  CHECK_FALSE(queue->put("i"));

  const auto full = std::make_shared<part_queue>(4);
  CHECK(full->put("abcd"));
  std::atomic<bool> is_refused = false;
  std::thread waiting([&] { is_refused = !full->put("e"); });
  std::this_thread::sleep_for(20ms);  // the part waits
  body_of(full).reset();
  waiting.join();
  CHECK(is_refused);
}

}  // namespace troupe::tests
