#include "runtime/watch/hub.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/http/client.hpp"
#include "tests/runtime/http/raw_client.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::tests {
namespace {

using namespace std::chrono_literals;
using runtime::record_ring;
using runtime::http::client;
using runtime::http::response;

constexpr const char* read_token = "1111";
constexpr const char* control_token = "2222";

/// A hub at a Unix socket and at a port on loopback.
class small_hub {
 public:
  explicit small_hub(runtime::hub_command command = {}) {
    std::filesystem::create_directory(folder_.path() / "sockets");
    runtime::hub_settings how;
    how.at = {{.folder = folder_.path() / "sockets", .name = "hub"}, {}};
    how.read_token = read_token;
    how.control_token = control_token;
    how.pulse = 1ms;
    hub_.emplace(runtime::hub_sources{.records = records,
                                      .id = "a",
                                      .run = R"({"id":"a"})",
                                      .metrics = [](std::size_t) { return "troupe_up 1\n"; },
                                      .command = std::move(command)},
                 how);
  }

  client by_socket(const std::string& token = {}) const {
    return client(
        {.url = {}, .folder = folder_.path() / "sockets", .socket = "hub", .token = token});
  }
  client by_port(const std::string& token = {}) const {
    return client({.url = url(), .token = token});
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", hub_->ports().at(1)); }
  runtime::hub& operator*() { return *hub_; }

  std::shared_ptr<record_ring> records = std::make_shared<record_ring>(3);

 private:
  scratch_folder folder_;
  std::optional<runtime::hub> hub_;
};

void add_steps(record_ring& to, int first, int last) {
  for (int i = first; i <= last; ++i)
    to.add("step", [i] { return fmt::format("{{\"iteration\":{}}}", i); });
}

nlohmann::json json_of(const response& x) {
  REQUIRE(x.status == 200);
  return runtime::json_value(x.body);
}

std::vector<int> iterations(const nlohmann::json& records) {
  std::vector<int> out;
  for (const auto& x : records)
    if (x.contains("iteration"))
      out.push_back(x["iteration"]);
  return out;
}

using list = std::vector<int>;

/// Open descriptors of this process.
std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

struct followed {
  std::size_t records = 0, dropped = 0;
};

/// Follows a stream from the first record to its end.
followed follow_all(client&& by) {
  followed out;
  runtime::http::line_splitter lines;
  const auto take = [&out](std::string_view line) {
    if (line.empty())
      return true;
    const auto x = runtime::json_value(line);
    if (x["kind"] == "dropped")
      out.dropped += x["count"].get<std::size_t>();
    else
      ++out.records;
    return true;
  };
  by.follow(
      "/api/lines?after=3:0", [&](std::string_view part) { return lines.feed(part, take); }, {});
  return out;
}

}  // namespace

TEST_CASE("a hub serves the run, its state, its records and its metrics") {
  small_hub hub;
  add_steps(*hub.records, 1, 3);
  auto x = hub.by_socket();
  CHECK(json_of(x.get("/api/run"))["id"] == "a");
  const auto state = json_of(x.get("/api/state"));
  CHECK(state["next"] == "3:3");
  CHECK(iterations(state["records"]) == list{1, 2, 3});
  CHECK(x.get("/metrics").body == "troupe_up 1\n");
  const auto newest = json_of(x.get("/api/records?newest=2"));
  CHECK(iterations(newest["records"]) == list{2, 3});
  add_steps(*hub.records, 4, 5);
  const auto first = json_of(x.get("/api/records?after=3:3&most=1"));
  CHECK(iterations(first["records"]) == list{4});
  CHECK(first["dropped"] == 0);
  CHECK(iterations(
            json_of(x.get("/api/records?after=" + first["next"].get<std::string>()))["records"])
        == list{5});
  CHECK(json_of(x.get("/api/records?kinds=event&newest=9"))["records"].empty());
}

TEST_CASE("the error for an invalid query lists the valid parameters") {
  small_hub hub;
  auto x = hub.by_socket();
  for (const auto* wrong : {"most=0", "most=1001", "most=x", "newest=-1", "after=7", "other=1"}) {
    const auto answer = x.get(std::string("/api/records?") + wrong);
    INFO(wrong << ": " << answer.body);
    CHECK(answer.status == 400);
    CHECK(runtime::json_value(answer.body)["error"]["message"].get<std::string>().size() > 20);
  }
}

TEST_CASE("VIEW-2: a port needs the read token; the Unix socket does not") {
  small_hub hub;
  CHECK(hub.by_socket().get("/api/run").status == 200);
  CHECK(hub.by_port().get("/api/run").status == 401);
  CHECK(hub.by_port("3333").get("/api/run").status == 403);
  CHECK(hub.by_port(read_token).get("/api/run").status == 200);
  CHECK(hub.by_port(control_token).get("/api/run").status == 200);
  for (const auto* path : {"/api/state", "/api/records", "/api/lines", "/api/events", "/metrics"}) {
    CHECK(hub.by_port().get(path).status == 401);
    CHECK(hub.by_port("3333").get(path).status == 403);
  }
}

TEST_CASE("VIEW-2: commands need the control token, even at the Unix socket") {
  std::string got;
  small_hub hub([&got](std::string text, const std::shared_ptr<runtime::http::exchange>& to) {
    got = std::move(text);
    to->answer({.body = "{\"message\":\"done\"}\n"});
  });
  const std::string command = R"({"command":"pause"})";
  CHECK(hub.by_socket().post("/api/command", command).status == 401);
  CHECK(hub.by_socket(read_token).post("/api/command", command).status == 403);
  CHECK(hub.by_port(read_token).post("/api/command", command).status == 403);
  CHECK(got.empty());
  CHECK(hub.by_port(control_token).post("/api/command", command, "text/plain").status == 415);
  CHECK(hub.by_port(control_token).post("/api/command", command).status == 200);
  CHECK(got == command);
  CHECK(hub.by_port(control_token).get("/api/command").status == 405);
}

TEST_CASE("a hub without commands answers them with 404") {
  small_hub hub;
  CHECK(hub.by_port(control_token).post("/api/command", "{}").status == 404);
}

TEST_CASE("a stream sends new records and ends with the run") {
  small_hub hub;
  add_steps(*hub.records, 1, 2);
  list got;
  std::thread viewer([&] {
    auto x = hub.by_socket();
    runtime::http::line_splitter lines;
    const auto take = [&](std::string_view line) {
      if (!line.empty())
        got.push_back(runtime::json_value(line)["iteration"]);
      return true;
    };
    x.follow(
        "/api/lines?after=3:0", [&](std::string_view part) { return lines.feed(part, take); }, {});
  });
  while ((*hub).viewers() == 0)
    std::this_thread::sleep_for(1ms);
  add_steps(*hub.records, 3, 2000);
  (*hub).finish(60s);
  viewer.join();
  list expected(2000);
  std::iota(expected.begin(), expected.end(), 1);
  CHECK(got == expected);
  CHECK((*hub).viewers() == 0);
}

TEST_CASE("server-sent events have their kind and the position after them") {
  small_hub hub;
  hub.records->add("event", [] { return std::string(R"({"who":"stage:0.1"})"); });
  std::string all;
  hub.by_socket().follow("/api/events?after=3:0",
                         [&](std::string_view part) {
                           all += part;
                           return all.find("\n\n") == std::string::npos;
                         },
                         {});
  CHECK(all.starts_with("id: 3:1\nevent: event\ndata: {\"kind\":\"event\",\"at\":"));
}

TEST_CASE("VIEW-1: a viewer that does not read does not delay others") {
  small_hub hub;
  auto stopped = hub.by_socket();
  std::atomic<bool> released = false;
  std::thread slow([&] {
    stopped.follow("/api/lines?after=3:0",
                   [&](std::string_view) {
                     while (!released)
                       std::this_thread::sleep_for(1ms);
                     return false;
                   },
                   {});
  });
  while ((*hub).viewers() == 0)
    std::this_thread::sleep_for(1ms);
  const std::string filler(2000, 'x');
  for (int i = 0; i < 20000; ++i)
    hub.records->add("event", [filler] { return "{\"why\":\"" + filler + "\"}"; });
  add_steps(*hub.records, 1, 1);
  const auto other = json_of(hub.by_socket().get("/api/records?kinds=step&newest=1"));
  CHECK(iterations(other["records"]) == list{1});
  released = true;
  slow.join();
}

TEST_CASE("VIEW-1: fifty viewers at once each get all records") {
  constexpr std::size_t viewers = 50, records = 2000;
  small_hub hub;
  std::vector<followed> got(viewers);
  std::vector<std::thread> threads;
  for (auto& one : got)
    threads.emplace_back([&] { one = follow_all(hub.by_socket()); });
  while ((*hub).viewers() < viewers)
    std::this_thread::sleep_for(1ms);
  add_steps(*hub.records, 1, int(records));
  (*hub).finish(60s);
  for (auto& one : threads)
    one.join();
  for (const auto& one : got) {
    CHECK(one.records == records);
    CHECK(one.dropped == 0);
  }
}

TEST_CASE("VIEW-1: a thousand viewers that come and go leave nothing behind") {
  small_hub hub;
  add_steps(*hub.records, 1, 1);
  const auto come_and_go = [&](int i) {
    const auto enough = [](std::string_view) { return false; };
    if (i % 2 == 0)
      hub.by_socket().follow("/api/lines?after=3:0", enough, {});
    else
      hub.by_port(read_token).follow("/api/events?after=3:0", enough, {});
  };
  const auto settle = [&](std::ptrdiff_t until) {
    for (int i = 0; i < 10000 && ((*hub).viewers() > 0 || descriptors() > until); ++i)
      std::this_thread::sleep_for(1ms);
  };
  const auto before = descriptors();
  come_and_go(0);
  settle(before);  // libraries may open something once
  const auto once = descriptors();
  for (int i = 1; i < 1000; ++i)
    come_and_go(i);
  settle(once);
  CHECK((*hub).viewers() == 0);
  CHECK(descriptors() <= once);
}

TEST_CASE("VIEW-1: a flood of records is thinned, and the thinned ones are counted") {
  constexpr std::size_t records = 100'000;
  small_hub hub;
  followed got;
  std::thread viewer([&] { got = follow_all(hub.by_socket()); });
  while ((*hub).viewers() == 0)
    std::this_thread::sleep_for(1ms);
  add_steps(*hub.records, 1, int(records));
  (*hub).finish(60s);
  viewer.join();
  CHECK(got.records > 0);
  CHECK(got.records + got.dropped == records);
}

TEST_CASE("a hub reports if it is watched") {
  small_hub hub;
  CHECK_FALSE((*hub).is_watched(100000h));
  hub.by_port("3333").get("/api/run");  // refused
  CHECK_FALSE((*hub).is_watched(1h));
  hub.by_socket().get("/api/run");
  CHECK((*hub).is_watched(1h));
  std::this_thread::sleep_for(2ms);
  CHECK_FALSE((*hub).is_watched(1ms));
}

TEST_CASE("a hub accepts a token in any of its port cookies") {
  small_hub hub;
  const auto status = [&](const std::string& cookies) {
    // http::client sends its token as a header, so this request is written by hand.
    raw_client raw((*hub).ports().at(1));
    raw.send("GET /api/run HTTP/1.1\r\nHost: localhost\r\nCookie: " + cookies + "\r\n\r\n");
    return raw.until("\r\n").substr(9, 3);
  };
  CHECK(status("troupe_token_7000=1111") == "200");
  CHECK(status("a=b; troupe_token_7001=9999; troupe_token_7000=1111") == "200");
  CHECK(status("troupe_token_7000=9999") == "403");
  CHECK(status("token=1111") == "403");
}

TEST_CASE(
    "VIEW-2: a command needs its token in the header, because any page's requests have cookies") {
  small_hub hub([](const std::string&, const auto& to) { to->answer({.body = "{}"}); });
  const auto status = [&](const std::string& header) {
    raw_client raw((*hub).ports().at(1));
    raw.send(
        "POST /api/command HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\n"
        + header + "\r\n\r\n{}");
    return raw.until("\r\n").substr(9, 3);
  };
  CHECK(status("Cookie: troupe_token_7000=2222") == "403");
  CHECK(status("Authorization: Bearer 2222") == "200");
}

}  // namespace troupe::tests
