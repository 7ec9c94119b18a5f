// `troupe chaos`: a job whose processes are killed, stopped and starved, and that must come out as
// if nothing had been.

#include "actors/command/chaos/report.hpp"
#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/shell_words.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/trainer/build.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using namespace chaos;

constexpr int something_wrong = 1;  // exit code
constexpr std::int64_t most_faults = 1'000'000;

struct chaos_flags {
  std::int64_t kills = 10;
  double every = 5;
  std::optional<std::int64_t> every_steps, only;
  std::int64_t seed = 1;
  std::string kinds, roles = "node,front,lane", moments;
  bool all = false, list = false;
  fs::path report, table, undisturbed, folder;
  std::string cut, heal, cut_one_way, heal_one_way;
  std::vector<std::string> command;
};

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0, end; at < list.size(); at = end + 1) {
    end = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, end - at));
  }
  return out;
}

template <class Row>
std::string names_of(std::span<const Row> rows) {
  std::string out;
  for (const auto& row : rows)
    out += (out.empty() ? "" : ", ") + std::string(row.name);
  return out;
}

/// The rows that a list names.
template <class Row>
std::vector<Row> chosen_rows(const char* flag,
                             const std::string& list,
                             std::span<const Row> rows) {
  std::vector<Row> out;
  for (const auto& name : names_in(list)) {
    const auto found = std::find_if(
        rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
    if (found == rows.end())
      throw usage_error("{} '{}': there are {}", flag, shown(name), names_of(rows));
    out.push_back(*found);
  }
  return out;
}

int list_faults() {
  fmt::print("kinds\n");
  for (const auto& row : kinds())
    fmt::print("  {:<15}{}\n", row.name, row.about);
  fmt::print("roles, and what is expected when one dies\n");
  for (const auto& row : roles())
    fmt::print("  {:<15}{}\n", row.name, row.about);
  return 0;
}

/// Those after `--`, and the job that they say.
runtime::training_job job_of(const std::vector<std::string>& command) {
  if (command.size() < 2 || command[0] != "train" || command[1] != "gpt")
    throw usage_error("after -- give the job: train gpt and its flags");
  for (const auto& word : command)
    for (const auto* own : {"--run", "--save", "--log-file", "--plant-death"})
      if (word == own || word.starts_with(std::string(own) + "="))
        throw usage_error("leave {} to troupe chaos: it gives each run folders of its own", own);
  auto job = training_job_from({command.begin() + 2, command.end()});
  if (job.layout.processes < 2)
    throw usage_error("the job has one process: with it all is gone; give it more, --processes 2");
  if (!job.recovery.on)
    throw usage_error("with --recovery off a death ends the run: leave it on");
  job.checkpoints.save = "save";  // as it will be given
  return job;
}

/// Of the folders of all runs: given, or a temporary one, which stays where something is wrong.
class chaos_folder {
 public:
  explicit chaos_folder(const fs::path& given)
      : given_(!given.empty()),
        path_(fs::absolute(given_ ? given : runtime::new_temporary_folder())) {
    fs::create_directories(path_);
  }
  ~chaos_folder() {
    std::error_code ignored;
    if (!given_ && !keep_)
      fs::remove_all(path_, ignored);
  }
  chaos_folder(const chaos_folder&) = delete;
  chaos_folder& operator=(const chaos_folder&) = delete;

  void keep() { keep_ = true; }
  /// Empty. Throws usage_error where something of before stands there.
  fs::path part(const std::string& name) const {
    const auto out = path_ / name;
    std::error_code none;
    if (fs::exists(out, none) && !fs::is_empty(out, none))
      throw usage_error("'{}' has files: name another --folder", out.string());
    fs::create_directories(out);
    return out;
  }

 private:
  bool given_, keep_ = false;
  fs::path path_;
};

reference_run find_reference(const chaos_flags& flags,
                             const chaos_job& job,
                             const chaos_folder& folder,
                             chaos_report& report) {
  if (!flags.undisturbed.empty())
    return read_reference(fs::absolute(flags.undisturbed));
  fmt::print("the job, undisturbed\n");
  std::fflush(stdout);
  const auto own = folder.part("undisturbed");
  report.undisturbed = run_undisturbed(job, own);
  if (!report.undisturbed.holds())
    throw runtime::input_error("the job fails undisturbed; its output is '{}': {}",
                               (own / "out.txt").string(),
                               fmt::join(report.undisturbed.all_wrong(), "; "));
  return read_reference(own / "log.jsonl");
}

plan_wish wish_of(const chaos_flags& flags,
                  const runtime::training_job& job,
                  const reference_run& reference) {
  plan_wish out{.count = std::uint64_t(flags.kills),
                .seed = std::uint64_t(flags.seed),
                .first = reference.first() - 1,
                .last = reference.last(),
                .save_every = job.checkpoints.save_interval,
                .validate_every = job.watch.eval_batches > 0 ? job.watch.eval_interval : 0,
                .link_commands = !flags.cut.empty()};
  const auto steps = std::ceil(flags.every / std::max(reference.step_seconds, 1e-6));
  out.every = std::uint64_t(flags.every_steps.value_or(std::int64_t(std::clamp(steps, 1.0, 1e9))));
  for (const auto& row : roles())
    if (flags.roles == "all")
      out.roles.push_back(row.who);
  if (flags.roles != "all")
    for (const auto& row : chosen_rows("--roles", flags.roles, roles()))
      out.roles.push_back(row.who);
  for (const auto& row : kinds())
    if (flags.kinds.empty() && !row.name.starts_with("link-") && row.name != "one-way")
      out.kinds.push_back(row.kind);
  for (const auto& row : chosen_rows("--kinds", flags.kinds, kinds()))
    out.kinds.push_back(row.kind);
  out.moments = names_in(flags.moments);
  for (const auto kind : out.kinds)
    if (const auto why = why_not(kind, role::node, out.link_commands);
        (kind == fault_kind::link_down || kind == fault_kind::one_way) && !why.empty())
      throw usage_error("--kinds: {} (--cut-link, --heal-link)", why);
  return out;
}

/// What brings the same about, of the same undisturbed run; with `run` that run alone.
std::string replay_of(const chaos_flags& flags, const plan_wish& wish, const fs::path& undisturbed) {
  std::vector<std::string> words{"troupe", "chaos"};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty())
      words.insert(words.end(), {flag, value});
  };
  if (flags.all)
    words.emplace_back("--all");
  else
    add("--kills", std::to_string(flags.kills));
  add("--every-steps", std::to_string(wish.every));
  add("--seed", std::to_string(flags.seed));
  add("--kinds", flags.kinds);
  add("--roles", flags.roles);
  add("--moments", flags.moments);
  add("--cut-link", flags.cut);
  add("--heal-link", flags.heal);
  add("--cut-one-way", flags.cut_one_way);
  add("--heal-one-way", flags.heal_one_way);
  add("--undisturbed", undisturbed.string());
  words.emplace_back("--");
  words.insert(words.end(), flags.command.begin(), flags.command.end());
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : " ") + for_shell(word);
  return out;
}

