#include "actors/command/chaos/flags.hpp"

#include "actors/command/shell_words.hpp"
#include "runtime/process/host_parts.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>
#include <utility>

namespace troupe::command::chaos {
namespace {

constexpr std::int64_t most_faults = 1'000'000;

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

template <class Row>
std::vector<Row> chosen_rows(const char* flag, const std::string& list, std::span<const Row> rows) {
  std::vector<Row> out;
  for (const auto& name : names_in(list)) {
    const auto found
        = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
    if (found == rows.end())
      throw usage_error("{} '{}': give some of {}", flag, shown(name), names_of(rows));
    out.push_back(*found);
  }
  return out;
}

/// Throws usage_error for flipped bits of a pass if the job does not compute all passes twice,
/// since they would not be detected.
void require_verified(const plan_wish& wish, const runtime::training_job& job) {
  if (job.recovery.verify_fraction >= 1)
    return;
  for (const auto kind : wish.kinds)
    for (const auto& moment : wish.moments)
      if (kind == fault_kind::flipped_bits
          && (moment == "forward" || moment == "input-gradient" || moment == "weight-gradient"))
        throw usage_error(
            "--kinds flipped-bits at --moments {}: the job would not detect them; give it "
            "--verify-fraction 1, so that another worker computes each pass again",
            moment);
}

}  // namespace

plan_wish wish_of(const chaos_flags& flags,
                  const runtime::training_job& job,
                  const reference_run& reference) {
  plan_wish out{.count = std::uint64_t(flags.kills),
                .seed = std::uint64_t(flags.seed),
                .first = reference.first() - 1,
                .last = reference.last(),
                .save_every = job.checkpoints.save_interval,
                .validate_every = job.watch.eval_batches > 0 ? job.watch.eval_interval : 0,
                .link_commands = true,
                .over_hosts = !flags.node_folders.empty(),
                .suspicion = job.recovery.suspicion,
                .step_seconds = reference.step_seconds};
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
  if (!flags.kinds.empty())
    require_verified(out, job);
  for (const auto kind : out.kinds) {
    const bool one_way = kind == fault_kind::one_way;
    const auto& cut = one_way ? flags.cut_one_way : flags.cut;
    const auto& heal = one_way ? flags.heal_one_way : flags.heal;
    if (is_link(kind) && (cut.empty() || heal.empty()))
      throw usage_error("--kinds: {}: --cut-{} and --heal-{}",
                        why_not(kind, role::node, false, out.over_hosts),
                        one_way ? "one-way" : "link",
                        one_way ? "one-way" : "link");
  }
  return out;
}

std::vector<std::filesystem::path> find_node_folders(const chaos_flags& flags, std::size_t count) {
  std::vector<std::filesystem::path> out;
  for (const auto& name : names_in(flags.node_folders)) {
    const auto folder = std::filesystem::absolute(name).lexically_normal();
    if (!runtime::standing_node_of(folder, "--run"))
      throw usage_error(
          "--node-folders: no `troupe node --run` with the folder '{}' runs on this machine; the "
          "hosts must be network namespaces or addresses of this machine, and their processes "
          "visible to chaos",
          shown(name));
    std::error_code none;
    for (const auto& other : out)
      if (std::filesystem::equivalent(other, folder, none))
        throw usage_error("--node-folders names the folder '{}' twice: name each folder once",
                          shown(name));
    if (!runtime::processes_of_host(folder).empty())
      throw usage_error(
          "--node-folders: the node with the folder '{}' serves another run, which chaos would "
          "kill; wait until the node is idle, or start other nodes",
          shown(name));
    out.push_back(folder);
  }
  if (out.size() != count)
    throw usage_error(
        "--node-folders names {} folders, but the job has {} nodes (--nodes, --spare-nodes): chaos "
        "finds their processes by the folders; give the `troupe node --run` folder of each node",
        out.size(),
        count);
  return out;
}

std::string replay_of(const chaos_flags& flags,
                      const plan_wish& wish,
                      const std::filesystem::path& undisturbed) {
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
  add("--node-folders", flags.node_folders);
  add("--undisturbed", undisturbed.string());
  words.emplace_back("--");
  words.insert(words.end(), flags.command.begin(), flags.command.end());
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : " ") + for_shell(word);
  return out;
}

