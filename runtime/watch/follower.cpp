#include "runtime/watch/follower.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/terminal_text.hpp"
#include "runtime/process/run_control.hpp"
#include "runtime/watch/record_text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr std::size_t longest_answer = 16 << 20;  // bytes

std::uint64_t count_member(const nlohmann::json& in, const char* name) {
  const auto found = in.is_object() ? in.find(name) : in.end();
  return found != in.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

/// The message of an error answer, or the beginning of its body.
std::string message_of(const http::response& x) {
  constexpr std::size_t most = 200;
  const auto body = shallow_value(x.body);
  if (body.is_object() && body.contains("error"))
    if (auto text = text_member(body["error"], "message"); !text.empty())
      return without_control(text);
  auto text = x.body.substr(0, std::min(most, x.body.find('\n')));
  return text.empty() ? "no text" : "'" + without_control(text) + "'";
}

follow_end end_of_record(const nlohmann::json& x) {
  const auto code = x.find("exit_code");
  const bool has_code = code != x.end() && code->is_number_integer();
  return {
      has_code ? follow_outcome::ended : follow_outcome::died,
      {.exit_code = has_code ? code->get<int>() : 0, .reason = text_member(x, "reason"), .at = {}}};
}

constexpr const char* another_answers = "another process of the run, or another run, answers now";

}  // namespace

std::string text_of(const follow_end& x) {
  switch (x.how) {
    case follow_outcome::stopped:
      return "stopped watching the run";
    case follow_outcome::died:
      return "the run died: "
             + (x.end.reason.empty() ? "none of its processes runs, and no end was recorded"
                                     : without_control(x.end.reason));
    case follow_outcome::gone:
      return "the folder of the run is gone; temporary folders are removed when their run ends";
    case follow_outcome::ended:
      break;
  }
  return fmt::format("the run has ended with exit code {}{}{}",
                     x.end.exit_code,
                     x.end.reason.empty() ? "" : ": ",
                     without_control(x.end.reason));
}

follower::follower(followed_run of, run_listener& to, pause wait, const follower_limits& limits)
    : of_(std::move(of)), to_(to), wait_(std::move(wait)), limits_(limits) {}

std::optional<follow_end> follower::read() {
  for (;;) {
    std::string why;
    try {
      connect();
      return end_;
    } catch (const cancelled&) {
      return follow_end{};
    } catch (const io_error& failure) {
      why = failure.what();
    }
    if (auto end = look_again(why))
      return end;
  }
}

follow_end follower::follow() {
  for (;;) {
    if (!client_)
      if (auto end = read())
        return *end;
    if (end_)
      return *end_;
    if (auto end = stream())
      return *end;
  }
}

void follower::connect() {
  client_.reset();
  try {
    // A new client opens the folder of the socket again, because each run creates a new one.
    client_.emplace(of_.at);
    const auto run = ask(*client_, "/api/run");
    const auto read = shallow_value(run);
    const auto id = text_member(read, "id");
    if (id.empty() || (read.contains("version") && count_member(read, "version") != hub_version))
      throw input_error(
          "{} does not answer /api/run as this version of Troupe does: it is another service, or a "
          "hub of another version ({}); use the `troupe` that started the run",
          place(),
          read.is_object() && !text_member(read, "program").empty()
              ? without_control(text_member(read, "program"))
              : message_of({.body = run}));
    const auto epoch = count_member(read, "epoch");
    if (id != id_ || !position_ || epoch != position_->epoch)
      position_ = begin(run, id, epoch);
    id_ = id;
  } catch (...) {
    client_.reset();
    throw;
  }
  heard_ = steady::now();
  is_silent_ = false;
  to_.connection("");
}

