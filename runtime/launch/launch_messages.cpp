#include "runtime/launch/launch_messages.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::int64_t most_of_host = 65536;  ///< devices, or cores
const std::string answer_of_rank_0 = "the answer of rank 0";

std::vector<std::string> texts_in(const nlohmann::json& of,
                                  const char* key,
                                  const std::string& where) {
  std::vector<std::string> out;
  const auto& all = member(of, key, where);
  for (const auto& one : all)
    if (one.is_string())
      out.push_back(one.get<std::string>());
  if (!all.is_array() || out.size() != all.size())
    throw input_error("{}: '{}' is not a list of texts", where, key);
  return out;
}

}  // namespace

nlohmann::json json_of(const launch_member& x) {
  return {{"rank", x.rank},
          {"world", x.world},
          {"local_rank", x.local_rank ? nlohmann::json(*x.local_rank) : nlohmann::json()},
          {"host", x.host},
          {"machine", x.machine},
          {"pid", x.pid},
          {"build", x.build},
          {"command", x.command},
          {"devices", x.devices},
          {"cores", x.cores},
          {"domain", x.domain}};
}

launch_member launch_member_in(const std::string& body) {
  const std::string where = "a process of the launch";
  const auto x = parse_json(body, where, launch_message_limits);
  const auto whole = [&](const char* key, std::int64_t most = INT32_MAX) {
    return int(std::min(count_member(x, key, where), most));
  };
  launch_member out;
  out.rank = whole("rank");
  out.world = whole("world");
  if (!member(x, "local_rank", where).is_null())
    out.local_rank = whole("local_rank");
  out.host = shortened(string_member(x, "host", where), 253);
  out.machine = shortened(string_member(x, "machine", where), 64);
  out.pid = count_member(x, "pid", where);
  out.build = shortened(string_member(x, "build", where), 1000);
  out.command = texts_in(x, "command", where);
  out.devices = whole("devices", most_of_host);
  out.cores = whole("cores", most_of_host);
  out.domain = shortened(string_member(x, "domain", where), 253);
  return out;
}

nlohmann::json json_of(const launch_begin& x) {
  return {{"starts_node", x.starts_node}, {"node", x.node}};
}

launch_begin launch_begin_in(const std::string& body) {
  const auto x = parse_json(body, answer_of_rank_0, launch_message_limits);
  return {.starts_node = member(x, "starts_node", answer_of_rank_0) == true,
          .node = string_member(x, "node", answer_of_rank_0)};
}

nlohmann::json json_of(const launch_end& x) {
  return {{"exit_code", x.exit_code}, {"reason", x.reason}, {"first", x.first}};
}

launch_end launch_end_in(const std::string& body) {
  const auto x = parse_json(body, answer_of_rank_0, launch_message_limits);
  return {.exit_code = int(count_member(x, "exit_code", answer_of_rank_0) & 0xff),
          .reason = string_member(x, "reason", answer_of_rank_0),
          .first = member(x, "first", answer_of_rank_0) == true};
}

}  // namespace troupe::runtime
