#include "runtime/core/json_reader.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"

#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// Checks a document before it is built. nlohmann's parser keeps the last of two equal keys, so two
/// readers of a file could see different values. Its callback is quadratic in the number of an
/// object's members.
class json_watcher : public nlohmann::json_sax<nlohmann::json> {
 public:
  json_watcher(const std::string& where, const json_limits& most) : where_(where), most_(most) {}

  bool null() override { return count(0); }
  bool boolean(bool) override { return count(0); }
  bool number_integer(number_integer_t) override { return count(0); }
  bool number_unsigned(number_unsigned_t) override { return count(0); }
  bool number_float(number_float_t, const string_t&) override { return count(0); }
  bool string(string_t& text) override { return count(text.size()); }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    enter();
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    enter();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1)
      counts_ = most_.long_member != nullptr && name != most_.long_member;
    count(name.size());
    if (!keys_.back().insert(name).second)
      throw input_error(
          "{} has the key {} twice; remove one of them", where_, shown(nlohmann::json(name)));
    return true;
  }
  bool parse_error(std::size_t at,
                   const std::string&,
                   const nlohmann::json::exception& failure) override {
    constexpr int number_out_of_range = 406;
    if (failure.id == number_out_of_range)
      throw input_error("{} has a number that is out of range", where_);
    throw input_error(
        "{} is not JSON: error at byte {}; it is damaged, or has the wrong name", where_, at);
  }

 private:
  /// Counts a token of this many characters and its separators.
  bool count(std::size_t characters) {
    constexpr std::size_t around = 2;
    if (!counts_)
      return true;
    others_ += characters + around;
    if (others_ > most_.other_bytes)
      throw input_error(
          "{} has more than {} bytes beside '{}'; it is damaged or was not written by a program of "
          "this kind",
          where_,
          most_.other_bytes,
          most_.long_member);
    return true;
  }

  void enter() {
    count(0);
    if (depth_ >= most_.depth)
      throw input_error(
          "{} nests deeper than {} levels; it is damaged or was not written by a "
          "program of this kind",
          where_,
          most_.depth);
    ++depth_;
  }

  const std::string& where_;
  const json_limits& most_;
  int depth_ = 0;
  bool counts_ = false;                      // the current value is outside the long member
  std::size_t others_ = 0;                   // bytes outside the long member
  std::vector<std::set<std::string>> keys_;  // by open object
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, json_limits most) {
  if (text.size() > most.bytes)
    throw input_error(
        "{} has {} bytes of JSON; at most {} are accepted", where, text.size(), most.bytes);
  json_watcher watcher(where, most);
  nlohmann::json::sax_parse(text, &watcher);
  return json_value(text);
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t longest = 80;
  if (value.is_structured())
    return value.is_array() ? "a list" : "an object";
  auto text = json_text_replacing(value, -1, json_characters::ascii);
  if (text.size() > longest)
    text = text.substr(0, longest) + "...";
  return text;
}

const nlohmann::json& member(const nlohmann::json& object,
                             const char* key,
                             const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end())
    throw input_error("{}: '{}' is missing", where, key);
  return *found;
}

std::string string_member(const nlohmann::json& object, const char* key, const std::string& where) {
  const auto& found = member(object, key, where);
  if (!found.is_string())
    throw input_error("{}: '{}' should be a text, but is {}", where, key, shown(found));
  return found.get<std::string>();
}

std::int64_t count_member(const nlohmann::json& object, const char* key, const std::string& where) {
  const auto& found = member(object, key, where);
  if (!found.is_number_unsigned()
      || found.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
    throw input_error(
        "{}: '{}' should be a whole number from 0, but is {}", where, key, shown(found));
  return found.get<std::int64_t>();
}

const nlohmann::json& object_member(const nlohmann::json& object,
                                    const char* key,
                                    const std::string& where) {
  const auto& found = member(object, key, where);
  if (!found.is_object())
    throw input_error("{}: '{}' should be an object, but is {}", where, key, shown(found));
  return found;
}

}  // namespace troupe::runtime
