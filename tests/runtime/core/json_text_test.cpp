#include "runtime/core/json_text.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace troupe::runtime;

TEST_CASE("JSON texts keep or sort their keys, and are indented on request", "[core]") {
  const auto text = R"({"b":1,"a":[true,null]})";
  CHECK(json_text(ordered_json_value(text)) == text);
  CHECK(json_text(json_value(text)) == R"({"a":[true,null],"b":1})");
  CHECK(json_text(ordered_json_value(R"({"b":1})"), 1) == "{\n \"b\": 1\n}");
  CHECK(json_text_replacing(ordered_json_value(text)) == text);
}

TEST_CASE("numbers that Python's json module writes and JSON does not have are null in records",
          "[core]") {
  const auto read = [](const char* text) { return json_text(json_value_of_record(text)); };
  CHECK(read(R"({"a": NaN, "b": [Infinity, -Infinity], "c": 1e400, "d": -1E+400, "e": 1e-400})")
        == R"({"a":null,"b":[null,null],"c":null,"d":null,"e":0.0})");
  CHECK(read(R"({"t": "NaN \" Infinity 1e400", "x": NaN})")
        == R"({"t":"NaN \" Infinity 1e400","x":null})");
  CHECK(read(R"({"a": 1})") == R"({"a":1})");
  CHECK(json_text(ordered_json_value_of_record(R"({"b": NaN, "a": 1})")) == R"({"b":null,"a":1})");
  for (const auto* broken :
       {"{\"a\": nan}", "{\"a\": NaN", "{\"a\": +Infinity}", "{\"a\": NaNs}", "{NaN: 1}"}) {
    INFO(broken);
    CHECK_THROWS_AS(json_value_of_record(broken), nlohmann::json::exception);
  }
}

TEST_CASE("invalid UTF-8 in JSON texts is refused or replaced", "[core]") {
  const nlohmann::json broken = "\xff\xc3\xa9";
  CHECK_THROWS_AS(json_text(broken), nlohmann::json::type_error);
  CHECK(json_text_replacing(broken) == "\"\xef\xbf\xbd\xc3\xa9\"");
  CHECK(json_text_replacing(broken, -1, json_characters::ascii) == R"("\ufffd\u00e9")");
}

TEST_CASE("an error about JSON is short and says where", "[core]") {
  const auto complaint_of = [](const std::string& text) {
    try {
      json_value(text);
    } catch (const nlohmann::json::exception& failure) {
      return json_complaint(failure);
    }
    return std::string();
  };
  CHECK(complaint_of("[1,]").starts_with("parse error at line 1, column 4: "));
  CHECK(complaint_of("1e999").starts_with("number overflow"));
  CHECK(complaint_of("[" + std::string(5000, 'x')).size() < 310);
}

TEST_CASE("a whole number in JSON fits 64 bits or is refused", "[core]") {
  const auto of = [](const char* text) { return whole_number_in(json_value(text)); };
  CHECK(of("0") == 0);
  CHECK(of("-9223372036854775808") == INT64_MIN);
  CHECK(of("9223372036854775807") == INT64_MAX);
  for (const auto* other : {"9223372036854775808",
                            "18446744073709551616",
                            "5025184467440737095516168",
                            "1e300",
                            "1.0",
                            "true",
                            "null",
                            "\"1\"",
                            "[1]"})
    CHECK_FALSE(of(other));
}

TEST_CASE("invalid JSON is refused or discarded", "[core]") {
  CHECK_THROWS_AS(json_value("{"), nlohmann::json::parse_error);
  CHECK_THROWS_AS(ordered_json_value("[1,]"), nlohmann::json::parse_error);
  CHECK_THROWS_AS(json_value("1e999"), nlohmann::json::out_of_range);
  CHECK(json_value_or_discarded("{").is_discarded());
  CHECK(json_value_or_discarded("{}").is_object());
}

TEST_CASE("a callback of the JSON reader filters each element and may throw", "[core]") {
  using event = nlohmann::json::parse_event_t;
  const auto keep
      = [](int, event at, nlohmann::json& found) { return at != event::value || found != 2; };
  CHECK(json_value("[1,2,3]", keep) == nlohmann::json({1, 3}));
  const auto refuse = [](int, event, nlohmann::json&) -> bool { throw std::runtime_error("no"); };
  CHECK_THROWS_AS(json_value("[1]", refuse), std::runtime_error);
}
