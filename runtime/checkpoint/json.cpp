#include "runtime/checkpoint/json.hpp"

#include "runtime/core/error.hpp"

#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// Watches a document being parsed. The parser itself keeps the last of two equal keys, so that two
/// readers of one file could see different values.
class json_watcher {
 public:
  json_watcher(const std::string& where, int most_depth) : where_(where), most_depth_(most_depth) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using event_t = nlohmann::json::parse_event_t;
    if (event == event_t::object_start || event == event_t::array_start) {
      if (depth >= most_depth_)
        throw input_error(
            "{} nests deeper than {} levels; it is damaged or was not written by a "
            "program of this kind",
            where_,
            most_depth_);
      if (event == event_t::object_start)
        keys_.emplace_back();
    } else if (event == event_t::object_end) {
      keys_.pop_back();
    } else if (event == event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw input_error("{} has the key {} twice; remove one of them", where_, shown(parsed));
    }
    return true;
  }

 private:
  const std::string& where_;
  int most_depth_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, json_limits most) {
  if (text.size() > most.bytes)
    throw input_error(
        "{} has {} bytes of JSON; at most {} are accepted", where, text.size(), most.bytes);
  json_watcher watcher(where, most.depth);
  try {
    return nlohmann::json::parse(
        text, [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
          return watcher(depth, event, parsed);
        });
  } catch (const nlohmann::json::parse_error& failure) {
    throw input_error("{} is not JSON from byte {} on; it is damaged or not what its name says",
                      where,
                      failure.byte);
  } catch (const nlohmann::json::exception&) {
    throw input_error("{} has a number that no computer can hold", where);
  }
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t longest = 80;
  if (value.is_structured())
    return value.is_array() ? "a list" : "an object";
  auto text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
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
