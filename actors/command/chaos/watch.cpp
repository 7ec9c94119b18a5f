#include "actors/command/chaos/watch.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/host_parts.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/state/ledger_record.hpp"

#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <utility>
#include <variant>

namespace troupe::command::chaos {

std::uint64_t now_ns() {
  return std::uint64_t(std::chrono::steady_clock::now().time_since_epoch()
                       / std::chrono::nanoseconds(1));
}

void ledger_watch::look() {
  std::error_code none;
  const auto size = std::filesystem::file_size(file_, none);
  if (none || size == size_)
    return;
  size_ = size;
  if (size < at_) {  // the file was rewritten; checks of the ledger find missing records
    at_ = newest_ = commits_ = 0;
    recoveries_.clear();
    moves_.clear();
    successors_.clear();
  }
  std::ifstream in(file_, std::ios::binary);
  in.seekg(std::streamoff(at_));
  std::string more(std::size_t(size - at_), '\0');
  in.read(more.data(), std::streamsize(more.size()));
  more.resize(std::size_t(in.gcount()));
  // An incomplete line is read again later: a successor of the supervisor's process may remove it.
  std::size_t at = 0;
  for (std::size_t end; (end = more.find('\n', at)) != std::string::npos; at = end + 1)
    take(std::string_view(more).substr(at, end - at));
  at_ += at;
}

void ledger_watch::take(std::string_view line) {
  std::optional<runtime::ledger_record> read;
  try {
    read = runtime::read_ledger_record(line, file_.string());
  } catch (const runtime::error&) {
    return;
  }
  if (const auto* const step = std::get_if<runtime::ledger::committed>(&*read)) {
    newest_ = step->at.iteration;
    newest_ns_ = now_ns();
    ++commits_;
    if (!first_ns_)
      first_ns_ = newest_ns_;
    for (auto* const all : {&recoveries_, &moves_})
      if (!all->empty() && !all->back().first_new) {
        all->back().first_new = newest_;
        all->back().first_new_ns = newest_ns_;
      }
  } else if (std::holds_alternative<runtime::ledger::replayed>(*read)) {
    if (!newest_of_->empty())
      ++newest_of_->back().replayed;
  } else if (const auto* const told = std::get_if<runtime::ledger::told>(&*read)) {
    if (const auto* const event = std::get_if<runtime::run_event>(&told->fact)) {
      if (event->kind == "replaced" || event->kind == "given up")
        successors_.push_back({*event, now_ns()});
      const bool moves = event->kind == "move";
      if (!moves && event->kind != "restart")
        return;
      newest_of_ = moves ? &moves_ : &recoveries_;
      newest_of_->push_back({.event = *event, .seen_ns = now_ns()});
    }
  }
}

standing_processes standing(const runtime::run_folder& folder,
                            const runtime::process_id& front,
                            const std::vector<std::filesystem::path>& hosts) {
  standing_processes out;
  for (const auto& one : runtime::seen_processes(folder, [](const std::string&) {}))
    if (one.runs.value_or(false))
      out.emplace(one.entry.name, one.entry.process);
  if (runtime::is_running(front))
    out.emplace("front", front);
  std::map<std::string, std::uint64_t> newest;  // after a move the old process may end late
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (const auto& part : runtime::parts_of_host(hosts[i])) {
      const bool is_place = part.name.starts_with("node-");
      const auto name = is_place ? part.name : fmt::format("{}-host-{}", part.name, i + 1);
      if (newest.contains(name) && newest[name] > part.incarnation)
        continue;
      newest[name] = part.incarnation;
      out.insert_or_assign(name, part.process);
    }
  return out;
}

std::size_t times_said(const std::vector<std::filesystem::path>& files,
                       std::span<const std::string_view> words) {
  std::size_t out = 0;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    for (std::string line; std::getline(in, line);)
      for (const auto word : words)
        out += line.find(word) != std::string::npos ? 1 : 0;
  }
  return out;
}

standing_processes last_seen(const runtime::run_folder& folder) {
  standing_processes out;
  for (const auto& one : runtime::seen_processes(folder, [](const std::string&) {}))
    out.emplace(one.entry.name, one.entry.process);
  return out;
}

}  // namespace troupe::command::chaos
