#include "runtime/telemetry/plot.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/telemetry/run_table.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using runtime::curve;
using runtime::curve_point;
using runtime::run_table;

struct plot_flags {
  std::vector<std::string> runs;
  fs::path output = "loss.svg";
  std::string title;
  std::string y = "loss", x = "iteration";
  std::int64_t smooth = 1;
  bool logarithmic = false;
};

struct named_run {
  fs::path log;
  std::string name;
  run_table table;
};

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string y_label(const std::string& field) {
  const std::pair<const char*, const char*> known[]
      = {{"loss", "loss (nats per token)"},
         {"lm_loss", "training loss (nats per token)"},
         {"validation_loss", "validation loss (nats per token)"},
         {"grad_norm", "norm of the gradient"},
         {"learning_rate", "learning rate"},
         {"tokens_per_second", "tokens per second"},
         {"elapsed_ms", "time of a step (ms)"},
         {"params_norm", "norm of the parameters"},
         {"num_zeros", "zeros in the gradient"},
         {"teraflops_per_second", "TFLOP/s of the model"}};
  for (const auto& [name, label] : known)
    if (field == name)
      return label;
  return field;
}

std::string x_label(const std::string& x) {
  return x == "time" ? "time in steps (s)" : x;
}

/// Moves points from their iterations to positions on the x axis. A validation gets the position of
/// its step.
std::vector<curve_point> placed(const std::vector<curve_point>& points,
                                const named_run& run,
                                const std::string& x) {
  if (x == "iteration")
    return points;
  const std::string field = x == "samples"  ? "consumed_samples"
                            : x == "tokens" ? "consumed_tokens"
                                            : "elapsed_ms";
  auto places = run.table.by_iteration(field);
  if (places.empty())
    throw runtime::input_error("cannot plot '{}' by --x {}: its records have no '{}'; they have {}",
                               run.log.string(),
                               x,
                               field,
                               listed(run.table.fields()));
  if (x == "time") {
    double seconds = 0;
    for (auto& place : places)
      place.y = seconds += place.y / 1e3;
  }
  std::vector<curve_point> out;
  auto at = places.begin();
  for (const auto& p : points) {
    at = std::find_if(at, places.end(), [&](const auto& place) { return place.x >= p.x; });
    if (at != places.end() && at->x == p.x)
      out.push_back({at->y, p.y});
  }
  return out;
}

std::vector<named_run> read_runs(const plot_flags& flags) {
  if (flags.runs.empty())
    throw usage_error(
        "name a run, or several: a --save folder, or a file written by --log-file or "
        "--log-csv");
  if (const auto kind = flags.output.extension();
      kind == ".png" || kind == ".pdf" || kind == ".jpg" || kind == ".jpeg")
    throw usage_error(
        "--output '{}': the picture is SVG; name it .svg, and convert it with rsvg-convert "
        "(Debian's librsvg2-bin)",
        flags.output.string());
  std::vector<fs::path> logs;
  for (const auto& run : flags.runs)
    logs.push_back(runtime::find_log(run));
  runtime::require_no_input("--output", flags.output, logs);
  const auto names = runtime::names_of_runs(logs);
  std::vector<named_run> out;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    out.push_back({logs[i], names[i], run_table(logs[i])});
    for (const auto number : out.back().table.skipped())
      runtime::log_warning(
          "'{}': line {} is not a record of a step and is skipped", logs[i].string(), number);
  }
  return out;
}

/// The curves of one run for --y. With --smooth, each smoothed curve has a pale original behind it.
std::vector<curve> curves_of(const named_run& run,
                             int number,
                             bool alone,
                             const plot_flags& flags) {
  std::vector<curve> out;
  const auto add = [&](const std::string& field, const std::string& what, int colour) {
    auto points = placed(run.table.by_iteration(field), run, flags.x);
    if (points.empty())
      return;
    const bool few = field == "validation_loss";
    const auto label = alone ? what : run.name + (flags.y == "loss" ? ": " + what : "");
    curve x{label, points, few, colour};
    if (flags.smooth > 1 && !few) {
      out.push_back({"", std::move(points), false, colour, true});
      x.points = runtime::smoothed(x.points, int(flags.smooth));
    }
    out.push_back(std::move(x));
  };
  if (flags.y == "loss") {
    add(run.table.loss_field(), "training", number);
    add("validation_loss", "validation", alone ? 1 : number);
  } else {
    add(flags.y, flags.y, number);
  }
  return out;
}

/// One mark for each restart that --x can place. Many marks have no labels.
std::vector<runtime::plot_mark> restarts_of(const named_run& run, const plot_flags& flags) {
  constexpr std::size_t most_labels = 6;
  std::vector<runtime::plot_mark> out;
  for (const auto& event : run.table.events())
    if (event.kind == "restart")
      for (const auto& at : placed({{double(event.iteration), 0}}, run, flags.x))
        out.push_back({at.x,
                       event.seconds
                           ? fmt::format("{}; next step after {:.1f} s", event.why, *event.seconds)
                           : event.why});
  if (out.size() > most_labels)
    for (auto& mark : out)
      mark.label.clear();
  return out;
}

