#include "runtime/process/front_messages.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/process/fields.hpp"

namespace troupe::runtime {
namespace {

using nlohmann::json;

constexpr int most_columns = 1 << 20, highest_exit_code = 255;

json json_of(const end_asked& x) {
  return {{"type", "end"}, {"why", x.why}};
}
json json_of(const terminal_resized& x) {
  return {{"type", "terminal"}, {"columns", x.columns}};
}
json json_of(const line_told& x) {
  return {{"type", "line"}, {"level", int(x.level)}, {"text", x.text.substr(0, longest_told_line)}};
}
json json_of(const status_line_told& x) {
  return {{"type", "status_line"}, {"text", x.text.substr(0, longest_told_line)}};
}
json json_of(const still_there&) {
  return {{"type", "still_there"}};
}
json json_of(const end_told& x) {
  return {{"type", "ended"},
          {"exit_code", x.exit_code},
          {"complaint", int(x.kind)},
          {"text", x.text.substr(0, longest_told_line)}};
}

template <class Message>
std::string text(const Message& x) {
  return json_text_replacing(std::visit([](const auto& one) { return json_of(one); }, x));
}

}  // namespace

std::string text_of(const front_request& x) {
  return text(x);
}

std::string text_of(const supervisor_told& x) {
  return text(x);
}

front_request read_front_request(std::string_view text) {
  const std::string what = "a request of a run's front";
  const auto x = read_object(text, what);
  const auto type = text_field(x, "type", what);
  if (type == "end")
    return end_asked{text_field(x, "why", what)};
  if (type == "terminal")
    return terminal_resized{int(whole_field(x, "columns", what, 0, most_columns))};
  throw input_error("{}: unknown request '{}'", what, type);
}

supervisor_told read_supervisor_told(std::string_view text) {
  const std::string what = "a message of the supervisor's process";
  const auto x = read_object(text, what);
  const auto type = text_field(x, "type", what);
  if (type == "line")
    return line_told{severity(whole_field(x, "level", what, 0, int(severity::error))),
                     text_field(x, "text", what)};
  if (type == "status_line")
    return status_line_told{text_field(x, "text", what)};
  if (type == "still_there")
    return still_there{};
  if (type == "ended")
    return end_told{.exit_code = int(whole_field(x, "exit_code", what, 0, highest_exit_code)),
                    .kind = complaint(whole_field(x, "complaint", what, 0, int(complaint::fault))),
                    .text = text_field(x, "text", what)};
  throw input_error("{}: unknown message '{}'", what, type);
}

}  // namespace troupe::runtime
