#include "runtime/serving/tool_calls.hpp"

#include "runtime/core/json_text.hpp"

namespace troupe::runtime::serving {
namespace {

constexpr std::string_view begin = begin_of_tool_call, end = "</tool_call>";

}  // namespace

text_with_calls tool_calls_in(const std::string& text, const std::string& id) {
  const text_with_calls none{text, json::array()};
  text_with_calls out{"", json::array()};
  auto rest = std::string_view(text);
  auto at = rest.find(begin);
  if (at == std::string_view::npos)
    return none;
  out.text = rest.substr(0, at);
  out.text.erase(out.text.find_last_not_of(" \t\r\n") + 1);
  for (; at != std::string_view::npos; at = rest.find(begin)) {
    rest.remove_prefix(at + begin.size());
    const auto size = std::min(rest.find(end), rest.size());
    json call;
    try {
      call = parsed_body(rest.substr(0, size));
    } catch (const refusal&) {
      return none;
    }
    if (!call.contains("name") || !call["name"].is_string())
      return none;
    const auto arguments = call.contains("arguments") ? call["arguments"] : json::object();
    out.calls.push_back(
        {{"id", fmt::format("call_{}_{}", id, out.calls.size())},
         {"type", "function"},
         {"function",
          {{"name", call["name"]},
           {"arguments",
            arguments.is_string() ? arguments.get<std::string>() : json_text(arguments)}}}});
    rest.remove_prefix(size);
  }
  return out;
}

}  // namespace troupe::runtime::serving