void write(const fs::path& file, const std::string& text) {
  if (file.empty())
    return;
  runtime::file_writer out(file);
  out.write(text);
  out.commit();
}

int tell_end(const chaos_flags& flags, const chaos_report& report, chaos_folder& folder) {
  std::fputs(summary_of(report).c_str(), stdout);
  write(flags.report, runtime::json_text_replacing(json_of(report), 1) + "\n");
  write(flags.table, markdown_of(report));
  if (report.holds())
    return 0;
  folder.keep();
  for (const auto& x : report.all_wrong())
    runtime::log_error("{}", x);
  for (const auto& run : report.runs)
    if (!run.holds())
      fmt::print("run {} again: {}\n",
                 run.number,
                 "troupe chaos --only " + std::to_string(run.number)
                     + report.replay.substr(std::string("troupe chaos").size()));
  return something_wrong;
}

int disturb(const chaos_flags& flags, const runtime::cancel_token& stop) {
  const auto job = job_of(flags.command);
  chaos_folder folder(flags.folder);
  chaos_job what{.command = {fs::read_symlink("/proc/self/exe").string()},
                 .suspicion = job.recovery.suspicion,
                 .cut = flags.cut,
                 .heal = flags.heal,
                 .cut_one_way = flags.cut_one_way,
                 .heal_one_way = flags.heal_one_way,
                 .stop = stop};
  what.command.insert(what.command.end(), flags.command.begin(), flags.command.end());
  chaos_report report{.command = flags.command,
                      .program = runtime::version_text(),
                      .seed = std::uint64_t(flags.seed)};
  const auto reference = find_reference(flags, what, folder, report);
  const auto wish = wish_of(flags, job, reference);
  const auto plan = flags.all ? plan_of_all(wish, job) : plan_of(wish, job);
  report.step_seconds = reference.step_seconds;
  report.replay = replay_of(flags,
                            wish,
                            flags.undisturbed.empty() ? report.undisturbed.folder / "log.jsonl"
                                                      : fs::absolute(flags.undisturbed));
  std::map<std::uint64_t, std::vector<disturbance>> runs;
  for (const auto& x : plan)
    if (!flags.only || std::uint64_t(*flags.only) == x.run)
      runs[x.run].push_back(x);
  if (runs.empty())
    throw usage_error("--only {}: the plan has runs 1 to {}", *flags.only, plan.back().run);
  std::fputs(table_head().c_str(), stdout);
  for (const auto& [number, faults] : runs) {
    const auto own = folder.part(fmt::format("run-{}", number));
    report.runs.push_back(
        run_disturbed(what, own, faults, reference, [](const struck_fault& x) {
          std::fputs(table_row(x).c_str(), stdout);
          std::fflush(stdout);
        }));
    if (report.runs.back().holds())
      fs::remove_all(own);
    write(flags.report, runtime::json_text_replacing(json_of(report), 1) + "\n");
  }
  return tell_end(flags, report, folder);
}

