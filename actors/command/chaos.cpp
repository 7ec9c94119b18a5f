// `troupe chaos`: kills, stops and starves the processes of a job, and checks that the results are
// equal to the undisturbed run's.

#include "actors/command/chaos/flags.hpp"
#include "actors/command/chaos/report.hpp"
#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/hosts.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/run_folder.hpp"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command::chaos {
namespace {

namespace fs = std::filesystem;

constexpr int something_wrong = 1;  // exit code

int list_faults() {
  print_page("kinds\n");
  for (const auto& row : kinds())
    print_page("  {:<23}{}\n", row.name, row.about);
  print_page("roles, and the expected effect of a death\n");
  for (const auto& row : roles())
    print_page("  {:<23}{}\n", row.name, row.about);
  return 0;
}

/// The family of "train FAMILY ...".
const runtime::model_family& family_in(const std::vector<std::string>& command) {
  if (command.size() < 2 || command[0] != "train")
    throw usage_error("after -- give the job: train gpt and its flags");
  try {
    return runtime::find_family(command[1]);
  } catch (const runtime::input_error& unknown) {
    throw usage_error("after -- give the job: {}", unknown.what());
  }
}

/// The job that the words after `--` describe.
runtime::training_job job_of(const std::vector<std::string>& command) {
  const auto& family = family_in(command);
  for (const auto& word : command)
    for (const auto* own : {"--run", "--save", "--log-file", "--plant-death"})
      if (word == own || word.starts_with(std::string(own) + "="))
        throw usage_error("leave out {}: troupe chaos gives each run its own folders", own);
  std::vector<std::string> flags(command.begin() + 2, command.end());
  flags.insert(flags.end(), {"--save", "save"});  // each run gets it; other flags depend on it
  auto job = training_job_from(flags, family);
  if (job.layout.processes < 2)
    throw usage_error("the job has one process, so its death ends the run: give --processes 2");
  if (!job.recovery.on)
    throw usage_error("with --recovery off the death of a process ends the run: leave it on");
  return job;
}

/// Number of nodes that the job names, spare nodes included.
std::size_t nodes_of(const std::vector<std::string>& command) {
  const std::vector<std::string> words(command.begin() + 2, command.end());
  training_flags flags(family_in(command));
  command_line line("troupe train " + command[1], "");
  declare(line, flags);
  line.runs([] { return 0; });
  line.parse(words);
  return nodes_of(flags.hosts);
}

/// Parent folder of all runs. A temporary one is removed unless `keep` was called.
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
  bool is_temporary() const { return !given_; }
  /// Creates an empty folder. Throws usage_error if it has files already.
  fs::path part(const std::string& name) const {
    const auto out = path_ / name;
    std::error_code none;
    if (fs::exists(out, none) && !fs::is_empty(out, none))
      throw usage_error("'{}' is not empty: name another --folder", out.string());
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
  print_page("the job, undisturbed\n");
  std::fflush(stdout);
  const auto own = folder.part("undisturbed");
  report.undisturbed = run_undisturbed(job, own);
  if (!report.undisturbed.holds())
    throw runtime::input_error("the job fails undisturbed; its output is '{}': {}",
                               (own / "out.txt").string(),
                               fmt::join(report.undisturbed.all_wrong(), "; "));
  return read_reference(own / "log.jsonl");
}

void write(const fs::path& file, const std::string& text) {
  if (file.empty())
    return;
  runtime::file_writer out(file);
  out.write(text);
  out.commit();
}

int tell_end(const chaos_flags& flags,
             const plan_wish& wish,
             chaos_report& report,
             chaos_folder& folder) {
  if (report.holds() && folder.is_temporary()) {  // the folder will be removed
    report.undisturbed.folder.clear();
    report.replay = replay_of(
        flags, wish, flags.undisturbed.empty() ? fs::path() : fs::absolute(flags.undisturbed));
  }
  print_page(summary_of(report));
  write(flags.report, runtime::json_text_replacing(json_of(report), 1) + "\n");
  write(flags.table, markdown_of(report));
  if (report.holds())
    return 0;
  folder.keep();
  for (const auto& x : report.all_wrong())
    runtime::log_error("{}", x);
  for (const auto& run : report.runs)
    if (!run.holds())
      print_page("run {} again: {}\n",
                 run.number,
                 "troupe chaos --only " + std::to_string(run.number)
                     + report.replay.substr(std::string("troupe chaos").size()));
  return something_wrong;
}

int disturb(const chaos_flags& flags, const runtime::cancel_token& stop) {
  const auto job = job_of(flags.command);
  auto hosts = find_node_folders(flags, nodes_of(flags.command));
  chaos_folder folder(flags.folder);
  chaos_job what{.command = {fs::read_symlink("/proc/self/exe").string()},
                 .suspicion = job.recovery.suspicion,
                 .cut = flags.cut,
                 .heal = flags.heal,
                 .cut_one_way = flags.cut_one_way,
                 .heal_one_way = flags.heal_one_way,
                 .node_folders = std::move(hosts),
                 .stop = stop};
  what.command.insert(what.command.end(), flags.command.begin(), flags.command.end());
  chaos_report report{.command = flags.command,
                      .program = runtime::version_text(),
                      .seed = std::uint64_t(flags.seed)};
  const auto reference = find_reference(flags, what, folder, report);
  report.undisturbed.digest = reference.log.back().digest;
  report.undisturbed.steps = reference.log.size();
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
  print_page(table_head());
  for (const auto& [number, faults] : runs) {
    const auto own = folder.part(fmt::format("run-{}", number));
    report.runs.push_back(run_disturbed(what, own, faults, reference, [](const struck_fault& x) {
      print_page(table_row(x));
      std::fflush(stdout);
    }));
    if (report.runs.back().holds() && folder.is_temporary()) {
      fs::remove_all(own);
      report.runs.back().folder.clear();
    }
    write(flags.report, runtime::json_text_replacing(json_of(report), 1) + "\n");
  }
  return tell_end(flags, wish, report, folder);
}

}  // namespace
}  // namespace troupe::command::chaos

namespace troupe::command {

void add_chaos(command_line& program) {
  const auto flags = std::make_shared<chaos::chaos_flags>();
  auto& to = program.command(
      "chaos",
      "runs a job undisturbed, then again while it kills, stops and starves its processes, and "
      "checks that the results are equal.",
      [flags] {
        if (flags->list)
          return chaos::list_faults();
        return interruptible(
            [&](const runtime::cancel_token& stop) { return chaos::disturb(*flags, stop); });
      });
  to.rest("JOB...",
          "The job: train gpt and its flags, as on a command line after troupe, but without --run, "
          "--save and --log-file.",
          flags->command);
  chaos::declare_faults(to, *flags);
  chaos::declare_telling(to, *flags);
  to.note(
      "Checks after each run: the state after each step and the newest checkpoint are equal to the "
      "undisturbed run's, to the bit; the ledger is in order; the log has each step once; each "
      "process that was not struck still runs; nothing is left behind.");
  to.note(
      "Exit code 0: all checks hold. 1: a check fails; prints which, after which fault, and the "
      "command that repeats it. 2: the input is wrong. Guide: docs/guides/chaos.md.");
}

}  // namespace troupe::command
