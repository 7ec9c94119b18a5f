#include "actors/command/chaos/started_run.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/host_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

namespace troupe::command::chaos {
namespace {

namespace fs = std::filesystem;

constexpr auto glance = std::chrono::milliseconds(2);
constexpr const char* most_restarts = "1000000";  // unlimited: chaos causes them

std::string new_mark() {
  return fmt::format("TROUPE_CHAOS={}.{}", ::getpid(), now_ns());
}

bool has(const std::vector<std::string>& words, const std::string& flag) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& x) {
    return x == flag || x.starts_with(flag + "=");
  });
}

runtime::child_program program_of(const chaos_job& job,
                                  const fs::path& folder,
                                  const std::string& mark,
                                  const std::vector<std::string>& plants) {
  fs::create_directories(folder / "tmp");
  runtime::child_program out{.command = job.command,
                             .environment = {mark, "TMPDIR=" + (folder / "tmp").string()},
                             .output = folder / "out.txt"};
  auto& words = out.command;
  words.insert(words.end(),
               {"--run",
                (folder / "run").string(),
                "--save",
                (folder / "save").string(),
                "--log-file",
                (folder / "log.jsonl").string()});
  if (!has(words, "--max-restarts"))
    words.insert(words.end(), {"--max-restarts", most_restarts});
  if (!plants.empty()) {
    words.emplace_back("--plant-death");
    words.insert(words.end(), plants.begin(), plants.end());
  }
  return out;
}

/// Resources of the run and of processes that standing nodes start for it. All of these are killed
/// at the end, so nodes that serve another run are refused.
runtime::footprint footprint_of(const chaos_job& job) {
  runtime::footprint out(new_mark());
  for (const auto& host : job.node_folders) {
    const auto node = runtime::standing_node_of(host, "--run");
    if (!node)
      throw runtime::input_error(
          "the standing node with the folder '{}' has ended: start it again (`troupe node --run`)",
          host.string());
    if (!runtime::processes_of_host(host).empty())
      throw runtime::input_error(
          "the standing node with the folder '{}' serves another run: start separate nodes for "
          "chaos",
          host.string());
    out.add_host(host, *node);
  }
  return out;
}

}  // namespace

started_run::started_run(const chaos_job& job,
                         const fs::path& folder,
                         const std::vector<std::string>& plants)
    : job_(job),
      folder_(fs::absolute(folder)),
      footprint_(footprint_of(job)),
      child_(program_of(job, folder_, footprint_.mark(), plants)),
      front_(child_.id()),
      ledger_(ledger_file()) {}

started_run::~started_run() {
  footprint_.kill_all();
}

std::optional<std::uint64_t> started_run::struck_at(const std::string& plant) const {
  const auto id = opened_->record().id;
  std::optional<std::uint64_t> out = opened_->claimed_at(id, plant);
  for (const auto& host : job_.node_folders)  // each node has the claims of its own processes
    if (const auto there = runtime::run_folder::open(host).claimed_at(id, plant);
        there.value_or(0) > 0)
      out = std::min(out.value_or(*there), *there);
  return out.value_or(0) > 0 ? out : std::nullopt;
}

std::size_t started_run::times_told(trace x) const {
  std::vector<fs::path> files{folder_ / "out.txt"}, folders{run() / "logs"};
  for (const auto& host : job_.node_folders)
    folders.push_back(host / "logs");
  std::error_code ignored;
  for (const auto& folder : folders)
    for (const auto& file : fs::directory_iterator(folder, ignored))
      files.push_back(file.path());
  return times_said(files, words_of(x));
}

void started_run::look() {
  job_.stop.throw_if_cancelled();
  ledger_.look();
  if (!opened_ && ledger_.commits() > 0)
    opened_ = runtime::run_folder::open(run());
}

bool started_run::is_over() {
  if (!ended_)
    ended_ = child_.wait(std::chrono::milliseconds(0));
  if (!without_front_)
    return bool(ended_);
  return opened_ && opened_->record().ended && !opened_->is_held();
}

bool started_run::wait(std::chrono::duration<double> at_most, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    look();
    if (holds())
      return true;
    if (is_over()) {
      look();
      return holds();
    }
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(glance);
  }
}

std::optional<int> started_run::exit_code() {
  constexpr int by_signal = 128;
  if (!is_over())
    return std::nullopt;
  if (without_front_)
    return opened_->record().ended->exit_code;
  return ended_->exit_code ? *ended_->exit_code : by_signal + ended_->signal;
}

std::string started_run::reason() const {
  try {
    const auto record = runtime::run_folder::open(run()).record();
    return record.ended ? record.ended->reason : "";
  } catch (const runtime::error&) {
    return {};  // it ended before it had a folder; the reason is in out.txt
  }
}

}  // namespace troupe::command::chaos
