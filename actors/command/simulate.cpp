#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/simulate_size.hpp"
#include "actors/simulation/seed_workers.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/machine/machine.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using actors::simulation::found_failure;

struct simulation_flags {
  std::uint64_t first = 1, last = 100;
  std::optional<std::int64_t> seed;
  fs::path trace;
  std::optional<std::int64_t> jobs;
  bool seeds_given = false;
  size_flags size;
};

constexpr std::int64_t most_jobs = 1024;

void take_seeds(simulation_flags& to, const std::string& flag, const std::string& word) {
  to.seeds_given = true;
  const char* const end = word.data() + word.size();
  const auto middle = std::from_chars(word.data(), end, to.first);
  auto last = middle;
  to.last = to.first;
  if (middle.ptr != end && *middle.ptr == '-')
    last = std::from_chars(middle.ptr + 1, end, to.last);
  if (middle.ec != std::errc() || last.ec != std::errc() || last.ptr != end || to.first == 0
      || to.last < to.first || to.last > std::uint64_t(largest_count))
    throw usage_error("{} '{}': give seeds as A-B, 1 or more, A not above B", flag, shown(word));
}

constexpr std::string_view scratch_name = "troupe-simulate-";

/// In memory if possible, because runs save and load within milliseconds.
fs::path scratch_home() {
  std::error_code none;
  const fs::path memory = "/dev/shm";
  return fs::is_directory(memory, none) ? memory : fs::temp_directory_path();
}

/// Removes folders of killed searches: their process no longer exists. Folders of other users stay.
void remove_left_behind(const fs::path& home) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(home, ignored)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(scratch_name))
      continue;
    pid_t process = 0;
    const char* const end = name.data() + name.size();
    const auto number = std::from_chars(name.data() + scratch_name.size(), end, process);
    if (number.ptr == end && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH)
      fs::remove_all(entry.path(), ignored);
  }
}

/// Removed with its contents at the end, or by the next search if this process is killed.
struct scratch_folder {
  fs::path path = scratch_home() / fmt::format("{}{}", scratch_name, ::getpid());
  scratch_folder() { remove_left_behind(scratch_home()); }
  ~scratch_folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

int tell_failure(const found_failure& x) {
  print_page("seed {} fails:\n", x.seed);
  for (const auto& text : x.wrong)
    print_page("  {}\n", text);
  print_page("to reproduce it: troupe simulate --seed {} --trace seed-{}.txt\n", x.seed, x.seed);
  return 1;
}

int simulate_one(const simulation_flags& flags) {
  const scratch_folder folder;
  runtime::set_log_level(runtime::severity::error);
  actors::simulation::seed_judge judge(folder.path);
  actors::simulation::seed_options options;
  // Each line is flushed, so that the trace of a crash is complete.
  const auto close = [](std::FILE* file) { return file == nullptr ? 0 : std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> trace(nullptr, close);
  int refused = 0;
  if (!flags.trace.empty()) {
    trace.reset(std::fopen(flags.trace.c_str(), "we"));
    if (trace == nullptr)
      throw runtime::io_error(
          "cannot write the trace '{}': {}", flags.trace.string(), runtime::system_message(errno));
    options.trace = [&](std::string_view line) {
      const auto written = std::fwrite(line.data(), 1, line.size(), trace.get());
      if ((written < line.size() || std::fflush(trace.get()) != 0) && refused == 0)
        refused = errno;
    };
  }
  const auto seed = std::uint64_t(*flags.seed);
  const auto verdict = judge.judge(seed, options);
  if (refused != 0)
    throw runtime::io_error(
        "the trace '{}' is incomplete: {}", flags.trace.string(), runtime::system_message(refused));
  if (!verdict.wrong.empty())
    return tell_failure({seed, verdict.wrong});
  print_page("seed {} holds: {} turns, {:.3f} s of virtual time, choices {:016x}\n",
             seed,
             verdict.turns,
             double(verdict.ns) / 1e9,
             verdict.hash);
  return 0;
}

int simulate_many(const simulation_flags& flags) {
  const scratch_folder folder;
  const auto count = flags.last - flags.first + 1;
  const auto jobs = flags.jobs.value_or(runtime::look_at_processor().usable());
  runtime::progress_bar bar("simulating", count, "seeds");
  const auto result
      = actors::simulation::search({.first = flags.first,
                                    .last = flags.last,
                                    .jobs = int(std::min(std::uint64_t(jobs), count)),
                                    .folder = folder.path,
                                    .progress = [&](std::uint64_t done) { bar.advance_to(done); }});
  if (result.failure)
    return tell_failure(*result.failure);
  print_page("seeds {} to {} hold: {} turns; {} seeds with a death, {} with a broken connection\n",
             flags.first,
             flags.last,
             result.turns,
             result.deaths,
             result.breaks);
  return 0;
}

int simulate(const simulation_flags& flags) {
  const bool searches = flags.seeds_given || flags.seed || flags.jobs || !flags.trace.empty();
  if (!flags.size.workers.empty() && searches)
    throw usage_error(
        "--workers measures a cluster, which has no seeds: leave out --seeds, --seed, --jobs and "
        "--trace");
  if (!flags.size.workers.empty())
    return simulate_size(flags.size);
  if (flags.size.are_given())
    throw usage_error(
        "--processes, --hosts, --steps, --kill and --json describe a cluster: give --workers with "
        "them");
  if (!flags.trace.empty() && !flags.seed)
    throw usage_error("--trace writes the choices of one seed: give it with --seed");
  return flags.seed ? simulate_one(flags) : simulate_many(flags);
}

}  // namespace

void add_simulate(command_line& program) {
  const auto flags = std::make_shared<simulation_flags>();
  auto& to = program.command("simulate",
                             "searches for errors in the protocol of the actors: trains small "
                             "models with message orders, delays, deaths and broken connections "
                             "chosen by seeds, and compares each run with an undisturbed one. With "
                             "--workers, measures the messages of a cluster instead.",
                             [flags] { return simulate(*flags); });
  to.group("Seeds");
  to.value({.name = "--seeds",
            .type = "A-B",
            .default_value = "1-100",
            .help = "Seeds to simulate, one run each. The search ends at the first failing seed."},
           [flags](const std::string& flag, const std::string& word) {
             take_seeds(*flags, flag, word);
           });
  to.value(
      {.name = "--seed",
       .type = "N",
       .help = "Simulates only this seed, in this process, so that a failure can be debugged."},
      whole(flags->seed, 1, largest_count));
  to.group("Execution");
  to.value({.name = "--trace",
            .type = "FILE",
            .help = "With --seed: writes every turn of the run as a line with its virtual time, "
                    "its actor or lane, and its purpose. A seed always gives the same bytes."},
           text(flags->trace));
  to.value({.name = "--jobs",
            .type = "N",
            .default_value = "the number of usable processors",
            .help = "Processes that search in parallel."},
           whole(flags->jobs, 1, most_jobs));
  add_size(to, flags->size);
  to.note("Guide: docs/guides/simulate.md.");
}

}  // namespace troupe::command
