#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/run_flag.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/core/ranges_text.hpp"
#include "runtime/process/run_control.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

const char* condition_of(const runtime::seen_process& x) {
  if (!x.runs)
    return "elsewhere";
  return *x.runs ? "running" : "gone";
}

std::string listed_words(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : " ") + word;
  return out;
}

/// "4212 of 10000, loss 3.5117, 6798 tokens/s, 12 min left"; empty if no process reports it.
std::string training_text(const runtime::run_status& x) {
  for (const auto& one : x.processes) {
    const auto& training = one.entry.progress.training;
    if (!training)
      continue;
    auto out = fmt::format("{} of {}", one.entry.progress.step, training->steps);
    if (training->loss)
      out += fmt::format(", loss {:.4f}", *training->loss);
    if (training->best_accuracy)
      out += fmt::format(", best accuracy {:.2f} %", 100 * *training->best_accuracy);
    if (training->tokens_per_second)
      out += fmt::format(", {:.0f} tokens/s", *training->tokens_per_second);
    if (training->seconds_left && x.condition == runtime::run_condition::runs)
      out += ", " + runtime::time_left_text(*training->seconds_left);
    return out;
  }
  return "";
}

std::string status_page(const runtime::run_folder& folder, const runtime::run_status& x) {
  std::string out;
  const auto fact = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<9}{}\n", name, value);
  };
  fact("run", std::filesystem::absolute(folder.path()).string() + " (" + x.record.id + ")");
  fact("state", runtime::name_of(x.condition));
  fact("started", x.record.started);
  if (const auto& end = x.record.ended) {
    fact("ended", fmt::format("{}, exit code {}", end->at, end->exit_code));
    if (!end->reason.empty())
      fact("reason", end->reason);
  }
  if (const auto training = training_text(x); !training.empty())
    fact("step", training);
  fact("command", listed_words(x.record.command));
  fact("program", x.record.program);
  using row = std::array<std::string, 9>;
  std::vector<row> rows{
      {"process", "role", "pid", "host", "ranks", "incarnation", "generation", "step", "state"}};
  for (const auto& one : x.processes) {
    const auto& e = one.entry;
    rows.push_back({e.name,
                    e.role,
                    std::to_string(e.process.pid),
                    e.host,
                    e.ranks.empty() ? "-" : runtime::ranges_of(e.ranks, {.single_alone = true}),
                    std::to_string(e.incarnation),
                    std::to_string(e.progress.generation),
                    std::to_string(e.progress.step),
                    condition_of(one)});
  }
  if (rows.size() == 1)
    return out;
  row::value_type line;
  out += "\n";
  for (const auto& cells : rows) {
    line.clear();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::size_t width = 0;
      for (const auto& other : rows)
        width = std::max(width, other[i].size());
      line += i + 1 == cells.size() ? cells[i] : fmt::format("{:<{}}  ", cells[i], width);
    }
    out += line + "\n";
  }
  return out;
}

ordered_json json_of(const std::optional<double>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

ordered_json status_json(const runtime::run_folder& folder, const runtime::run_status& x) {
  ordered_json out = {{"run", std::filesystem::absolute(folder.path()).string()},
                      {"id", x.record.id},
                      {"state", runtime::name_of(x.condition)},
                      {"program", x.record.program},
                      {"command", x.record.command},
                      {"started", x.record.started},
                      {"ended", nullptr},
                      {"training", nullptr},
                      {"processes", ordered_json::array()}};
  if (const auto& end = x.record.ended)
    out["ended"] = {{"exit_code", end->exit_code}, {"reason", end->reason}, {"at", end->at}};
  for (const auto& one : x.processes) {
    const auto& e = one.entry;
    out["processes"].push_back({{"name", e.name},
                                {"pid", e.process.pid},
                                {"start_time", e.process.start_time},
                                {"host", e.host},
                                {"role", e.role},
                                {"roles", e.roles},
                                {"ranks", e.ranks},
                                {"incarnation", e.incarnation},
                                {"generation", e.progress.generation},
                                {"step", e.progress.step},
                                {"running", one.runs ? ordered_json(*one.runs) : nullptr}});
    if (const auto& training = e.progress.training)
      out["training"] = {{"step", e.progress.step},
                         {"steps", training->steps},
                         {"loss", json_of(training->loss)},
                         {"best_accuracy", json_of(training->best_accuracy)},
                         {"tokens_per_second", json_of(training->tokens_per_second)},
                         {"seconds_left", json_of(training->seconds_left)}};
  }
  return out;
}

}  // namespace

void add_status(command_line& program) {
  auto& line = program.command("status",
                               "shows a run by its folder: its state, step, loss and time left, "
                               "its processes, and how it ended.");
  const auto folder = declare_run(line);
  const auto json = std::make_shared<bool>(false);
  line.toggle("--json", "Prints JSON.", [json] { *json = true; });
  line.note(
      "States of a run: running; ended, with a recorded end; died: none of its processes runs, and "
      "no end was recorded; elsewhere: its supervisor is on another host. States of a process: "
      "running, gone, elsewhere. Steps, loss, tokens/s and time left are at most a second old; the "
      "time left counts only steps, at the speed of the newest ones.");
  line.note("Exit code 0 for any existing or past run, 2 if there is none.");
  line.runs([folder, json] {
    const auto run = open_run(*folder);
    const auto status = runtime::status_of(
        run, [](const std::string& damage) { runtime::log_warning("{}", damage); });
    if (*json)
      print_json(runtime::json_text_replacing(status_json(run, status), 1));
    else
      print_page(status_page(run, status));
    return 0;
  });
}

}  // namespace troupe::command
