#include "actors/command/cluster_file.hpp"
#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/forecast_page.hpp"
#include "actors/command/print.hpp"
#include "actors/command/shape_and_layout.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace troupe::command {
namespace {

struct forecast_flags {
  std::string cluster;
  std::optional<double> failure_hours;
  runtime::assumed_parts assumed;
  bool json = false, search = false;
};

runtime::cluster_outline cluster_of(const forecast_flags& flags) {
  if (flags.cluster.empty())
    throw usage_error(
        "--cluster is missing: give the description of a cluster, such as those in "
        "examples/clusters");
  return read_cluster(flags.cluster);
}

int forecast(const training_flags& given, const forecast_flags& flags) {
  const auto on = cluster_of(flags);
  const auto job = resolve(shape_and_layout(given));
  told_forecast told{
      .job = job,
      .on = on,
      .of = runtime::forecast_job(job, on, 3600 * flags.failure_hours.value_or(0), flags.assumed),
      .largest = {}};
  told.largest = std::ranges::max(
      runtime::forecast_workers(job), {}, [](const auto& x) { return x.need.peak(); });
  if (flags.json)
    print_json(forecast_json(told));
  else
    print_page(forecast_page(told));
  return 0;
}

/// The flags without a layout, so that they resolve for any number of workers.
training_flags without_layout(training_flags flags) {
  std::erase_if(flags.given, [](const std::string& setting) {
    return setting.starts_with("layout.") || setting.starts_with("recompute.");
  });
  const auto order = flags.job.layout.order;
  flags.job.layout = {.order = order};
  flags.layout = {};
  flags.recompute = {};
  flags.job.training.batch.micro = 1;
  flags.given.insert("batch.micro");
  return shape_and_layout(std::move(flags));
}

int search(const training_flags& given, const forecast_flags& flags) {
  const auto on = cluster_of(flags);
  if (flags.assumed.fp8 || flags.assumed.context > 1)
    throw usage_error(
        "--search compares layouts of `troupe train`: leave out --assume-fp8 and "
        "--assume-context-ranks");
  if (!given.given.contains("batch.global"))
    throw usage_error("--search needs --global-batch-size: the step whose time it compares");
  const bool has_world = given.given.contains("layout.world");
  if (!has_world && on.devices() > runtime::most_workers)
    throw usage_error(
        "--search needs --world-size: the cluster '{}' has {} devices, but a run has "
        "at most {} workers",
        on.name,
        on.devices(),
        runtime::most_workers);
  const auto job = resolve(without_layout(given));
  const auto& description = job.training.model;
  const auto model = runtime::outline_of_model(job);
  auto base = runtime::outline_of_step(job);
  base.world = has_world ? given.job.layout.world : on.devices();
  runtime::search_limits limits;
  for (const auto& x : description.family().shared_by_tensor_ranks(description))
    limits.tensor_divides.push_back(x.size);
  if (const auto experts = description.family().shared_by_expert_ranks(description);
      !experts.empty())
    limits.experts = experts.front().size;
  const told_search told{
      .job = job,
      .on = on,
      .world = base.world,
      .global = base.global,
      .flops = runtime::training_flops(
          runtime::spec_of(job.training), runtime::schema_of(job), double(base.global)),
      .found = runtime::search_layouts(model, base, on, limits)};
  if (flags.json)
    print_json(search_json(told));
  else
    print_page(search_page(told));
  return 0;
}

void declare_forecast(command_line& line, const runtime::model_family& family) {
  const auto given = std::make_shared<training_flags>(family);
  const auto flags = std::make_shared<forecast_flags>();
  line.value("--cluster",
             "FILE",
             "Description of the cluster (docs/formats/cluster.md). Required.",
             text(flags->cluster));
  line.value({.name = "--failure-hours",
              .type = "H",
              .unit = "hours",
              .default_value = "by the cluster's description and the number of workers",
              .help = "Mean time between failures of the run."},
             real(flags->failure_hours, 0.001, 1e6));
  line.toggle("--assume-fp8",
              "Forecasts the products of layers in FP8, which `troupe train` does not have. Needs "
              "`device.fp8` in the description.",
              [flags] { flags->assumed.fp8 = true; });
  line.value({.name = "--assume-context-ranks",
              .type = "N",
              .default_value = "1",
              .help = "Forecasts N devices in place of each worker, which share its sequences; "
                      "`troupe train` does not have them. The memory printed is that of whole "
                      "sequences."},
             whole(flags->assumed.context, 1, 1024));
  line.toggle("--search",
              "Compares the layouts that fit on --world-size devices, or on all, and prints "
              "the ten best. Ignores the layout, --micro-batch-size and recomputation.",
              [flags] { flags->search = true; });
  line.toggle("--json", "Prints JSON: seconds, bytes and floating-point operations.", [flags] {
    flags->json = true;
  });
  declare(line, *given);
  line.begins_with(
      fmt::format("Required: --cluster, {}--micro-batch-size; --vocab-size, --tokenizer DIR or "
                  "--tokenizer-type{}.",
                  needed_by(family, line).names,
                  family.hub() == nullptr ? "" : ", unless the --load-hf folder has a tokenizer"));
  line.note(fmt::format(
      "Takes the flags and configurations of `troupe train {}`; only shape, batch, layout, "
      "schedule and precision matter. Nothing runs: times follow from operations, bytes, and the "
      "links that each group of ranks uses.",
      family.name()));
  line.tells_besides([given, flags] {
    return what_is_missing(flags->search ? without_layout(*given) : shape_and_layout(*given));
  });
  line.runs(
      [given, flags] { return flags->search ? search(*given, *flags) : forecast(*given, *flags); });
}

}  // namespace

void add_forecast(command_line& program) {
  constexpr const char* about = "forecasts the speed and the goodput of a run on a cluster.";
  auto& line = program.command("forecast", about);
  declare_forecast(line, runtime::default_family());
  line.begins_with(
      "Example: troupe forecast --cluster examples/clusters/h100.yaml --num-layers 32 "
      "--hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size 128256 "
      "--micro-batch-size 1 --global-batch-size 128 --world-size 64 --bf16 "
      "--use-distributed-optimizer");
  for (const auto* family : runtime::families())
    declare_forecast(line.command(std::string(family->name()), about), *family);
}

}  // namespace troupe::command