/// Reads the state. `id`, `epoch`: those in `run`.
viewer_position follower::begin(const std::string& run,
                                const std::string& id,
                                std::uint64_t epoch) {
  const auto state = shallow_value(ask(*client_, "/api/state"));
  const auto next = read_viewer_position(text_member(state, "next"));
  if (!next || text_member(state, "id").empty() || !state.contains("records")
      || !state["records"].is_array())
    throw input_error(
        "the answer of {} to /api/state lacks 'id', 'next' or 'records': it is a hub of another "
        "version of Troupe; use the `troupe` that started the run",
        place());
  if (text_member(state, "id") != id || count_member(state, "epoch") != epoch
      || next->epoch != epoch)
    throw io_error("{}", another_answers);
  to_.begin(run);
  for (const auto& record : state["records"]) {
    to_.take(json_text_replacing(record));
    if (text_member(record, "kind") == "end")
      end_ = end_of_record(record);
  }
  return *next;
}

std::string follower::place() const {
  return of_.at.folder.empty() ? of_.at.url
                               : fmt::format("'{}'", (of_.at.folder / of_.at.socket).string());
}

/// FOLLOW-1. A new supervisor process has a later epoch, and earlier epochs never answer again. So
/// if /api/run still has the known epoch, that process answered all requests before.
void follower::require_same_process() {
  http::client by(of_.at);
  const auto now = shallow_value(ask(by, "/api/run"));
  if (text_member(now, "id") != id_ || count_member(now, "epoch") != position_->epoch)
    throw io_error("{}", another_answers);
}

std::string follower::ask(http::client& by, const std::string& target) {
  // Uses `follow`, so that a viewer can stop while the process hangs.
  std::string body;
  bool stopped = false, silent = false;
  const auto since = steady::now();
  auto answer = by.follow(
      target,
      [&](std::string_view part) {
        body += part;
        return body.size() <= longest_answer;
      },
      [&] {
        stopped = !wait_(0ms);
        silent = steady::now() - since > limits_.lost;
        return !stopped && !silent;
      });
  if (stopped)
    throw cancelled();
  if (silent)  // each further attempt would take as long
    failed_ = std::max(failed_, limits_.first_attempts - 1);
  if (silent || body.size() > longest_answer)
    throw io_error("no complete answer from {} to {}: {} bytes received within {} s",
                   place(),
                   target,
                   body.size(),
                   limits_.lost.count());
  require_hub(answer, target);
  return body;
}

void follower::require_hub(const http::response& x, const std::string& target) const {
  if (x.status == 200)
    return;
  if (x.status == 401 || x.status == 403)
    throw input_error(
        "{} refuses to show the run ({}): {}; give a copy of 'read.token' in the run's folder as "
        "the token file",
        place(),
        x.status,
        message_of(x));
  if (x.status >= 500)  // such as a proxy that has lost the run for a while
    throw io_error("{} answers {} with status {}: {}", place(), target, x.status, message_of(x));
  throw input_error(
      "{} answers {} with status {}: {}; it is another service, or a hub of another version of "
      "Troupe: compare the port with the line that the run printed at its start",
      place(),
      target,
      x.status,
      message_of(x));
}

bool follower::give(std::string_view line) {
  heard_ = steady::now();
  failed_ = 0;
  if (std::exchange(is_silent_, false))
    to_.connection("");
  if (line.empty())
    return wait_(0ms);
  const auto x = shallow_value(line);
  const auto kind = text_member(x, "kind");
  // FOLLOW-2: records are numbered consecutively, including the dropped ones.
  position_->next += kind == "dropped" ? count_member(x, "count") : 1;
  to_.take(line);
  if (kind == "end")
    end_ = end_of_record(x);
  return !end_ && wait_(0ms);
}

/// False if the connection has to be given up.
bool follower::note_silence() {
  const auto silent = steady::now() - heard_;
  if (silent >= limits_.silence && !std::exchange(is_silent_, true))
    to_.connection("no data from the run: its supervisor process hangs, or the network is down");
  return silent < limits_.lost;
}

