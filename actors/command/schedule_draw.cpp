#include "actors/command/print.hpp"
#include "actors/command/schedule_plans.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/terminal_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/schedule/draw.hpp"
#include "runtime/schedule/lower.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using runtime::drawn_timeline;

struct draw_flags : schedule_flags {
  fs::path svg, trace, executed;
  std::optional<std::uint64_t> step;
  std::optional<int> width;
  bool memory = false;
};

bool was_given(const command_line& line, std::string_view flag) {
  return std::any_of(line.given().begin(), line.given().end(), [&](std::string_view word) {
    return word == flag || (word.starts_with(flag) && word.substr(flag.size()).starts_with("="));
  });
}

void require_sense(const draw_flags& flags, const command_line& line) {
  if (flags.names.empty() || (!flags.executed.empty() && flags.names.size() != 1))
    only_name(flags, line);
  if (flags.executed.empty() != !flags.step)
    throw usage_error(
        "--executed and --step need each other: the trace of a run, as `troupe train --trace FILE` "
        "writes it, and one of its steps");
  if (const auto kind = flags.svg.extension();
      kind == ".png" || kind == ".pdf" || kind == ".jpg" || kind == ".jpeg")
    throw usage_error(
        "--svg '{}': the picture is SVG; name it .svg, and convert it with rsvg-convert (Debian's "
        "librsvg2-bin)",
        flags.svg.string());
  if (flags.svg == "-" && flags.trace == "-")
    throw usage_error("--svg - and --trace -: only one can go to standard output");
  if (runtime::name_one_file(flags.svg, flags.trace))
    throw usage_error("--svg and --trace both name '{}': give each its own file",
                      flags.svg.string());
  std::vector<fs::path> read(flags.names.begin(), flags.names.end());
  read.push_back(flags.executed);
  runtime::require_no_input("--svg", flags.svg, read);
  runtime::require_no_input("--trace", flags.trace, read);
}

/// Mean costs of each chunk's actions, in ms.
std::vector<runtime::action_costs> mean_costs(const runtime::plan& plan,
                                              const runtime::timeline& executed) {
  std::vector<runtime::action_costs> out(std::size_t(plan.chunks), {0, 0, 0, 0, 0});
  for (const auto& rank : executed.ranks)
    for (const auto& x : rank.actions) {
      auto& of = out[value(x.what.chunk)];
      const double share = (x.end - x.begin) / plan.microbatches;
      (x.what.kind == runtime::action_kind::forward            ? of.forward
       : x.what.kind == runtime::action_kind::input_gradients  ? of.input_gradients
       : x.what.kind == runtime::action_kind::weight_gradients ? of.weight_gradients
                                                               : of.recompute)
          += share;
    }
  return out;
}

/// Notes for the caption. Longer ones go to standard error, because the picture may go to standard
/// output.
std::vector<std::string> notes_on(const runtime::executed_step& x) {
  std::vector<std::string> out;
  if (!x.other_order.empty())
    out.emplace_back("in another order than planned");
  for (const auto& rank : x.other_order)
    std::fprintf(stderr, "note: %s\n", runtime::message_text(rank).c_str());
  if (x.pairs_apart > 0)
    out.push_back(fmt::format("the two of {} ran one after the other (a lane does one at a time)",
                              x.pairs_apart == x.pairs
                                  ? "a pair"
                                  : fmt::format("{} of {} pairs", x.pairs_apart, x.pairs)));
  return out;
}

/// The planned step above the executed one. Without --times, the plan uses the mean times of the
/// executed step.
std::vector<drawn_timeline> planned_and_executed(const draw_flags& flags,
                                                 const command_line& line) {
  const auto& name = flags.names.front();
  auto plan = sound_plan_of(name, flags).what;
  for (auto& row : plan.ranks)
    row = runtime::with_split_backward(row);
  const auto trace = runtime::read_text(flags.executed);
  auto executed = runtime::executed_from_trace(trace, flags.executed.string(), plan, *flags.step);
  auto by = costs_of(plan, flags);
  if (!was_given(line, "--times"))
    by.costs = mean_costs(plan, executed.what);
  auto planned = runtime::simulate(plan, by);
  const auto notes = notes_on(executed);
  const auto title = runtime::without_control(name);
  return {{fmt::format("{}, planned", title), std::move(planned), plan.copies, "ms"},
          {fmt::format("{}, executed, step {}", title, *flags.step),
           std::move(executed.what),
           plan.copies,
           "ms",
           fmt::format("{}", fmt::join(notes, "; "))}};
}

