#include "runtime/watch/page_routes.hpp"

#include "runtime/http/client.hpp"
#include "runtime/watch/page_files.hpp"
#include "runtime/watch/viewer_token.hpp"
#include "tests/runtime/http/raw_client.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace troupe::tests {
namespace {

using runtime::gives_viewer_token;
using runtime::has_viewer_token;
using runtime::http::client;
using runtime::http::server;

std::string url_of(const server& x) {
  return fmt::format("http://127.0.0.1:{}", x.ports().front());
}

std::string header_of(const runtime::http::response& x, const std::string& name) {
  for (const auto& [its, value] : x.headers)
    if (its == name)
      return value;
  return "";
}

/// The quoted paths after href=, src= and from.
std::vector<std::string> named_in(const std::string& text, const char* words) {
  const std::regex pattern(std::string(words) + "\\s*\"([^\"]*)\"");
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    out.push_back((*at)[1]);
  return out;
}

std::string text_at(const std::string& path) {
  for (const auto& file : runtime::page_files())
    if (file.path == path)
      return std::string(file.bytes);
  FAIL("the page has no file " << path);
  return "";
}

}  // namespace

TEST_CASE("all files that the page refers to exist") {
  const auto index = text_at("/");
  CHECK(index.starts_with("<!DOCTYPE html>"));
  CHECK(text_at("/page/chart.js").find("Chart.js v3") != std::string::npos);
  for (const auto& path : named_in(index, "(?:href|src)="))
    if (!path.starts_with("#") && !path.starts_with("data:"))
      CHECK_FALSE(text_at(path).empty());
  for (const auto& file : runtime::page_files()) {
    if (!file.path.ends_with(".js") || file.path == "/page/chart.js")
      continue;
    for (const auto& name : named_in(std::string(file.bytes), "from")) {
      INFO(file.path << " imports " << name);
      REQUIRE(name.starts_with("./"));
      CHECK_FALSE(text_at("/page" + name.substr(1)).empty());
    }
  }
}

TEST_CASE("all elements that the scripts of the page use exist") {
  const auto index = text_at("/");
  std::set<std::string> ids;
  for (const auto& id : named_in(index, " id="))
    CHECK(ids.insert(id).second);  // unique
  for (const auto& file : runtime::page_files())
    for (const auto& id : named_in(std::string(file.bytes), "by_id\\(")) {
      INFO(file.path << " names " << id);
      CHECK(ids.contains(id));
    }
  for (const auto* words : {"aria-labelledby=", "aria-describedby=", "aria-controls=", " for="})
    for (const auto& id : named_in(index, words)) {
      INFO(words << id);
      CHECK(ids.contains(id));
    }
}

TEST_CASE("PAGE-2: the page has no inline scripts or styles, and refers to no other host") {
  const auto index = text_at("/");
  for (const auto* part : {" style=", "<style", " onclick=", " onload=", "javascript:"})
    CHECK(index.find(part) == std::string::npos);
  for (const auto& file : runtime::page_files()) {
    if (file.path == "/page/chart.js")
      continue;
    INFO(file.path);
    const auto text = std::string(file.bytes);
    for (const auto* part : {"innerHTML",
                             "outerHTML",
                             "insertAdjacentHTML",
                             "document.write",
                             "eval(",
                             "new Function"})
      CHECK(text.find(part) == std::string::npos);
    CHECK(std::regex_search(text, std::regex("https?://(?!www\\.w3\\.org/2000/svg)")) == false);
  }
  const server of({{}}, runtime::page_routes());
  const auto policy = header_of(client({.url = url_of(of)}).get("/"), "content-security-policy");
  for (const auto* rule : {"default-src 'none';",
                           "script-src 'self';",
                           "style-src 'self';",
                           "connect-src 'self';",
                           "frame-ancestors 'none'"})
    CHECK(policy.find(rule) != std::string::npos);
  CHECK(policy.find("unsafe") == std::string::npos);
}

TEST_CASE("each file has its type and bytes") {
  const server of({{}}, runtime::page_routes());
  client x({.url = url_of(of)});
  for (const auto& file : runtime::page_files()) {
    INFO(file.path);
    const auto got = x.get(std::string(file.path));
    CHECK(got.status == 200);
    CHECK(got.type == file.type);
    if (file.path.ends_with(".js"))
      CHECK(got.type == "text/javascript; charset=utf-8");
    CHECK(got.body == file.bytes);
    CHECK(header_of(got, "cache-control") == "no-cache");
    CHECK(header_of(got, "x-content-type-options") == "nosniff");
  }
}

TEST_CASE("PAGE-1: only the embedded files are served") {
  const server of({{}}, runtime::page_routes());
  client x({.url = url_of(of)});
  for (const auto* path : {"/page",
                           "/page/",
                           "/page/gone.js",
                           "/page/index.html",
                           "/page/page.js/",
                           "/page//page.js",
                           "/page/%2e%2e/page.js",
                           "/page/..%2fpage.js",
                           "/page/page.js%00",
                           "/etc/passwd",
                           "/page/PAGE.JS"}) {
    INFO(path);
    const auto status = x.get(path).status;
    CHECK((status == 404 || status == 400));
  }
  CHECK(x.post("/", "{}").status == 405);
}

TEST_CASE("a browser with a cached file gets it again only after a change") {
  const server of({{}}, runtime::page_routes());
  client x({.url = url_of(of)});
  const auto tag = header_of(x.get("/page/page.css"), "etag");
  REQUIRE(tag.size() > 10);
  raw_client raw(of.ports().front());
  const auto ask = [&](const std::string& tags) {
    REQUIRE(raw.send("GET /page/page.css HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: " + tags
                     + "\r\n\r\n"));
    return raw.until("\r\n\r\n");
  };
  const auto unchanged = ask("\"other\", W/" + tag);
  CHECK(unchanged.starts_with("HTTP/1.1 304 "));
  CHECK(unchanged.find("Content-Length") == std::string::npos);
  CHECK(ask("\"other\"").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a viewer's token is accepted in a header or in a cookie") {
  const auto with = [](std::string name, std::string value) {
    runtime::http::request out;
    out.headers.emplace(std::move(name), std::move(value));
    return out;
  };
  CHECK(gives_viewer_token(with("authorization", "Bearer abc"), "abc"));
  CHECK(gives_viewer_token(with("cookie", "a=b; troupe_token_80=x; troupe_token_7000=abc"), "abc"));
  CHECK(gives_viewer_token(with("cookie", "troupe_token_7000=abc; troupe_token_7001=x"), "abc"));
  CHECK_FALSE(gives_viewer_token(with("cookie", "other_7000=abc"), "abc"));
  CHECK_FALSE(gives_viewer_token(with("cookie", "troupe_token_7000=abcd"), "abc"));
  CHECK_FALSE(gives_viewer_token(with("cookie", "troupe_token_7000="), ""));
  CHECK_FALSE(gives_viewer_token({}, "abc"));
  CHECK(has_viewer_token(with("cookie", "troupe_token_7000=x")));
  CHECK_FALSE(has_viewer_token({}));
}

}  // namespace troupe::tests
