#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/schedule_plans.hpp"
#include "actors/command/setting_names.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/lower.hpp"
#include "runtime/schedule/plan_graph.hpp"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

struct plan_flags : schedule_flags {
  std::filesystem::path output;
};

struct check_flags : schedule_flags {
  int credits = 0;
  std::int64_t result_bytes = 0;
  bool handoffs = false;
  bool json = false;
};

std::string list_of_schedules() {
  std::string out
      = "Schedules by name (`troupe schedule simulate` compares them):\n"
        "\n";
  for (const auto& x : runtime::named_schedules()) {
    out += fmt::format("  {:<12} {}\n", x.name, x.what);
    out += fmt::format("               {}\n", x.paper);
    out += fmt::format("               chunks a rank: {}{}{}\n",
                       x.chunks_per_rank > 0 ? std::to_string(x.chunks_per_rank) : "1 or 2",
                       x.other_chunks && x.chunks_per_rank > 0 ? " (or --chunks)" : "",
                       x.copies > 1 ? fmt::format("; {} copies of the model", x.copies)
                       : x.in_v     ? "; they run down the ranks and up again"
                                    : "");
  }
  return out
         + "\nTo print a plan: troupe schedule plan 1f1b --ranks 4 --microbatches 8\n"
           "Its format: docs/formats/schedule.md. To write your own: "
           "docs/guides/write_a_schedule.md.\n";
}

int print_plan(const plan_flags& flags, const command_line& line) {
  if (flags.names.empty()) {
    print_page(list_of_schedules());
    return 0;
  }
  const auto& name = only_name(flags, line);
  const std::filesystem::path read[] = {name};
  runtime::require_no_input("--output", flags.output, read);
  const auto made = sound_plan_of(name, flags);
  const auto csv = runtime::to_csv(made.what);
  if (flags.output.empty() || flags.output == "-") {
    print_data(csv);
    return 0;
  }
  runtime::write_text(flags.output, csv);
  print_page("wrote '{}': {}\n", flags.output.string(), size_of(made.what));
  return 0;
}

void add_plan(command_line& group) {
  const auto flags = std::make_shared<plan_flags>();
  auto& line = group.command(
      "plan", "prints a schedule's plan as CSV; without a name, lists the schedules.");
  line.words("NAME|FILE", "A schedule's name, FILE.lua, or a plan, FILE.csv.", flags->names);
  declare_plan(line, *flags);
  line.value({.name = "--output",
              .type = "FILE",
              .default_value = "-",
              .help = "File for the plan; - is standard output."},
             text(flags->output));
  declare_costs(line, *flags);
  line.note(
      "A row has the actions of a rank in one step, a cell one action: stage, kind, micro-batch. F "
      "is forward, B backward, which is I, gradients of the input, and W, gradients of the "
      "weights. Costs matter only to auto and to scripts that react.");
  line.note("Example: troupe schedule plan zb-h1 --ranks 4 --microbatches 8 --output zb.csv");
  line.note("Next: `troupe schedule simulate` shows its time and its memory.");
  line.runs([flags, &line] { return print_plan(*flags, line); });
}

struct verdict {
  runtime::plan what;
  runtime::check_report report;
  bool is_plan = true;
  std::vector<runtime::handoff> handoffs = {};  ///< only of a sound plan without sends
};

std::size_t actions_of(const runtime::plan& x) {
  std::size_t out = 0;
  for (const auto& row : x.ranks)
    out += row.size();
  return out;
}

verdict judged(const std::string& name, const check_flags& flags) {
  verdict out{plan_of(name, flags).what, {}};
  const auto costs = costs_of(out.what, flags);  // throws if --layout has another number of stages
  if (flags.lowered && runtime::validate(out.what).empty())
    out.what = runtime::lowered(out.what);
  auto by = settings_of(out.what, flags);
  const bool sends = runtime::has_transfers(out.what);
  by.credits = sends ? flags.credits : 0;
  out.report = runtime::check_plan(out.what, by);
  if (sends || !out.report.is_sound())
    return out;
  const auto credits = runtime::credits_of(out.what, costs, flags.credits);
  if (flags.credits > 0)
    out.report.complaints = runtime::check_handoffs(out.what, credits);
  out.handoffs = runtime::handoffs_of(out.what, credits);
  return out;
}

/// Like `judged`. A file that is unreadable or not a plan gets a verdict too, so that the others
/// are still judged.
verdict judged_in_turn(const std::string& name, const check_flags& flags) {
  const auto no_plan = [](const runtime::error& why) {
    return verdict{{}, {{with_flags(why.what())}, {}}, false};
  };
  try {
    return judged(name, flags);
  } catch (const runtime::input_error& why) {
    return no_plan(why);
  } catch (const runtime::io_error& why) {
    return no_plan(why);
  } catch (const usage_error& why) {
    if (flags.names.size() == 1)
      throw;
    return no_plan(why);
  }
}

/// "stage 0 to 1, rank 0 to 1: 3 activations"
std::string text_of(const runtime::handoff& x, const runtime::plan& in, std::int64_t bytes) {
  return fmt::format(
      "{}stage {} to {}, rank {} to {}: {}{}",
      in.copies > 1 ? fmt::format("copy {}, ", char('a' + value(x.copy))) : "",
      value(x.from),
      value(x.to),
      x.from_rank,
      x.to_rank,
      runtime::counted(x.credits, x.gradient ? "gradient" : "activation"),
      bytes > 0 ? fmt::format(", {}", runtime::human_bytes(double(bytes) * x.credits)) : "");
}

