#include "runtime/watch/webhook.hpp"

#include "runtime/core/error.hpp"
#include "runtime/http/client.hpp"
#include "runtime/http/server.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <string>

namespace troupe::tests {
namespace {

using namespace runtime;
using Catch::Matchers::ContainsSubstring;

/// The message of the error of a post to the URL; empty: no error.
std::string error_of_post(const std::string& url) {
  try {
    post_webhook(url, "{}");
  } catch (const runtime::error& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a URL in a message has no user and no password") {
  CHECK(http::url_without_user("https://host/path") == "https://host/path");
  CHECK(http::url_without_user("https://zoe:secret@host:7/path") == "https://host:7/path");
  CHECK(http::url_without_user("https://zoe:se@cr/et@host/path") == "https://host/path");
  CHECK(http::url_without_user("zoe:secret@host/path") == "host/path");
  CHECK(http::url_without_user("zoe:secret@http://host") == "http://host");
  CHECK(http::url_without_user("") == "");
}

TEST_CASE("no error of a webhook has the user and the password of its URL") {
  const http::server service({{}}, {{http::method::post, "/", [](const auto& x) {
                                       x->answer(http::error_response(503, "no time"));
                                     }}});
  const auto server = fmt::format("127.0.0.1:{}", service.ports().front());
  for (const auto& url : {"http://zoe:secret@" + server + "/hook",            // an unknown path
                          "http://zoe:secret@" + server,                      // the service refuses
                          std::string("http://zoe:secret@127.0.0.1:1/hook"),  // no service
                          std::string("http://zoe:secret@/hook"),
                          std::string("ftp://zoe:secret@127.0.0.1/hook"),
                          std::string("zoe:secret@127.0.0.1/hook")}) {
    CAPTURE(url);
    const auto said = error_of_post(url);
    CHECK_THAT(said, ContainsSubstring("cannot"));
    CHECK(said.find("zoe") == std::string::npos);
    CHECK(said.find("secret") == std::string::npos);
  }
}

}  // namespace troupe::tests
