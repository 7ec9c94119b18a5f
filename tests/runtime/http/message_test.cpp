#include "runtime/http/message.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

namespace troupe::tests {

namespace {

using namespace runtime::http;

}  // namespace

TEST_CASE("bearer tokens") {
  request x;
  CHECK(bearer_token(x).empty());
  for (const auto* text : {"Bearer secret", "bearer secret", "BEARER   secret"}) {
    x.headers["authorization"] = text;
    CHECK(bearer_token(x) == "secret");
  }
  for (const auto* text : {"Bearer", "Bearer ", "Bearer     ", "Basic secret"}) {
    x.headers["authorization"] = text;
    CHECK(bearer_token(x).empty());
  }
  CHECK(is_token("secret", "secret"));
  CHECK_FALSE(is_token("secret", "secreT"));
  CHECK_FALSE(is_token("secre", "secret"));
  CHECK_FALSE(is_token("", ""));
}

TEST_CASE("an event may have several lines") {
  CHECK(event_text("a\nb", "step", "1:2") == "id: 1:2\nevent: step\ndata: a\ndata: b\n\n");
  CHECK(event_text("") == "data: \n\n");
}

}  // namespace troupe::tests