std::string number_or_dash(std::optional<double> x, const char* format) {
  return x ? fmt::format(fmt::runtime(format), *x) : "-";
}

std::optional<double> last_of(const run_table& table, const std::string& field) {
  const auto points = table.by_iteration(field);
  return points.empty() ? std::nullopt : std::optional(points.back().y);
}

std::optional<double> median_of(const run_table& table, const std::string& field) {
  auto points = table.by_iteration(field);
  if (points.empty())
    return std::nullopt;
  const auto middle = points.begin() + std::ptrdiff_t(points.size() / 2);
  std::nth_element(
      points.begin(), middle, points.end(), [](const auto& a, const auto& b) { return a.y < b.y; });
  return middle->y;
}

std::string best_validation(const run_table& table) {
  const auto points = table.by_iteration("validation_loss");
  const auto best = std::min_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.y < b.y; });
  return best == points.end() ? "-" : fmt::format("{:.4f} at {:.0f}", best->y, best->x);
}

void print_table(const std::vector<named_run>& runs) {
  std::size_t widest = 3;
  for (const auto& run : runs)
    widest = std::max(widest, run.name.size());
  const auto row = [&](const auto&... cells) {
    print_page("{:<{}}  {:>9}  {:>9}  {:>18}  {:>10}  {:>8}\n", cells...);
  };
  row("run", widest, "iteration", "last loss", "best validation", "tokens/s", "skipped");
  for (const auto& run : runs)
    row(run.name,
        widest,
        run.table.last_iteration(),
        number_or_dash(last_of(run.table, run.table.loss_field()), "{:.4f}"),
        best_validation(run.table),
        number_or_dash(median_of(run.table, "tokens_per_second"), "{:.0f}"),
        number_or_dash(last_of(run.table, "skipped_iterations"), "{:.0f}"));
}

int plot_runs(const plot_flags& flags) {
  const auto runs = read_runs(flags);
  std::vector<curve> curves;
  std::vector<runtime::plot_mark> marks;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    auto some = curves_of(runs[r], int(r), runs.size() == 1, flags);
    if (some.empty())
      throw runtime::input_error(
          "cannot plot '{}': {}; its records have {}",
          runs[r].log.string(),
          flags.y == "loss" ? "it has no losses yet" : fmt::format("it has no '{}'", flags.y),
          listed(runs[r].table.fields()));
    std::move(some.begin(), some.end(), std::back_inserter(curves));
    const auto more = restarts_of(runs[r], flags);
    marks.insert(marks.end(), more.begin(), more.end());
  }
  auto x = x_label(flags.x);
  if (flags.smooth > 1)
    x += fmt::format(" (means of {} steps)", flags.smooth);
  const auto title = !flags.title.empty() ? flags.title
                     : flags.y == "loss"  ? std::string("Loss")
                                          : flags.y;
  const bool sums = flags.y == "loss" && std::ranges::any_of(runs, [](const named_run& run) {
                      return run.table.loss_field() == "loss";
                    });
  const auto y = sums ? "weighted sum of the losses" : y_label(flags.y);
  const auto picture = runtime::svg_plot({title, x, y, flags.logarithmic}, curves, marks);
  if (flags.output == "-") {
    print_data(picture);
    return 0;
  }
  runtime::write_text(flags.output, picture);
  std::error_code failure;
  if (fs::is_regular_file(flags.output, failure)) {  // otherwise it may be standard output
    print_table(runs);
    print_page("wrote '{}'\n", flags.output.string());
  }
  return 0;
}

}  // namespace

void add_plot(command_line& program) {
  auto& line = program.command("plot", "draws the logs of runs in one picture (SVG).");
  const auto flags = std::make_shared<plot_flags>();
  line.words("RUN...",
             "Runs to compare: --save folders, which contain the log, or files written by "
             "--log-file or --log-csv.",
             flags->runs);
  line.value({.name = "--output",
              .type = "FILE",
              .help = "Picture to write, in SVG; - is standard output."},
             text(flags->output));
  line.value({.name = "--y",
              .type = "FIELD",
              .help = "Field to draw: loss (of training and validation), or any field of the log, "
                      "such as validation_loss, grad_norm, learning_rate, tokens_per_second."},
             text(flags->y));
  line.value(
      {.name = "--x",
       .type = "AXIS",
       .help = "Horizontal axis: iteration, samples, tokens, or time (seconds spent in steps)."},
      one_of(flags->x, {"iteration", "samples", "tokens", "time"}));
  line.value({.name = "--smooth",
              .type = "N",
              .unit = "steps",
              .help = "Draws means of N steps, with the original curve pale behind them. "
                      "Validations are not smoothed."},
             whole(flags->smooth, 1));
  line.toggle("--log-y", "Logarithmic y axis.", [flags] { flags->logarithmic = true; });
  line.value({.name = "--title",
              .type = "TEXT",
              .default_value = "the drawn field",
              .help = "Title above the picture."},
             text(flags->title));
  line.note(
      "Prints a table with, for each run, the newest iteration and loss, the best validation, the "
      "median of tokens per second, and the number of skipped steps. Dashed red lines in the "
      "picture are restarts.");
  line.runs([flags] { return plot_runs(*flags); });
}

}  // namespace troupe::command
