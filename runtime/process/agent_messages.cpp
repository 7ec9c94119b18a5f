#include "runtime/process/agent_messages.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/process/fields.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using nlohmann::json;

constexpr int most_signals = 64;
constexpr double longest_silence = 1e6;  // seconds

json message(const char* type, std::uint64_t request) {
  return {{"version", agent_protocol}, {"type", type}, {"request", request}};
}

json told(const char* type) {
  return {{"version", agent_protocol}, {"type", type}};
}

json named(json out, const std::string& name, incarnation which) {
  out["name"] = name;
  out["incarnation"] = which;
  return out;
}

json texts_or_bytes(const std::vector<std::string>& all) {
  auto out = json::array();
  for (const auto& x : all)
    out.push_back(text_or_bytes(x));
  return out;
}

template <class Request>
void put_program(json& out, const Request& x) {
  out["command"] = texts_or_bytes(x.command);
  out["environment"] = texts_or_bytes(x.environment);
  out["output"] = text_or_bytes(x.output.string());
}

json json_of(const start_process& x) {
  auto out = named(message("start", x.request), x.name, x.which);
  put_program(out, x);
  return out;
}

json json_of(const adopt_process& x) {
  auto out = named(message("adopt", x.request), x.name, x.which);
  put(out, x.process);
  return out;
}

json json_of(const succeed_owner& x) {
  auto out = message("succeed", x.request);
  put_program(out, x);
  put(out, x.process);
  out["silence"] = x.silence;
  return out;
}

json json_of(const owner_still_there& x) {
  return message("still_there", x.request);
}

json json_of(const signal_process& x) {
  auto out = named(message("signal", x.request), x.name, x.which);
  out["signal"] = x.signal;
  return out;
}

json json_of(const list_processes& x) {
  return message("list", x.request);
}

json json_of(const end_agent& x) {
  return message("end", x.request);
}

json json_of(const process_started& x) {
  auto out = named(message("started", x.request), x.name, x.which);
  put(out, x.process);
  return out;
}

json json_of(const process_signalled& x) {
  return message("signalled", x.request);
}

json json_of(const known_process& x) {
  auto out = named(json::object(), x.name, x.which);
  put(out, x.process);
  if (x.ended)
    out["how"] = json_of(*x.ended);
  return out;
}

json json_of(const processes_listed& x) {
  auto out = message("listed", x.request);
  out["processes"] = json::array();
  for (const auto& one : x.processes)
    out["processes"].push_back(json_of(one));
  return out;
}

json json_of(const succession_agreed& x) {
  return message("agreed", x.request);
}

json json_of(const request_refused& x) {
  auto out = message("refused", x.request);
  out["why"] = x.why;
  return out;
}

json json_of(const process_died& x) {
  auto out = named(told("died"), x.name, x.which);
  put(out, x.process);
  out["how"] = json_of(x.how);
  return out;
}

json json_of(const agent_ended& x) {
  auto out = told("ended");
  out["why"] = x.why;
  return out;
}

/// A parsed message of this version, and the members that many messages have.
struct reading {
  json of;
  std::string type, what = "a message to or of a host agent";

  explicit reading(std::string_view text) {
    of = read_object(text, what);
    const auto version = whole_field(of, "version", what, 0);
    if (version != agent_protocol)
      throw input_error(
          "{}: it has version {}, but this program speaks version {}; run one program everywhere",
          what,
          version,
          agent_protocol);
    type = text_field(of, "type", what);
    if (is_process_name(type))  // otherwise the text may be arbitrary and long
      what += " ('" + type + "')";
  }

  std::uint64_t request() const { return std::uint64_t(whole_field(of, "request", what, 0)); }
  std::string name(const json& in) const {
    auto out = text_field(in, "name", what);
    if (!is_process_name(out))
      throw input_error(
          "{}: 'name' must be 1 to 64 letters, digits, '-', '_' and '.', and must not begin with "
          "'.'",
          what);
    return out;
  }
  incarnation which(const json& in) const {
    return incarnation(whole_field(in, "incarnation", what, 1));
  }
  process_end how(const json& in) const {
    return read_process_end(object_field(in, "how", what), what);
  }
};

