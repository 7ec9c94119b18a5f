#include "runtime/process/run_control.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/run_succession.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/stat.h>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr auto between_looks = std::chrono::milliseconds(200);
constexpr int most_failed_looks = 25;  // in a row: a folder may be partly removed for a while

/// A supervisor decides the end of a run, a standing node its own.
bool decides(const process_entry& x) {
  return x.role == "supervisor" || x.role == "standing node";
}

/// Offset of the last `lines` lines.
std::uintmax_t last_lines(const fs::path& file, std::size_t lines) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  constexpr std::streamoff piece = 65536;
  std::size_t ends = 0;
  for (std::streamoff end = in.tellg(); end > 0;) {
    const auto begin = std::max<std::streamoff>(end - piece, 0);
    std::string text(std::size_t(end - begin), '\0');
    in.seekg(begin);
    if (!in.read(text.data(), std::streamsize(text.size())))
      return 0;
    for (auto i = text.size(); i-- > 0;)
      if (text[i] == '\n' && ends++ == lines)
        return std::uintmax_t(begin) + i + 1;
    end = begin;
  }
  return 0;
}

void pause(const std::optional<running_process>& of, const cancel_token& stop) {
  stop.throw_if_cancelled();
  if (of)
    of->wait(between_looks);
  else
    ::poll(nullptr, 0, int(between_looks.count()));
  stop.throw_if_cancelled();
}

}  // namespace

const char* name_of(run_condition x) {
  switch (x) {
    case run_condition::runs:
      return "running";
    case run_condition::ended:
      return "ended";
    case run_condition::died:
      return "died";
    case run_condition::elsewhere:
      return "elsewhere";
  }
  return "?";
}

const seen_process* run_status::supervisor() const {
  const auto found = std::find_if(processes.begin(), processes.end(), [](const auto& x) {
    return decides(x.entry) && x.runs.value_or(false);
  });
  return found == processes.end() ? nullptr : &*found;
}

run_status status_of(const run_folder& folder,
                     const std::function<void(const std::string&)>& complain) {
  // Read in this order: a process records the end before it releases the folder.
  const bool held = folder.is_held();
  run_status out{.record = folder.record(), .processes = seen_processes(folder, complain)};
  const bool elsewhere = std::any_of(out.processes.begin(), out.processes.end(), [](const auto& x) {
    return decides(x.entry) && !x.runs;
  });
  const bool goes_on = held || out.supervisor() != nullptr || has_succession(folder);
  out.condition = out.record.ended ? run_condition::ended
                  : goes_on        ? run_condition::runs
                  : elsewhere      ? run_condition::elsewhere
                                   : run_condition::died;
  return out;
}

bool ask_to_end(const run_folder& folder, const run_status& status) {
  if (status.condition == run_condition::elsewhere)
    throw input_error(
        "cannot ask the run in '{}' to end: its supervisor is on another host; ask "
        "there",
        folder.path().string());
  const auto* const whom = status.supervisor();
  if (whom == nullptr)
    throw input_error("cannot ask the run in '{}' to end: it has no supervisor now; try again",
                      folder.path().string());
  const auto process = running_process::find(whom->entry.process);
  if (!process)
    return false;
  const auto file = folder.asked_to_end_file(whom->entry.process);
  const descriptor asked(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!asked && errno == EEXIST)
    return false;
  if (!asked)
    throw io_error("cannot write '{}': {}", file.string(), system_message(errno));
  process->signal(SIGTERM);
  return true;
}

bool say_end_of_died(const fs::path& folder,
                     const process_id& supervisor,
                     int exit_code,
                     const std::string& reason) {
  auto held = held_run_folder::of_died(folder);
  if (!held)
    return false;
  const auto all = seen_processes(*held, [](const std::string&) {});
  const bool is_its = std::any_of(all.begin(), all.end(), [&](const auto& x) {
    return decides(x.entry) && x.entry.process == supervisor;
  });
  if (is_its)
    held->end(exit_code, reason);
  return is_its;
}

void remove_remains_of_ended(const fs::path& folder) {
  try {
    const auto run = held_run_folder::of_ended(folder);
    if (!run)
      return;
    std::error_code ignored;
    for (const auto& one :
         {run->credentials(), run->order(), run->description(), run->rendezvous()})
      fs::remove_all(one, ignored);
    if (running_agent(*run))
      return;
    for (auto at = fs::directory_iterator(run->sockets(), ignored);
         !ignored && at != fs::directory_iterator();
         at.increment(ignored)) {
      std::error_code failure;
      fs::remove(at->path(), failure);
    }
  } catch (const error&) {  // it is gone
  }
}

log_follower::log_follower(const run_folder& folder, std::size_t lines)
    : logs_(folder.logs()), lines_(lines) {}

void log_follower::give(
    const std::function<void(const std::string& process, std::string_view line)>& take, bool all) {
  std::error_code failure;
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(logs_, failure))
    if (file.path().extension() == ".log")
      files.push_back(file.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const auto process = file.stem().string();
    const bool known = places_.contains(process);
    auto& here = places_[process];
    if (!known && !begun_)  // a log that appears later is shown from its beginning
      here.at = last_lines(file, lines_);
    std::ifstream in(file, std::ios::binary);
    in.seekg(std::streamoff(here.at));
    for (std::string line; std::getline(in, line);) {
      here.begun += line;
      here.at += line.size();
      if (in.eof())
        break;
      ++here.at;
      take(process, here.begun);
      here.begun.clear();
    }
    if (all && !here.begun.empty()) {
      take(process, here.begun);
      here.begun.clear();
    }
  }
  begun_ = true;
}

std::optional<run_end> wait_for_end(const run_folder& folder,
                                    const cancel_token& stop,
                                    const std::function<void(const run_status&)>& meanwhile) {
  run_status status;
  int failed = 0;
  for (;;) {
    try {
      // An unreadable file is read again: it may be in replacement.
      status = status_of(folder, [](const std::string&) {});
      failed = 0;
    } catch (const error&) {  // another process may be removing the folder
      if (status.record.ended)
        return status.record.ended;
      std::error_code unseen;
      if (!fs::exists(folder.path(), unseen) && !unseen)
        throw input_error(
            "cannot observe the run in '{}': its folder is gone before its end was seen; temporary "
            "folders are removed after their run, so give the run its own folder to keep its "
            "result",
            folder.path().string());
      if (++failed == most_failed_looks)
        throw;
      pause(std::nullopt, stop);
      continue;
    }
    meanwhile(status);
    const auto* const decider = status.supervisor();
    if (status.condition == run_condition::ended && decider == nullptr && !folder.is_held())
      return status.record.ended;
    if (status.condition == run_condition::died)
      return std::nullopt;
    pause(decider == nullptr ? std::nullopt : running_process::find(decider->entry.process), stop);
  }
}

}  // namespace troupe::runtime
