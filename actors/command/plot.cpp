#include "runtime/telemetry/plot.hpp"

#include "actors/command/commands.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/log.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::command {
namespace {

using runtime::curve;

struct plot_flags {
  std::vector<std::string> logs;
  std::filesystem::path output = "loss.svg";
  std::string title = "Loss";
};

/// The two curves of one log. A last line without its end is one that is being written; a line that
/// is no record is skipped, unless there is none that is one.
std::pair<curve, curve> read_log(const std::filesystem::path& path) {
  const runtime::mapped_file file(path);
  std::pair<curve, curve> out;
  auto& [training, validation] = out;
  validation.marked = true;
  std::string_view rest = file.text();
  std::vector<std::size_t> skipped;
  bool is_log = false;
  for (std::size_t number = 1; rest.find('\n') != std::string_view::npos; ++number) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("iteration") || !entry["iteration"].is_number()) {
      skipped.push_back(number);
      continue;
    }
    is_log = true;
    const auto take = [&](const char* key, curve& to) {
      if (const auto found = entry.find(key); found != entry.end() && found->is_number())
        to.points.push_back({entry["iteration"].get<double>(), found->get<double>()});
    };
    take("lm_loss", training);
    take("validation_loss", validation);
  }
  if (!is_log && !skipped.empty())
    throw runtime::input_error(
        "cannot plot '{}': line {} is no JSON object with an 'iteration'; give a file that "
        "`troupe train` wrote by --log-file",
        path.string(),
        skipped.front());
  for (const auto number : skipped)
    runtime::log_warning("'{}': line {} is no JSON object with an 'iteration'; it is left out",
                         path.string(),
                         number);
  if (training.points.empty() && validation.points.empty())
    throw runtime::input_error("cannot plot '{}': it has no losses yet", path.string());
  return out;
}

int plot_logs(const plot_flags& flags) {
  if (flags.logs.empty())
    throw usage_error("name a log, or several: what `troupe train` wrote by --log-file");
  std::error_code failure;
  for (const auto& log : flags.logs)
    if (std::filesystem::equivalent(log, flags.output, failure))
      throw usage_error(
          "--output '{}' is a log that is to be drawn: name another file for the "
          "picture",
          flags.output.string());
  std::vector<curve> curves;
  for (const auto& log : flags.logs) {
    auto [training, validation] = read_log(log);
    const auto name
        = flags.logs.size() == 1 ? "" : std::filesystem::path(log).stem().string() + ": ";
    training.label = name + "training";
    validation.label = name + "validation";
    for (auto* x : {&training, &validation})
      if (!x->points.empty())
        curves.push_back(std::move(*x));
  }
  const runtime::plot_text text{flags.title, "iteration", "loss (nats per token)"};
  runtime::write_text(flags.output, runtime::svg_plot(text, curves));
  if (std::filesystem::is_regular_file(flags.output, failure))
    fmt::print("wrote '{}'\n", flags.output.string());
  return 0;
}

}  // namespace

void add_plot(command_line& program) {
  auto& line = program.command("plot", "draws the losses of training logs as an SVG.");
  const auto flags = std::make_shared<plot_flags>();
  line.words("LOG...", "Files written by --log-file; several are drawn together.", flags->logs);
  line.value("--output", "FILE", "The picture. Default loss.svg.", text(flags->output));
  line.value("--title", "TEXT", "Above the picture. Default Loss.", text(flags->title));
  line.runs([flags] { return plot_logs(*flags); });
}

}  // namespace troupe::command
