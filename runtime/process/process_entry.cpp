#include "runtime/process/process_entry.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/agent_messages.hpp"
#include "runtime/process/fields.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

fs::path entry_file(const run_folder& of, const std::string& name) {
  return of.processes() / (name + ".json");
}

seen_process looked_at(process_entry x) {
  const bool here = x.host == host_name();
  const auto runs = here ? std::optional(is_running(x.process)) : std::nullopt;
  return {std::move(x), runs};
}

}  // namespace

std::string text_of(const process_entry& x) {
  nlohmann::json out = {{"host", x.host},
                        {"role", x.role},
                        {"roles", x.roles},
                        {"ranks", x.ranks},
                        {"incarnation", x.incarnation},
                        {"generation", x.progress.generation},
                        {"step", x.progress.step}};
  if (const auto& training = x.progress.training) {
    const auto put_number = [&out](const char* name, const std::optional<double>& value) {
      if (value)
        out[name] = *value;
    };
    out["steps"] = training->steps;
    put_number("loss", training->loss);
    put_number("best_accuracy", training->best_accuracy);
    put_number("tokens_per_second", training->tokens_per_second);
    put_number("seconds_left", training->seconds_left);
  }
  put(out, x.process);
  return json_text_replacing(out, 1) + "\n";
}

training_progress training_progress_of(std::span<const step_report> reports,
                                       std::uint64_t step,
                                       std::uint64_t steps) {
  training_progress out{.steps = steps};
  if (!reports.empty() && std::isfinite(reports.back().loss))
    out.loss = reports.back().loss;
  double seconds = 0, tokens = 0;
  for (const auto& x : reports) {
    seconds += x.elapsed_ms / 1e3;
    tokens += x.elapsed_ms / 1e3 * x.tokens_per_second;
  }
  if (seconds > 0) {
    out.tokens_per_second = tokens / seconds;
    out.seconds_left = double(std::max(steps, step) - step) * seconds / double(reports.size());
  }
  return out;
}

namespace {

/// Empty if the process does not report training, or is of an older build.
std::optional<training_progress> training_in(const nlohmann::json& x, const std::string& what) {
  if (!x.contains("steps"))
    return std::nullopt;
  const auto number = [&](const char* name) {
    constexpr double most = 1e300;
    return x.contains(name) ? std::optional(number_field(x, name, what, -most, most))
                            : std::nullopt;
  };
  return training_progress{.steps = std::uint64_t(whole_field(x, "steps", what, 0)),
                           .loss = number("loss"),
                           .best_accuracy = number("best_accuracy"),
                           .tokens_per_second = number("tokens_per_second"),
                           .seconds_left = number("seconds_left")};
}

}  // namespace

process_entry read_process_entry(std::string_view text,
                                 const std::string& name,
                                 const std::string& what) {
  const auto x = read_object(text, what);
  process_entry out{.name = name,
                    .process = process_field(x, what),
                    .host = text_field(x, "host", what),
                    .role = text_field(x, "role", what),
                    .roles = texts_field(x, "roles", what),
                    .ranks = {},
                    .incarnation = std::uint64_t(whole_field(x, "incarnation", what, 1)),
                    .progress = {.generation = std::uint64_t(whole_field(x, "generation", what, 0)),
                                 .step = std::uint64_t(whole_field(x, "step", what, 0)),
                                 .training = training_in(x, what)}};
  for (const auto& rank : list_field(x, "ranks", what)) {
    if (!rank.is_number_unsigned()
        || rank.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<int>::max()))
      throw input_error("{}: 'ranks' has to be a list of whole numbers", what);
    out.ranks.push_back(rank.get<int>());
  }
  return out;
}

process_entry entry_of_this_process(const std::string& name, const std::string& role) {
  return {.name = name,
          .process = this_process(),
          .host = host_name(),
          .role = role,
          .roles = {role},
          .ranks = {}};
}

void write_entry(const run_folder& to, const process_entry& x) {
  ensure(is_process_name(x.name), "RUN-2: an entry has the name of a file");
  replace_file(entry_file(to, x.name), text_of(x));
}

void remove_entry(const run_folder& of, const std::string& name) {
  remove_replaced(entry_file(of, name));
}

std::vector<seen_process> seen_processes(const run_folder& of,
                                         const std::function<void(const std::string&)>& complain) {
  std::vector<seen_process> out;
  std::error_code failure;
  fs::directory_iterator files(of.processes(), failure);
  if (failure == std::errc::no_such_file_or_directory)
    return {};  // the next run is recreating the folder
  if (failure)
    throw io_error("cannot list '{}': {}", of.processes().string(), failure.message());
  for (const auto& file : files) {
    if (file.path().extension() != ".json")
      continue;
    try {
      out.push_back(looked_at(read_process_entry(
          read_text(file.path()), file.path().stem().string(), "'" + file.path().string() + "'")));
    } catch (const error& trouble) {
      if (fs::exists(file.path(), failure))  // otherwise its process has just ended
        complain(trouble.what());
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.entry.name < b.entry.name;
  });
  return out;
}

entry_keeper::entry_keeper(const run_folder& to, process_entry entry)
    : to_(to), entry_(std::move(entry)) {
  write_entry(to_, entry_);
  thread_ = start_thread("entry", [this] { loop(); });
}

entry_keeper::~entry_keeper() {
  stop();
}

void entry_keeper::follow(std::function<process_progress()> ask) {
  const std::lock_guard lock(mutex_);
  ask_ = std::move(ask);
}

void entry_keeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void entry_keeper::loop() {
  constexpr auto period = std::chrono::seconds(1);
  std::unique_lock lock(mutex_);
  do {
    changed_.wait_for(lock, period, [this] { return end_; });
    refresh();
  } while (!end_);
}

void entry_keeper::refresh() {
  if (!ask_)
    return;
  auto next = entry_;
  next.progress = ask_();
  if (next == entry_)
    return;
  try {
    write_entry(to_, next);
    entry_ = std::move(next);
  } catch (const error& failure) {
    if (!std::exchange(complained_, true))
      log_warning("cannot publish the progress of this process: {}", failure.what());
  }
}

}  // namespace troupe::runtime
