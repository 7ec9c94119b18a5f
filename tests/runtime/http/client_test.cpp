#include "runtime/http/client.hpp"

#include "runtime/core/error.hpp"
#include "runtime/http/server.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::tests {
namespace {

using namespace std::chrono_literals;
using namespace runtime::http;

/// Keeps requests until the test answers them.
class kept_requests {
 public:
  handler taker() {
    return [this](std::shared_ptr<exchange> x) {
      const std::lock_guard lock(mutex_);
      all_.push_back(std::move(x));
    };
  }
  std::shared_ptr<exchange> newest() const {
    const std::lock_guard lock(mutex_);
    return all_.empty() ? nullptr : all_.back();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<exchange>> all_;
};

/// A body of one part.
class one_part final : public body_source {
 public:
  explicit one_part(std::string text) : text_(std::move(text)) {}
  std::optional<std::string> next() override {
    auto out = std::exchange(text_, {});
    return out.empty() ? std::optional<std::string>() : out;
  }

 private:
  std::string text_;
};

/// Sets an environment variable for the duration of a test.
class set_variable {
 public:
  set_variable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* const before = std::getenv(name_.c_str()))
      before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~set_variable() {
    if (before_)
      ::setenv(name_.c_str(), before_->c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  set_variable(const set_variable&) = delete;
  set_variable& operator=(const set_variable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

std::string url_of(const server& x) {
  return fmt::format("http://127.0.0.1:{}", x.ports().front());
}

}  // namespace

TEST_CASE("a request with an idle function has no timeout of silence") {
  kept_requests kept;
  const server x({{}}, {{method::post, "/", kept.taker()}});
  client by({.url = url_of(x)}, {.silence = 1s});
  SECTION("it waits for the answer") {
    int calls = 0;  // about one per second
    const auto idle = [&] {
      const auto asked = kept.newest();
      if (asked && ++calls == 4)
        asked->answer({.type = "text/plain", .body = "late"});
      return calls < 60;
    };
    CHECK(by.post("/", "{}", "application/json", idle).body == "late");
  }
  SECTION("it ends when the function returns false") {
    const auto idle = [&] { return kept.newest() == nullptr; };
    CHECK_THROWS_AS(by.post("/", "{}", "application/json", idle), runtime::cancelled);
  }
  SECTION("a request without an idle function times out") {
    CHECK_THROWS_AS(by.post("/", "{}"), runtime::io_error);
  }
}

TEST_CASE("a token is not sent to the proxy of the environment") {
  // The proxy is a server that answers each request itself.
  const auto says = [](const char* text) {
    return [text](const std::shared_ptr<exchange>& x) {
      x->answer({.type = "text/plain", .body = text});
    };
  };
  const server hub({{}}, {{method::get, "/", says("hub")}});
  const server proxy({{}}, {{method::get, "/", says("proxy")}});
  const set_variable one("http_proxy", url_of(proxy)), none("no_proxy", ""),
      neither("NO_PROXY", "");
  CHECK(client({.url = url_of(hub), .token = "secret"}).get("/").body == "hub");
  CHECK(client({.url = url_of(hub), .by_proxy = true}).get("/").body == "proxy");
}

TEST_CASE("a client reports when a followed answer has begun") {
  server x({{}},
           {{method::get,
             "/parts",
             [](const std::shared_ptr<exchange>& to) {
               to->stream({.type = "text/plain"}, std::make_unique<one_part>("text"));
             }},
            {method::get, "/refused", [](const std::shared_ptr<exchange>& to) {
               to->answer(error_response(400, "no such position"));
             }}});
  client by({.url = url_of(x)});
  std::string heard;
  const auto follow = [&](const std::string& target) {
    return by.follow(
        target,
        [&](std::string_view part) {
          heard += part;
          return true;
        },
        [] { return true; },
        [&] { heard += "begun "; });
  };
  CHECK(follow("/parts").status == 200);
  CHECK(heard == "begun text");
  const auto refused = follow("/refused");
  CHECK(refused.status == 400);
  CHECK(refused.body.find("no such position") != std::string::npos);
  CHECK(heard == "begun text");
}

}  // namespace troupe::tests
