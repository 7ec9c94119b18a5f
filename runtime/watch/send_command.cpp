#include "runtime/watch/send_command.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

/// The text in {"message": ...} or {"error": {"message": ...}}; empty for another body.
std::string sentence_in(const std::string& body) {
  constexpr int deepest = 8;
  const auto all = json_depth(body) <= deepest ? json_value_or_discarded(body) : nlohmann::json();
  if (!all.is_object())
    return "";
  const auto& from = all.contains("error") ? all["error"] : all;
  const bool has_one = from.is_object() && from.contains("message") && from["message"].is_string();
  return has_one ? from["message"].get<std::string>() : "";
}

}  // namespace

std::string control_token_of(const followed_run& run) {
  if (!run.folder)
    return "";
  const auto text = read_text(run.folder->control_token());
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

std::string send_command(const http::service_address& to,
                         const std::string& command,
                         const std::function<bool()>& idle) {
  constexpr int done = 200;
  const std::function<bool()> waits = [] { return true; };
  const auto answer
      = http::client(to).post("/api/command", command, "application/json", idle ? idle : waits);
  auto sentence = sentence_in(answer.body);
  if (sentence.empty())
    throw input_error(
        "cannot send {} to the run: the answer, with status {}, does not come from a run's hub; "
        "check the address",
        command,
        answer.status);
  if (answer.status != done)
    throw input_error("{}", sentence);
  return sentence;
}

}  // namespace troupe::runtime
