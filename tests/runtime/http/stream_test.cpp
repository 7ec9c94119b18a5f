#include "runtime/http/client.hpp"
#include "runtime/http/server.hpp"
#include "tests/runtime/http/raw_client.hpp"
#include "tests/runtime/http/server_parts.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::tests {
namespace {

using namespace std::chrono_literals;
using namespace runtime::http;

/// Sends parts that a test adds. Counts the calls of `next`.
struct parts {
  std::mutex mutex;
  std::deque<std::optional<std::string>> waiting;
  std::atomic<int> asked = 0;
  std::atomic<bool> is_gone = false;

  void add(std::optional<std::string> x) {
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(x));
  }
  bool ends() const {
    return soon([this] { return is_gone.load(); });
  }
};

class shared_source final : public body_source {
 public:
  explicit shared_source(std::shared_ptr<parts> of) : of_(std::move(of)) {}
  ~shared_source() override { of_->is_gone = true; }
  std::optional<std::string> next() override {
    ++of_->asked;
    const std::lock_guard lock(of_->mutex);
    if (of_->waiting.empty())
      return "";
    auto out = std::move(of_->waiting.front());
    of_->waiting.pop_front();
    return out;
  }

 private:
  std::shared_ptr<parts> of_;
};

}  // namespace

TEST_CASE("a stream sends the next parts of its source after each wake-up") {
  desk at;
  const auto all = std::make_shared<parts>();
  std::optional<server> x;
  x.emplace(std::vector<endpoint>{{}}, std::vector<server::route>{{method::get, "/", at.taker()}});
  raw_client client(x->ports().front());
  client.send(head("GET /"));
  auto wake
      = at.next()->stream({.type = "text/event-stream"}, std::make_unique<shared_source>(all));
  const auto begin = client.until(body_end);
  CHECK(begin.find("Transfer-Encoding: chunked") != std::string::npos);
  SECTION("to its end, and the connection stays usable") {
    all->add("one");
    all->add("two");
    wake();
    CHECK(client.until("two\r\n") == "3\r\none\r\n3\r\ntwo\r\n");
    all->add(std::nullopt);
    wake();
    CHECK(client.until("0\r\n\r\n") == "0\r\n\r\n");
    CHECK(all->ends());
    client.send(head("GET /"));
    at.next()->answer({.body = "again"});
    CHECK(status_of(client.until("again")) == 200);
  }
  SECTION("until the server ends") {
    x.reset();
    CHECK(client.until().empty());
    CHECK(all->is_gone);
  }
  wake();  // is ignored
}

TEST_CASE("the server's pulse wakes streams") {
  desk at;
  const auto all = std::make_shared<parts>();
  settings how;
  how.pulse = 5ms;
  const server x({{}}, {{method::get, "/", at.taker()}}, how);
  raw_client client(x.ports().front());
  client.send(head("GET /"));
  at.next()->stream({}, std::make_unique<shared_source>(all));
  client.until(body_end);
  for (const auto* text : {"first", "second"}) {
    all->add(text);
    CHECK_FALSE(client.until(text).empty());
  }
}

TEST_CASE("a source is destroyed when its client disconnects") {
  desk at;
  const auto all = std::make_shared<parts>();
  const server x({{}}, {{method::get, "/", at.taker()}});
  {
    raw_client client(x.ports().front());
    client.send(head("GET /"));
    at.next()->stream({}, std::make_unique<shared_source>(all));
    client.until(body_end);
  }
  CHECK(all->ends());
}

TEST_CASE("HTTP-1: no parts are made or queued for a client that does not read") {
  desk at;
  const auto all = std::make_shared<parts>();
  settings how;
  how.limits.send = 300ms;
  const server x({{}}, {{method::get, "/", at.taker()}}, how);
  raw_client client(x.ports().front());
  client.send(head("GET /"));
  for (int i = 0; i < 4000; ++i)
    all->add(std::string(16 << 10, 'x'));
  at.next()->stream({}, std::make_unique<shared_source>(all));
  CHECK(all->ends());        // after a timeout of 1.3 s
  CHECK(all->asked < 1000);  // as many as fit into the system's buffers
}

TEST_CASE("HTTP-1: a pause of the server's thread is no silence of its client") {
  desk at;
  const auto all = std::make_shared<parts>();
  std::atomic<bool> paused = false;
  const handler pause = [&](const std::shared_ptr<exchange>& x) {
    paused = true;
    std::this_thread::sleep_for(2s);  // longer than the timeout of 1.2 s for a part
    x->answer({});
  };
  settings how;
  how.limits.send = 200ms;
  const server x({{}}, {{method::get, "/", at.taker()}, {method::get, "/pause", pause}}, how);
  raw_client client(x.ports().front()), other(x.ports().front());
  client.send(head("GET /"));
  for (int i = 0; i < 4000; ++i)
    all->add(std::string(16 << 10, 'x'));
  const auto wake = at.next()->stream({}, std::make_unique<shared_source>(all));
  for (int before = -1; before != all->asked; std::this_thread::sleep_for(100ms))
    before = all->asked;  // until the system's buffers are full
  {
    const std::lock_guard lock(all->mutex);
    all->waiting.clear();
  }
  other.send(head("GET /pause"));
  REQUIRE(soon([&] { return paused.load(); }));
  std::jthread ends([&] {
    other.until(body_end);
    std::this_thread::sleep_for(50ms);  // the part in flight ends, and the source has none
    all->add(std::nullopt);
    wake();
  });
  CHECK_NOTHROW(client.until("\r\n0\r\n\r\n"));
}

TEST_CASE("a client follows a stream line by line") {
  desk at;
  const auto all = std::make_shared<parts>();
  const server x({{}}, {{method::get, "/", at.taker()}});
  client by({.url = fmt::format("http://127.0.0.1:{}", x.ports().front())});
  std::vector<std::string> lines;
  const auto run = [&](std::size_t most) {
    line_splitter split;
    return by.follow("/",
                     [&](std::string_view part) {
                       return split.feed(part, [&](std::string_view line) {
                         lines.emplace_back(line);
                         return lines.size() < most;
                       });
                     },
                     {});
  };
  all->add("a\nbb");
  all->add("b\nc\n");
  all->add(std::nullopt);
  const auto most = std::size_t(GENERATE(3, 2));
  std::jthread server_side([&] { at.next()->stream({}, std::make_unique<shared_source>(all)); });
  CHECK(run(most).status == 200);
  CHECK(lines
        == (most == 3 ? std::vector<std::string>{"a", "bbb", "c"}
                      : std::vector<std::string>{"a", "bbb"}));
}

}  // namespace troupe::tests