void declare_faults(command_line& to, chaos_flags& flags) {
  to.group("What strikes");
  to.value({.name = "--kills", .type = "N", .help = "How many faults, one after the other."},
           whole(flags.kills, 1, most_faults));
  to.value({.name = "--every",
            .type = "S",
            .unit = "seconds",
            .help = "Between two, about: it is counted in steps of the undisturbed run. Each run of "
                    "the job suffers as many as it is long enough for."},
           real(flags.every, 0, 1e6));
  to.value({.name = "--every-steps",
            .type = "N",
            .unit = "steps",
            .help = "The same in steps, whatever one takes: the plan is then the seed's alone."},
           whole(flags.every_steps, 1, most_faults));
  to.value({.name = "--seed", .type = "K", .help = "Chooses kinds, victims and moments."},
           whole(flags.seed, 0, largest_count));
  to.value({.name = "--kinds",
            .type = "LIST",
            .default_value = "all but link-down and one-way",
            .help = fmt::format("With commas: {}. --faults says what each is.", names_of(kinds()))},
           text(flags.kinds));
  to.value({.name = "--roles",
            .type = "LIST",
            .help = fmt::format(
                "Whom, with commas: {}; or all. Processes are struck from outside, actors by a "
                "planted death at an exact moment.",
                names_of(roles()))},
           text(flags.roles));
  to.value({.name = "--moments",
            .type = "LIST",
            .default_value = "all",
            .help = "Of planted deaths: the moments of --plant-death, with commas."},
           text(flags.moments));
  to.toggle("--all",
            "Every kind with every role, and every moment, once each, in a run of its own; instead "
            "of --kills.",
            [&flags] { flags.all = true; });
  to.value({.name = "--only", .type = "N", .help = "Run N of the plan alone."},
           whole(flags.only, 1, most_faults));
  to.toggle("--faults", "Lists kinds and roles, with what is expected of each, and exits.", [&flags] {
    flags.list = true;
  });
  const char* const by_shell = "A shell's command, for link-down.";
  to.value({.name = "--cut-link", .type = "COMMAND", .help = by_shell}, text(flags.cut));
  to.value({.name = "--heal-link", .type = "COMMAND", .help = "Undoes it."}, text(flags.heal));
  to.value({.name = "--cut-one-way", .type = "COMMAND", .help = "The same for one-way."},
           text(flags.cut_one_way));
  to.value({.name = "--heal-one-way", .type = "COMMAND", .help = "Undoes it."},
           text(flags.heal_one_way));
}

}  // namespace

void add_chaos(command_line& program) {
  const auto flags = std::make_shared<chaos_flags>();
  auto& to = program.command(
      "chaos",
      "runs a job of several processes undisturbed, then again while it kills, stops and starves "
      "them, and shows that nothing of it can be seen in what comes out.",
      [flags] {
        if (flags->list)
          return list_faults();
        return interruptible([&](const runtime::cancel_token& stop) {
          return disturb(*flags, stop);
        });
      });
  to.words("-- train gpt ...",
           "The job, as it would be typed after troupe; without --run, --save and --log-file.",
           flags->command);
  declare_faults(to, *flags);
  to.group("What is told");
  to.value({.name = "--report",
            .type = "FILE",
            .help = "JSON: of each fault how long it took to detect, release, respawn, transfer, "
                    "rebuild and replay, and what each oracle says."},
           text(flags->report));
  to.value({.name = "--table", .type = "FILE", .help = "Markdown: which cells hold."},
           text(flags->table));
  to.value({.name = "--undisturbed",
            .type = "FILE",
            .help = "The JSON log of an undisturbed run of this job, instead of running it; its "
                    "checkpoints are compared if they are in save/ beside it."},
           text(flags->undisturbed));
  to.value({.name = "--folder",
            .type = "DIR",
            .default_value = "a temporary one, which stays where something is wrong",
            .help = "Where the runs have their folders."},
           text(flags->folder));
  to.note(
      "Oracles, after each run: the state after each step and the newest checkpoint equal to the "
      "undisturbed run's, to the bit; the ledger in order; the log with each step once; who was "
      "not struck has the same process; nothing left behind.");
  to.note(
      "Exit code 0: all hold. 1: one does not; it is said which, at which fault, and the command "
      "that brings it about again. 2: the input is wrong. The guide: docs/guides/chaos.md.");
}

}  // namespace troupe::command