std::optional<follow_end> follower::stream() {
  http::line_splitter lines;
  bool stopped = false, silent = false, is_same = false;
  std::string why = "the connection was closed";
  const auto take = [&](std::string_view part) {
    if (!std::exchange(is_same, true))
      require_same_process();
    const bool more = lines.feed(part, [&](std::string_view line) { return give(line); });
    stopped = !more && !end_;
    return more;
  };
  const auto idle = [&] {
    stopped = stopped || !wait_(0ms);
    silent = !note_silence();
    return !stopped && !silent;
  };
  const auto target = "/api/lines?after=" + text_of(*position_);
  try {
    const auto answer = client_->follow(target, take, idle);
    if (silent)
      why = "no data for too long";
    else if (!stopped)
      require_hub(answer, target);
  } catch (const cancelled&) {
    stopped = true;
  } catch (const io_error& failure) {
    why = failure.what();
  }
  client_.reset();
  if (end_)
    return end_;
  if (stopped)
    return follow_end{};
  return look_again(why);
}

/// After a failed attempt: returns an end if the run is over; else waits before the next one.
std::optional<follow_end> follower::look_again(const std::string& why) {
  const int failed = ++failed_;
  if (auto end = end_in_folder())
    return end;
  const bool first = id_.empty();
  if (first && failed >= limits_.first_attempts && of_.folder)
    throw io_error(
        "cannot reach the hub of the run in '{}': {}; the run is still starting, hangs, or has no "
        "hub; `troupe status '{}'` shows it without one",
        of_.folder->path().string(),
        why,
        of_.folder->path().string());
  if (first && failed >= limits_.first_attempts)
    throw io_error(
        "cannot reach a run at {}: {}; compare host and port with the line that the run printed at "
        "its start, {}, and check that the run has not ended",
        place(),
        why,
        of_.at.url.starts_with("https://") ? "name its certificate unless the system trusts it"
                                           : "use https:// if that line has it");
  if (!of_.folder && failed >= limits_.attempts)
    throw io_error(
        "lost the run at {}: {}; it has ended, or its supervisor process has a new address",
        place(),
        why);
  to_.connection(fmt::format("{}: {}",
                             first ? "connecting to the run" : "lost the run, reconnecting",
                             without_control(why)));
  const auto factor = std::int64_t(1) << std::min(failed - 1, 10);
  if (!wait_(std::min(limits_.longest, limits_.shortest * factor)))
    return follow_end{};
  return {};
}

std::optional<follow_end> follower::end_in_folder() const {
  if (!of_.folder)
    return {};
  run_status now;
  try {
    now = status_of(*of_.folder, [](const std::string&) {});
  } catch (const error&) {
    // Either a new run is replacing the files of the folder, or the folder is gone.
    std::error_code unseen;
    if (std::filesystem::exists(of_.folder->path(), unseen) || unseen)
      return {};
    return follow_end{follow_outcome::gone};
  }
  switch (now.condition) {
    case run_condition::runs:
      return {};
    case run_condition::ended:
      return follow_end{follow_outcome::ended, *now.record.ended};
    case run_condition::died:
      return follow_end{follow_outcome::died};
    case run_condition::elsewhere:
      break;
  }
  throw input_error(
      "the supervisor of the run in '{}' is on another host: watch it there, or give its HOST:PORT",
      of_.folder->path().string());
}

void shared_view::begin(std::string_view run) {
  const std::lock_guard lock(mutex_);
  view_ = {};
  view_.take_run(run);
  ++changes_;
}

void shared_view::take(std::string_view record) {
  const std::lock_guard lock(mutex_);
  view_.take(record);
  ++changes_;
}

void shared_view::connection(const std::string& state) {
  const std::lock_guard lock(mutex_);
  connection_ = state;
  ++changes_;
}

void shared_view::look(
    const std::function<void(const run_view&, const std::string& connection)>& at) const {
  const std::lock_guard lock(mutex_);
  at(view_, connection_);
}

std::uint64_t shared_view::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

}  // namespace troupe::runtime
