#include "runtime/http/server.hpp"

#include "runtime/core/error.hpp"
#include "runtime/http/client.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/run_folder.hpp"
#include "tests/runtime/http/raw_client.hpp"
#include "tests/runtime/http/server_parts.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <fmt/format.h>
#include <thread>
#include <vector>

namespace troupe::tests {
namespace {

using namespace std::chrono_literals;
using namespace runtime::http;

void answer_echo(const std::shared_ptr<exchange>& x) {
  const auto& asked = x->asked();
  std::string text = fmt::format("{} {}", name_of(asked.method), asked.path);
  for (const auto& [name, value] : asked.query)
    text += fmt::format(" {}={}", name, value);
  x->answer({.type = "text/plain", .body = text + " " + asked.body});
}

std::vector<server::route> echoing() {
  return {{method::get, "/echo", answer_echo},
          {method::post, "/echo", answer_echo},
          {method::get, "/below/", answer_echo}};
}

int status_for(const server& x, std::string_view request) {
  raw_client client(x.ports().front());
  client.send(request);
  return status_of(client.until(body_end));
}

}  // namespace

TEST_CASE("a server answers the requests of a connection in order") {
  const server x({{}}, echoing());
  raw_client client(x.ports().front());
  SECTION("sent one after the other") {
    client.send(head("GET /echo?a=1&b=%20+%2b"));
    CHECK(client.until("GET /echo a=1 b=  + ").find("200 OK") != std::string::npos);
    client.send(head("POST /echo", "Content-Length: 3\r\n") + "xyz");
    CHECK_FALSE(client.until("POST /echo xyz").empty());
  }
  SECTION("sent all at once") {
    std::string all;
    for (int i = 0; i < 100; ++i)
      all += head(fmt::format("GET /echo?i={}", i));
    client.send(all);
    for (int i = 0; i < 100; ++i)
      CHECK(status_of(client.until(fmt::format("GET /echo i={} ", i))) == 200);
  }
  SECTION("sent in single bytes") {
    for (const char byte : head("POST /below/a/b", "") + head("GET /below/a/b"))
      client.send({&byte, 1});
    CHECK(status_of(client.until(body_end)) == 405);
    CHECK_FALSE(client.until("GET /below/a/b ").empty());
  }
  SECTION("with a body in chunks") {
    client.send(head("POST /echo", "Transfer-Encoding: chunked\r\n")
                + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    CHECK_FALSE(client.until("POST /echo abcde").empty());
  }
  SECTION("a client that waits for 100 Continue") {
    client.send(head("POST /echo", "Content-Length: 1\r\nExpect: 100-continue\r\n"));
    CHECK(client.until(body_end) == "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("z");
    CHECK_FALSE(client.until("POST /echo z").empty());
  }
  SECTION("HEAD gets the headers of GET") {
    client.send(head("HEAD /echo", "Connection: close\r\n"));
    const auto all = client.until();
    CHECK(status_of(all) == 200);
    CHECK(all.find("Content-Length: 11\r\n") != std::string::npos);
    CHECK(all.ends_with(body_end));
  }
  SECTION("HTTP/1.0 closes the connection") {
    client.send("GET /echo HTTP/1.0\r\n\r\n");
    CHECK(client.until().ends_with("GET /echo "));
  }
}

TEST_CASE("a server refuses malformed and unknown requests") {
  settings how;
  how.limits.header_bytes = 2000;
  how.limits.body_bytes = 100;
  how.names = {"train.example.org"};
  const server x({{}}, echoing(), how);
  const std::string long_text(3000, 'x');
  CHECK(status_for(x, head("GET /other")) == 404);
  CHECK(status_for(x, head("DELETE /echo")) == 405);
  CHECK(status_for(x, head("BREW /echo")) == 501);
  CHECK(status_for(x, head("GET /below/../echo")) == 400);
  CHECK(status_for(x, head("GET /below/%2e%2E/echo")) == 400);
  CHECK(status_for(x, head("GET /echo%0d%0aX:1")) == 400);
  CHECK(status_for(x, head("GET /echo%4")) == 400);
  CHECK(status_for(x, head("GET echo")) == 400);
  CHECK(status_for(x, "no request\r\n\r\n") == 400);
  CHECK(status_for(x, "\x16\x03\x01\x02\r\n\r\n") == 400);
  CHECK(status_for(x, head("GET /echo", "X: " + long_text + "\r\n")) == 431);
  CHECK(status_for(x, "GET /" + long_text) == 431);
  CHECK(status_for(x, head("POST /echo", "Content-Length: 101\r\n")) == 413);
  CHECK(status_for(x, head("POST /echo", "Content-Length: 99999999999999999999\r\n")) == 400);
  CHECK(status_for(x, head("POST /echo", "Content-Length: -1\r\n")) == 400);
  CHECK(status_for(x, head("POST /echo", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"))
        == 400);
  CHECK(
      status_for(x, head("POST /echo", "Transfer-Encoding: chunked\r\n") + "ffffff\r\n" + long_text)
      == 413);
  CHECK(status_for(x, "GET /echo HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_for(x, head("GET /echo", "Host: localhost\r\n")) == 400);
}

TEST_CASE("HTTP-2: each pipelined request is handled once") {
  desk at;
  const server x({{}}, {{method::get, "/", at.taker()}});
  raw_client client(x.ports().front());
  client.send(head("GET /?i=1") + head("GET /?i=2"));
  const auto answer_next = [&](const char* expected) {
    const auto one = at.next();
    CHECK(one->asked().query.at("i") == expected);
    one->answer({.body = fmt::format("<{}>", expected)});
  };
  answer_next("1");
  client.until("<1>");
  answer_next("2");
  client.until("<2>");
  client.send(head("GET /?i=3"));
  answer_next("3");
  client.until("<3>");
  client.send(head("GET /?i=4"));
  const auto fourth = at.next();
  client.send(head("GET /?i=5"));  // while the fourth waits
  fourth->answer({.body = "<4>"});
  client.until("<4>");
  answer_next("5");
  client.until("<5>");
  client.send(head("GET /?i=6"));
  answer_next("6");  // the fifth is not handled again
  client.until("<6>");
}

TEST_CASE("HTTP-2: a body has a length or chunks, and trailers do not change the headers") {
  const server x({{}}, {{method::post, "/", [](const std::shared_ptr<exchange>& to) {
                           const auto given = to->asked().header("authorization");
                           to->answer({.body = fmt::format("<{}>", given)});
                         }}});
  const auto status = [&](const char* codings) {
    return status_for(x, head("POST /", fmt::format("Transfer-Encoding: {}\r\n", codings)));
  };
  CHECK(status("gzip") == 501);
  CHECK(status("chunked, gzip") == 501);
  CHECK(status_for(x, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
  raw_client client(x.ports().front());
  const auto trailed = head("POST /", "Transfer-Encoding: chunked\r\n")
                       + "1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n";
  client.send(trailed);
  CHECK(client.until(">").ends_with("\r\n\r\n<>"));
  for (const char byte : trailed)
    client.send({&byte, 1});
  CHECK(client.until(">").ends_with("\r\n\r\n<>"));
}

TEST_CASE("a client that closes its sending side after a request gets the answer") {
  const server x({{}}, echoing());
  raw_client client(x.ports().front());
  client.send(head("GET /echo"));
  client.end_of_requests();
  CHECK(client.until().find("GET /echo ") != std::string::npos);
}

TEST_CASE("HTTP-1: a request stays within its limits, however its bytes arrive") {
  settings how;
  how.limits.header_bytes = 2000;
  how.limits.body_bytes = 1000;
  const server x({{}}, echoing(), how);
  raw_client client(x.ports().front());
  const auto refused_with = [&](int status, std::string_view first, std::string_view repeated) {
    client.send(first);
    for (int i = 0; i < 100'000 && client.send(repeated); ++i) {
    }
    CHECK(status_of(client.until(body_end)) == status);
  };
  SECTION("headers in short lines") {
    refused_with(431, "GET /echo HTTP/1.1\r\nHost: localhost\r\n", "A: 123456789012\r\n");
  }
  SECTION("headers whose line ends come in the next packet") {
    client.send("GET /echo HTTP/1.1\r\nHost: localhost\r\nA");
    refused_with(431, "", ": 12345678901\r\nA");
  }
  SECTION("an endless chunk size") {
    refused_with(
        413, head("POST /echo", "Transfer-Encoding: chunked\r\n") + "1;", std::string(500, 'a'));
  }
  SECTION("endless trailers") {
    refused_with(
        413, head("POST /echo", "Transfer-Encoding: chunked\r\n") + "0\r\n", "A: 1234567890\r\n");
  }
  SECTION("too many headers") {
    std::string many;
    for (int i = 0; i < 101; ++i)
      many += fmt::format("A{}: 1\r\n", i);
    refused_with(431, head("GET /echo", many), "");
  }
}

TEST_CASE("HTTP-1: a server can end while clients connect") {
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> ends = false;
    std::vector<std::thread> clients;
    {
      const server x({{}}, echoing());
      const auto port = x.ports().front();
      for (int c = 0; c < 3; ++c)
        clients.emplace_back([&ends, port] {
          while (!ends)
            try {
              raw_client(port).send("GET");
            } catch (const std::exception&) {  // the server has ended
            }
        });
      while (x.connections() == 0 && x.refused() == 0)
        std::this_thread::yield();
    }
    ends = true;
    for (auto& one : clients)
      one.join();
  }
}

TEST_CASE("HTTP-3: a page of another site has no access") {
  settings how;
  how.names = {"train.example.org"};
  const server x({{}}, echoing(), how);
  const auto status = [&x](const char* host, const char* origin) {
    return status_for(x,
                      fmt::format("GET /echo HTTP/1.1\r\nHost: {}\r\n{}\r\n",
                                  host,
                                  *origin == '\0' ? "" : fmt::format("Origin: {}\r\n", origin)));
  };
  CHECK(status("localhost:7000", "") == 200);
  CHECK(status("127.0.0.1", "") == 200);
  CHECK(status("[::1]:80", "") == 200);
  CHECK(status("train.example.org:7000", "") == 200);
  CHECK(status("evil.example.org", "") == 403);
  CHECK(status("localhost.evil.example.org", "") == 403);
  CHECK(status("localhost:7000", "http://localhost:7000") == 200);
  CHECK(status("localhost:7000", "http://localhost:7001") == 403);
  CHECK(status("localhost:7000", "http://evil.example.org") == 403);
  CHECK(status("localhost:7000", "null") == 403);
  CHECK(status("Train.Example.org", "https://train.example.org") == 200);  // behind a proxy
  CHECK(status("train.example.org:7000", "http://train.example.org:8888") == 403);
  CHECK(status("127.0.0.1:7000", "https://train.example.org") == 403);
  CHECK(status_for(x, head("GET /echo", "Sec-Fetch-Site: cross-site\r\n")) == 403);
  CHECK(status_for(x, head("GET /echo", "Sec-Fetch-Site: same-origin\r\n")) == 200);
  CHECK(status_for(x, head("GET http://evil.example.org/echo")) == 403);
  CHECK(status_for(x, head("GET http://localhost:7000/echo")) == 200);
}

TEST_CASE("HTTP-1: slow, silent and many clients") {
  settings how;
  how.limits.receive = 100ms;
  how.limits.idle = 1h;               // between two requests only
  how.limits.header_bytes = 1 << 20;  // not reached before a test fails
  how.limits.connections = 3;
  const server x({{}}, echoing(), how);
  const auto port = x.ports().front();
  SECTION("a silent client is disconnected") {
    raw_client silent(port);
    CHECK(silent.is_closed_by_server());
  }
  SECTION("a client that stops within a request is disconnected") {
    raw_client slow(port);
    slow.send("GET /echo HTTP/1.1\r\nHo");
    CHECK(slow.is_closed_by_server());
  }
  SECTION("a client that sends single bytes forever is disconnected") {
    raw_client slow(port);
    slow.send("GET /echo HTTP/1.1\r\nHost: localhost\r\nX: ");
    CHECK(soon([&] { return !slow.send("x"); }));
  }
  SECTION("connections beyond the limit are closed, and later ones are served") {
    {
      raw_client a(port), b(port), c(port), d(port);
      a.until(), b.until(), c.until(), d.until();
    }
    REQUIRE(soon([&] { return x.connections() == 0; }));
    CHECK(status_for(x, head("GET /echo")) == 200);
  }
}

TEST_CASE("HTTP-1: a connection beyond the limit is closed and counted") {
  settings how;
  how.limits.connections = 2;
  const server x({{}}, echoing(), how);
  const auto port = x.ports().front();
  raw_client a(port), b(port);
  for (auto* one : {&a, &b}) {
    one->send(head("GET /echo"));
    one->until("GET /echo ");
  }
  raw_client c(port);
  CHECK(c.until().empty());
  CHECK(x.refused() == 1);
}

TEST_CASE("HTTP-1: connections on a port do not use up those of the Unix socket") {
  const scratch_folder folder;
  settings how;
  how.limits.connections = 1;
  const server x({{}, {.folder = folder.path(), .name = "own"}}, echoing(), how);
  raw_client stranger(x.ports().front());
  stranger.send(head("GET /echo"));
  stranger.until("GET /echo ");
  client own({.url = {}, .folder = folder.path(), .socket = "own"});
  CHECK(own.get("/echo").status == 200);
}

TEST_CASE("a refused client needs a new connection for its next attempt") {
  const server x({{}}, {{method::get, "/", [](const std::shared_ptr<exchange>& to) {
                           to->answer(error_response(401, "no token"));
                         }}});
  raw_client stranger(x.ports().front());
  stranger.send(head("GET /"));
  CHECK(status_of(stranger.until()) == 401);
}

TEST_CASE("an answer may come later, from any thread") {
  desk at;
  const server x({{}}, {{method::get, "/", at.taker()}});
  raw_client client(x.ports().front());
  client.send(head("GET /") + head("GET /?second=1"));
  auto first = at.next();
  CHECK(first->asked().query.empty());
  std::thread([&] { first->answer({.body = "one"}); }).join();
  first->answer({.body = "never"});
  CHECK(status_of(client.until("one")) == 200);
  auto second = at.next();
  CHECK(second->asked().query.at("second") == "1");
  second.reset();
  CHECK(status_of(client.until("did not answer this request")) == 500);
}

TEST_CASE("an exception of a handler is sent as an error answer") {
  const server x(
      {{}},
      {{method::get, "/input", [](auto) { throw runtime::input_error("no such \"step\""); }},
       {method::get, "/other", [](auto) { throw std::runtime_error("broken"); }}});
  raw_client client(x.ports().front());
  client.send(head("GET /input"));
  CHECK(status_of(client.until(R"({"error":{"message":"no such \"step\""}})")) == 400);
  client.until("\n");
  client.send(head("GET /other"));
  CHECK(status_of(client.until("broken")) == 500);
}

TEST_CASE("the value of an answer's header cannot add another header") {
  const server x({{}}, {{method::get, "/", [](const std::shared_ptr<exchange>& to) {
                           to->answer({.body = "x", .headers = {{"A", "b\r\nC: d"}}});
                         }}});
  raw_client client(x.ports().front());
  client.send(head("GET /"));
  CHECK(client.until(body_end).find("A: b  C: d\r\n") != std::string::npos);
}

TEST_CASE("an exchange outlives its server") {
  desk at;
  std::shared_ptr<exchange> left;
  {
    const server x({{}}, {{method::get, "/", at.taker()}});
    raw_client client(x.ports().front());
    client.send(head("GET /"));
    left = at.next();
  }
  left->answer({.body = "late"});
  left->stream({}, nullptr)();
}

TEST_CASE("the error for a port in use names the port and a remedy") {
  const server x({{}}, echoing());
  try {
    const server again({{.port = x.ports().front()}}, echoing());
    FAIL("a second server has the port");
  } catch (const runtime::io_error& failure) {
    CHECK(std::string(failure.what())
          == fmt::format("cannot listen at 127.0.0.1:{}: Address already in use; choose another "
                         "port, or 0 for any free one",
                         x.ports().front()));
  }
}

TEST_CASE("a client uses a Unix socket with a long path, and refuses an unknown certificate") {
  const scratch_folder scratch;
  const auto folder = scratch.path() / std::string(200, 'f');
  runtime::make_own_folder(folder);
  const auto keys = scratch.path() / "keys";
  runtime::make_credentials(keys, "0123456789abcdef");
  const auto made = runtime::read_credentials(keys);
  settings how;
  how.tls = server_certificate{made.certificate, made.key};
  const server x({{}, {.folder = folder, .name = "monitor"}}, echoing(), how);
  REQUIRE(x.ports().size() == 2);
  SECTION("Unix socket") {
    client by({.url = {}, .folder = folder, .socket = "monitor"});
    CHECK(by.get("/echo?x=1").body == "GET /echo x=1 ");
    CHECK(by.post("/echo", "text").body == "POST /echo text");
    CHECK(by.get("/none").status == 404);
  }
  SECTION("TLS with an untrusted certificate") {
    client by({.url = fmt::format("https://127.0.0.1:{}", x.ports().front())});
    CHECK_THROWS_AS(by.get("/echo"), runtime::io_error);
  }
  SECTION("plain text at a port with TLS") {
    raw_client by(x.ports().front());
    by.send(head("GET /echo"));
    CHECK(status_of(by.until()) == 0);
  }
}

}  // namespace troupe::tests