void declare_faults(command_line& to, chaos_flags& flags) {
  to.group("Faults");
  to.value({.name = "--kills", .type = "N", .help = "Number of faults, one after the other."},
           whole(flags.kills, 1, most_faults));
  to.value(
      {.name = "--every",
       .type = "S",
       .unit = "seconds",
       .help = "Approximate time between two faults, converted to steps of the undisturbed run. "
               "Faults that do not fit into one run of the job go to the next."},
      real(flags.every, 0, 1e6));
  to.value(
      {.name = "--every-steps",
       .type = "N",
       .unit = "steps",
       .help
       = "Steps between two faults, in place of --every: kinds, victims and moments then depend "
         "only on the seed, and not on the speed of the machine."},
      whole(flags.every_steps, 1, most_faults));
  to.value({.name = "--seed", .type = "K", .help = "Seed of kinds, victims and moments."},
           whole(flags.seed, 0, largest_count));
  to.value({.name = "--kinds",
            .type = "LIST",
            .default_value = "all but link-down and one-way",
            .help = fmt::format("Kinds of faults, with commas: {}. --faults explains them.",
                                names_of(kinds()))},
           text(flags.kinds));
  to.value({.name = "--roles",
            .type = "LIST",
            .help = fmt::format(
                "Roles to strike, with commas: {}; or all. Processes are struck from outside, "
                "actors by a planted death at an exact moment.",
                names_of(roles()))},
           text(flags.roles));
  to.value({.name = "--moments",
            .type = "LIST",
            .default_value = "all",
            .help = "Moments of planted deaths, as in --plant-death, with commas."},
           text(flags.moments));
  to.toggle("--all",
            "Tries every kind with every role at every moment once, each in its own run; in place "
            "of --kills.",
            [&flags] { flags.all = true; });
  to.value({.name = "--only", .type = "N", .help = "Executes only run N of the plan."},
           whole(flags.only, 1, most_faults));
  to.toggle("--faults", "Lists kinds and roles with their effects, and exits.", [&flags] {
    flags.list = true;
  });
  const auto command = [&to](const char* name, std::string help, std::string& line) {
    to.value({.name = name, .type = "COMMAND", .help = std::move(help)}, text(line));
  };
  const auto restores = [](const char* what) {
    return fmt::format("restores what {} has cut, after twice --suspicion.", what);
  };
  command("--cut-link", "For link-down: shell command that cuts a link between hosts.", flags.cut);
  command("--heal-link", "For link-down: " + restores("--cut-link"), flags.heal);
  command("--cut-one-way",
          "For one-way: shell command that cuts one direction of a link between hosts.",
          flags.cut_one_way);
  command("--heal-one-way", "For one-way: " + restores("--cut-one-way"), flags.heal_one_way);
  to.value(
      {.name = "--node-folders",
       .type = "DIR,DIR",
       .help
       = "For a job with --nodes: the `troupe node --run` folder of each node and of each of "
         "--spare-nodes. All must be on this machine and serve no other run. After each run all "
         "processes that they started are killed."},
      text(flags.node_folders));
}

void declare_telling(command_line& to, chaos_flags& flags) {
  to.group("Reports");
  to.value({.name = "--report",
            .type = "FILE",
            .help = "Writes JSON: for each fault the times to detect, release, respawn, transfer, "
                    "rebuild and replay, and the result of each check."},
           text(flags.report));
  to.value({.name = "--table",
            .type = "FILE",
            .help = "Writes Markdown: tables of kinds, roles and moments with their results."},
           text(flags.table));
  to.value({.name = "--undisturbed",
            .type = "FILE",
            .help = "JSON log of an undisturbed run of this job, in place of a new one. Its "
                    "checkpoints are compared if they are in save/ beside it."},
           text(flags.undisturbed));
  to.value({.name = "--folder",
            .type = "DIR",
            .default_value = "a temporary one",
            .help = "Folder for the runs, which are all kept. A temporary folder is removed, but "
                    "keeps runs with failed checks."},
           text(flags.folder));
}

}  // namespace troupe::command::chaos
