#include "actors/command/followed_run.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/process_entry.hpp"

#include <string_view>
#include <utility>

namespace troupe::command {
namespace {

constexpr std::string_view decides = "supervisor";  // its log has the course of the run

void show_line(std::string_view line) {
  for (const auto& [word, level] : {std::pair("troupe: error: ", runtime::severity::error),
                                    std::pair("troupe: warning: ", runtime::severity::warning)})
    if (line.starts_with(word))
      return runtime::log_line(level, line.substr(std::string_view(word).size()));
  runtime::log_line(runtime::severity::info, line);
}

}  // namespace

followed_end follow_run(const std::filesystem::path& path,
                        const runtime::process_id& lost,
                        const front_requests& requests) {
  const auto folder = runtime::run_folder::open(path);
  runtime::log_follower logs(folder, 0);
  const runtime::cancel_token at_once;
  followed_end out{.last = lost};
  std::optional<runtime::process_id> asked;
  const auto show = [&](bool all) {
    logs.give(
        [](const std::string& process, std::string_view line) {
          if (process == decides)
            show_line(line);
        },
        all);
  };
  const auto look = [&](const runtime::run_status& now) {
    show(false);
    if (requests.to_end_at_once())
      at_once.cancel();
    const auto* const whom = now.supervisor();
    if (whom != nullptr)
      out.last = whom->entry.process;
    if (!requests.to_end() || whom == nullptr || asked == out.last)
      return;
    asked = out.last;
    runtime::ask_to_end(folder, now);
  };
  try {
    do
      out.end = runtime::wait_for_end(folder, at_once, look);
    while (!out.end && requests.is_awaited());
  } catch (const runtime::cancelled&) {
  }
  show(true);
  for (const auto& one : runtime::seen_processes(folder, [](const std::string&) {}))
    if (one.entry.role == decides)
      out.last = one.entry.process;  // even if it was never seen running
  return out;
}

}  // namespace troupe::command