template <class Request>
void read_program(const reading& x, Request& out) {
  out.command = words_field(x.of, "command", x.what);
  out.environment = words_field(x.of, "environment", x.what);
  out.output = word_field(x.of, "output", x.what);
  const auto has_zero = [](const std::string& word) { return word.find('\0') != word.npos; };
  const auto sets_nothing = [](const std::string& word) {
    const auto end = word.find('=');
    return end == 0 || end == word.npos;
  };
  if (out.command.empty() || out.command[0].empty())
    throw input_error("{}: 'command' names no program", x.what);
  if (std::any_of(out.command.begin(), out.command.end(), has_zero)
      || std::any_of(out.environment.begin(), out.environment.end(), has_zero)
      || has_zero(out.output.string()))
    throw input_error("{}: a text has a zero byte; programs cannot get one", x.what);
  if (std::any_of(out.environment.begin(), out.environment.end(), sets_nothing))
    throw input_error("{}: 'environment' has to have NAME=VALUE", x.what);
}

start_process read_start(const reading& x) {
  start_process out;
  out.request = x.request();
  out.name = x.name(x.of);
  out.which = x.which(x.of);
  read_program(x, out);
  return out;
}

succeed_owner read_succeed(const reading& x) {
  succeed_owner out;
  out.request = x.request();
  read_program(x, out);
  out.process = process_field(x.of, x.what);
  out.silence = number_field(x.of, "silence", x.what, 0, longest_silence);
  return out;
}

known_process read_known(const reading& x, const json& in) {
  if (!in.is_object())
    throw input_error("{}: 'processes' has to be a list of objects", x.what);
  known_process out{.name = x.name(in), .which = x.which(in), .process = process_field(in, x.what)};
  if (in.contains("how"))
    out.ended = x.how(in);
  return out;
}

}  // namespace

bool is_process_name(std::string_view name) {
  constexpr std::size_t longest = 64;
  return !name.empty() && name.size() <= longest && name[0] != '.'
         && name.find_first_not_of(
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
                == name.npos;
}

std::uint64_t number_of(const agent_request& x) {
  return std::visit([](const auto& one) { return one.request; }, x);
}

std::string text_of(const agent_request& x) {
  return text_of_json(std::visit([](const auto& one) { return json_of(one); }, x),
                      "a request to a host agent");
}

std::string text_of(const agent_answer& x) {
  return text_of_json(std::visit([](const auto& one) { return json_of(one); }, x),
                      "an answer of a host agent");
}

agent_request read_request(std::string_view text) {
  const reading x(text);
  if (x.type == "start")
    return read_start(x);
  if (x.type == "signal")
    return signal_process{.request = x.request(),
                          .name = x.name(x.of),
                          .which = x.which(x.of),
                          .signal = int(whole_field(x.of, "signal", x.what, 1, most_signals))};
  if (x.type == "list")
    return list_processes{x.request()};
  if (x.type == "adopt")
    return adopt_process{.request = x.request(),
                         .name = x.name(x.of),
                         .which = x.which(x.of),
                         .process = process_field(x.of, x.what)};
  if (x.type == "succeed")
    return read_succeed(x);
  if (x.type == "still_there")
    return owner_still_there{x.request()};
  if (x.type == "end")
    return end_agent{x.request()};
  throw input_error("{}: unknown request", x.what);
}

agent_answer read_answer(std::string_view text) {
  const reading x(text);
  if (x.type == "started")
    return process_started{.request = x.request(),
                           .name = x.name(x.of),
                           .which = x.which(x.of),
                           .process = process_field(x.of, x.what)};
  if (x.type == "signalled")
    return process_signalled{x.request()};
  if (x.type == "listed") {
    processes_listed out{.request = x.request(), .processes = {}};
    for (const auto& one : list_field(x.of, "processes", x.what))
      out.processes.push_back(read_known(x, one));
    return out;
  }
  if (x.type == "agreed")
    return succession_agreed{x.request()};
  if (x.type == "refused")
    return request_refused{.request = x.request(), .why = text_field(x.of, "why", x.what)};
  if (x.type == "died")
    return process_died{.name = x.name(x.of),
                        .which = x.which(x.of),
                        .process = process_field(x.of, x.what),
                        .how = x.how(x.of)};
  if (x.type == "ended")
    return agent_ended{text_field(x.of, "why", x.what)};
  throw input_error("{}: unknown answer", x.what);
}

}  // namespace troupe::runtime