ordered_json json_of(const std::vector<runtime::handoff>& all, std::int64_t bytes) {
  auto out = ordered_json::array();
  for (const auto& x : all) {
    out.push_back({{"copy", value(x.copy)},
                   {"from_stage", value(x.from)},
                   {"to_stage", value(x.to)},
                   {"from_rank", x.from_rank},
                   {"to_rank", x.to_rank},
                   {"kind", x.gradient ? "gradients" : "activations"},
                   {"credits", x.credits}});
    if (bytes > 0)
      out.back()["bytes"] = bytes * x.credits;
  }
  return out;
}

int check_plans(const check_flags& flags, const command_line& line) {
  if (flags.names.empty())
    only_name(flags, line);
  std::string wrong;
  auto all = ordered_json::array();
  for (const auto& name : flags.names) {
    const auto seen = judged_in_turn(name, flags);
    all.push_back({{"name", name},
                   {"sound", seen.report.is_sound()},
                   {"complaints", seen.report.complaints},
                   {"notes", seen.report.notes},
                   {"handoffs", json_of(seen.handoffs, flags.result_bytes)}});
    if (!seen.report.is_sound())
      wrong += fmt::format("{}{}{}",
                           wrong.empty() ? "" : "\n",
                           seen.is_plan ? fmt::format("'{}' cannot be executed:\n"
                                                      "  ",
                                                      name)
                                        : "",
                           fmt::join(seen.report.complaints, "\n  "));
    if (flags.json)
      continue;
    if (seen.report.is_sound())
      print_page("{}: valid: {}, {}\n",
                 name,
                 size_of(seen.what),
                 runtime::counted(std::int64_t(actions_of(seen.what)), "action"));
    for (const auto& note : seen.report.notes)
      print_page("  note: {}\n", note);
    if (seen.report.is_sound() && (flags.handoffs || flags.credits > 0 || flags.result_bytes > 0))
      for (const auto& x : seen.handoffs)
        print_page("  outstanding at most, {}\n", text_of(x, seen.what, flags.result_bytes));
  }
  if (flags.json)
    print_json(runtime::json_text_replacing(all.size() == 1 ? all.front() : all, 1));
  if (!wrong.empty())
    throw runtime::input_error("{}", wrong);
  return 0;
}

void add_check(command_line& group) {
  const auto flags = std::make_shared<check_flags>();
  auto& line = group.command("check", "checks if a plan can be executed, and reports why not.");
  line.words(
      "NAME|FILE", "Plans, FILE.csv; scripts, FILE.lua; or schedules by name.", flags->names);
  declare_plan(line, *flags);
  line.value(
      {.name = "--credits",
       .type = "K",
       .default_value = "as the plan needs, plus two",
       .help = "Results of each hand-off (activations or gradients, from a stage to the next on "
               "another rank) that may be outstanding, as with --pipeline-credits of a run. If a "
               "plan has sends: results on each link of two ranks that no receive has taken yet."},
      whole(flags->credits, 1));
  line.toggle("--handoffs",
              "Lists the hand-offs and how many results each may have outstanding, as --credits "
              "does. Not for a plan with sends.",
              [flags] { flags->handoffs = true; });
  line.value(
      {.name = "--result-bytes",
       .type = "N",
       .help = "Size in bytes of one result, a micro-batch's activations between two stages; the "
               "list then shows bytes, too. For a run: `troupe train ... --dry-run`."},
      whole(flags->result_bytes, 1));
  line.toggle("--json", "Prints JSON.", [flags] { flags->json = true; });
  declare_costs(line, *flags);
  line.note(
      "A plan is valid if it has every action once, without a deadlock; a cycle of waiting ranks "
      "is shown. Sends match their receives in the order of their link. A note reports what is "
      "valid but changes the bits of a run.");
  line.note(
      "Exit code 0 when all are valid, else 2. A file that is not a plan does not stop the check "
      "of the others.");
  line.note("Example: troupe schedule check my.csv --credits 2 --memory-limit 4");
  line.note("Example: troupe schedule check zb-h1 --ranks 4 --microbatches 8 --handoffs");
  line.note("The checked promises are PLAN-1 to PLAN-8 in docs/invariants.md.");
  line.runs([flags, &line] { return check_plans(*flags, line); });
}

}  // namespace

void add_schedule(command_line& program) {
  auto& group = program.command(
      "schedule",
      "prints, checks, simulates and draws pipeline schedules: what each rank does when.");
  add_plan(group);
  add_check(group);
  add_schedule_simulate(group);
  add_schedule_draw(group);
  group.note(
      "A schedule is the order in which each pipeline rank executes the forward and backward "
      "passes of a step's micro-batches. It determines how long ranks wait for each other (the "
      "bubble) and how many activations they hold.");
  group.note(
      "First: `troupe schedule plan` lists the named schedules; `troupe schedule simulate 1f1b "
      "zb-h1 --ranks 4 --microbatches 8` compares two.");
}

}  // namespace troupe::command