std::vector<drawn_timeline> timelines(const draw_flags& flags, const command_line& line) {
  if (!flags.executed.empty())
    return planned_and_executed(flags, line);
  std::vector<drawn_timeline> out;
  for (const auto& name : flags.names) {
    const auto plan = sound_plan_of(name, flags).what;
    out.push_back({runtime::without_control(name),
                   runtime::simulate(plan, costs_of(plan, flags)),
                   plan.copies});
  }
  return out;
}

void write(const fs::path& to, const std::string& text) {
  if (to.empty())
    return;
  if (to == "-") {
    print_data(text);
    return;
  }
  runtime::write_text(to, text);
  std::error_code failure;
  if (fs::is_regular_file(to, failure))  // otherwise it may be standard output
    print_page("wrote '{}'\n", to.string());
}

runtime::text_settings terminal() {
  winsize size = {};
  const char* const kind = std::getenv("TERM");
  const bool is_one = ::isatty(STDOUT_FILENO) == 1;
  const bool sized = is_one && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // https://no-color.org
  const char* const plain = std::getenv("NO_COLOR");
  const bool colours = is_one && kind != nullptr && *kind != '\0'
                       && std::string_view(kind) != "dumb" && (plain == nullptr || *plain == '\0');
  return {sized ? size.ws_col : 80, colours};
}

int draw(const draw_flags& flags, const command_line& line) {
  require_sense(flags, line);
  const auto all = timelines(flags, line);
  if (flags.svg.empty() && flags.trace.empty()) {
    auto settings = terminal();
    settings.width = flags.width.value_or(settings.width);
    print_data(runtime::to_text(all, settings));
    return 0;
  }
  if (!flags.svg.empty())
    write(flags.svg, runtime::to_svg(all, {flags.width.value_or(1200), flags.memory}));
  if (!flags.trace.empty())
    write(flags.trace, runtime::to_chrome_trace(all));
  return 0;
}

}  // namespace

void add_schedule_draw(command_line& group) {
  const auto flags = std::make_shared<draw_flags>();
  auto& line = group.command(
      "draw", "draws when each rank does what: on the terminal, as SVG, or as a trace.");
  line.words("NAME|FILE",
             "Schedules by name; plans, FILE.csv; or scripts, FILE.lua. Several are drawn below "
             "each other, on one axis of time.",
             flags->names);
  declare_plan(line, *flags);
  declare_costs(line, *flags);
  line.group("Executed step");
  line.value("--executed",
             "FILE",
             "Trace of a run by this plan, from `troupe train --trace FILE`; drawn below the plan. "
             "Without --times, the plan uses the times of the trace.",
             text(flags->executed));
  line.value("--step",
             "N",
             "Step of that trace.",
             whole(flags->step, 1, std::numeric_limits<std::int64_t>::max()));
  line.group("Form");
  line.value("--svg", "FILE", "Writes a picture in SVG; - is standard output.", text(flags->svg));
  line.value("--trace",
             "FILE",
             "Writes a trace for Chrome or https://ui.perfetto.dev; - is standard output.",
             text(flags->trace));
  line.toggle("--memory", "Draws the memory of each rank below its row of the picture.", [flags] {
    flags->memory = true;
  });
  line.value({.name = "--width",
              .type = "N",
              .default_value = "1200 pixels; the terminal's columns, or 80",
              .help = "Width of the picture in pixels, or of the text in columns."},
             whole(flags->width, 20, 20000));
  line.note(
      "On the terminal a line is a rank. An action is its letter (F forward, B backward, I "
      "gradients of the input, W gradients of the weights, R recompute, P an overlapped pair), its "
      "micro-batch if there is room, and dashes to its end. Small letters: a later chunk of the "
      "rank, or the second copy of the model. Dots: idle.");
  line.note("Example: troupe schedule draw 1f1b zb-h1 --ranks 4 --microbatches 8 --svg both.svg");
  line.note(
      "Example: troupe schedule draw 1f1b --ranks 2 --microbatches 8 --executed trace.json --step "
      "20 --svg executed.svg");
  line.runs([flags, &line] { return draw(*flags, line); });
}

}  // namespace troupe::command
