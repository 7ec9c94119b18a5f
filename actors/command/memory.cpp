#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/memory_advice.hpp"
#include "actors/command/print.hpp"
#include "actors/command/shape_and_layout.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/ranges_text.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/forecast/peer_memory.hpp"
#include "runtime/forecast/process_forecast.hpp"
#include "runtime/forecast/program_memory.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;
using runtime::forecast_group;

std::int64_t microbatches_of(const runtime::training_job& job) {
  const auto& b = job.training.batch;
  return b.global / (b.micro * b.data_parallel);
}

/// Floating-point operations of a training step on `samples` sequences.
double operations(const runtime::training_job& job, double samples) {
  return runtime::training_flops(runtime::spec_of(job.training), runtime::schema_of(job), samples);
}

double operations(const runtime::training_job& job) {
  return operations(job, double(job.training.batch.global));
}

double operations_per_token(const runtime::training_job& job) {
  return operations(job, 1) / double(job.training.model.sequence());
}

std::string heads_text(const runtime::training_job& job) {
  const auto& m = job.training.model;
  const auto& b = job.training.batch;
  const auto& l = job.layout;
  const auto parameters = runtime::parameter_count(runtime::spec_of(job.training));
  return fmt::format(
      "parameters  {} ({} with the padding of the vocabulary to {})\n"
      "step        {} of {}: {:.4g} floating-point operations, {:.5g} per token\n"
      "            (Megatron-LM's count: forward and backward, causal attention half, no "
      "recomputation)\n"
      "workers     {}: {} tensor{} x {} pipeline x {} data{}; {} of {} each, {}\n",
      parameters,
      runtime::parameter_count(runtime::spec_of(job.training), true),
      m.padded_vocabulary(),
      runtime::counted(b.global, "sample"),
      runtime::counted(m.sequence(), "token"),
      operations(job),
      operations_per_token(job),
      l.world,
      l.tensor,
      l.sequence_parallel ? " (sequence parallel)" : "",
      l.pipeline,
      l.world / (l.tensor * l.pipeline),
      expert_ranks_text(job),
      runtime::counted(
          microbatches_of(job) * l.replicas_per_worker, "micro-batch", "micro-batches"),
      b.micro,
      to_string(job.training.precision));
}

/// One entry per stage: the number of its workers, and the most that one needs of each kind.
std::vector<forecast_group> by_stages(const std::vector<forecast_group>& groups) {
  std::vector<forecast_group> out;
  for (const auto& x : groups) {
    if (out.empty() || out.back().pipeline != x.pipeline) {
      out.push_back(x);
      continue;
    }
    auto& all = out.back();
    all.last_data = x.last_data;
    all.ranks += x.ranks;
    all.need.optimizer = std::max(all.need.optimizer, x.need.optimizer);
    all.need.beside = std::max(all.need.beside, x.need.beside);
    all.need.snapshot = std::max(all.need.snapshot, x.need.snapshot);
    all.need.state = std::max(all.need.state, x.need.state);
  }
  return out;
}

std::int64_t together(const std::vector<forecast_group>& groups) {
  std::int64_t all = 0;
  for (const auto& x : groups)
    all += x.need.peak() * x.ranks;
  return all;
}

std::string forecast_text(const std::vector<forecast_group>& groups) {
  constexpr const char* form = "{:>5}  {:>7}  {:>10}  {:>9}  {:>9}  {:>11}  {:>7}  {:>9}\n";
  const auto row = [&](const auto&... cells) { return fmt::format(fmt::runtime(form), cells...); };
  auto out
      = "\nTroupe's forecast: the memory of each stage's largest worker (from a rehearsal of\n"
        "one step with operations that do nothing)\n"
        + row("stage",
              "workers",
              "parameters",
              "gradients",
              "optimizer",
              "activations",
              "all",
              "saving");
  for (const auto& x : by_stages(groups))
    out += row(x.pipeline,
               x.ranks,
               runtime::human_bytes(x.need.parameters),
               runtime::human_bytes(x.need.gradients),
               runtime::human_bytes(x.need.optimizer + x.need.beside),
               runtime::human_bytes(x.need.activations + x.need.left_by_others + x.need.verified),
               runtime::human_bytes(x.need.peak()),
               "+ " + runtime::human_bytes(x.need.snapshot));
  const bool keeps
      = std::any_of(groups.begin(), groups.end(), [](const auto& x) { return x.need.beside > 0; });
  const bool leaves = std::any_of(
      groups.begin(), groups.end(), [](const auto& x) { return x.need.left_by_others > 0; });
  const bool verifies = std::any_of(
      groups.begin(), groups.end(), [](const auto& x) { return x.need.verified > 0; });
  return out + fmt::format("all workers together {}\n", runtime::human_bytes(together(groups)))
         + (verifies ? "'activations' includes what --verify-fraction keeps of the passes that it "
                       "recomputes\n"
                     : "")
         + (leaves ? "'activations' includes gradients that a late stage has not taken yet\n" : "")
         + (keeps ? "'optimizer' includes the previous state, which --recovery on keeps\n" : "");
}

/// The worker that needs most if its experts get `load` times the balanced number of rows.
struct loaded_worker {
  const char* routing;
  double load = 1;
  runtime::memory_forecast need = {};
};

/// The worker that needs most, for each load; empty for a model without experts. `skew`: a chosen
/// load.
std::vector<loaded_worker> loaded_workers(const runtime::training_job& job,
                                          const std::vector<forecast_group>& balanced,
                                          std::optional<double> skew) {
  const auto most = runtime::most_expert_load(job);
  if (most == 0)
    return {};
  std::vector<loaded_worker> out = {{"balanced", std::min(1.0, most)}};
  if (skew)
    out.push_back({"chosen", std::min(*skew, most)});
  out.push_back({"worst", most});
  const auto peak = [](const forecast_group& x) { return x.need.peak(); };
  for (auto& x : out)
    x.need = std::ranges::max(
                 x.load == 1 ? balanced : runtime::forecast_workers(job, x.load), {}, peak)
                 .need;
  return out;
}

/// True if the gradients of experts by source are the largest item of the worker.
bool is_mostly_sources(const runtime::training_job& job, const runtime::memory_forecast& need) {
  return job.layout.sums_by_source()
         && need.gradients > std::max({need.parameters,
                                       need.optimizer + need.beside,
                                       need.activations + need.left_by_others + need.verified});
}

std::string experts_text(const runtime::training_job& job, const std::vector<loaded_worker>& all) {
  if (all.empty())
    return "";
  constexpr const char* form = "{:>8}  {:>6}  {:>11}  {:>9}\n";
  const auto row = [&](const auto&... cells) { return fmt::format(fmt::runtime(form), cells...); };
  auto out = "\nThe largest worker by the rows that its experts get, relative to balanced routing\n"
             + row("routing", "rows", "activations", "all");
  for (const auto& x : all)
    out += row(x.routing,
               fmt::format("{:.3g}", x.load),
               runtime::human_bytes(x.need.activations + x.need.left_by_others + x.need.verified),
               runtime::human_bytes(x.need.peak()));
  if (is_mostly_sources(job, all.front().need))
    out += fmt::format(
        "gradients are the largest item: those of experts exist {} times, one for "
        "each worker\nthat sends rows; --expert-gradient-sums together needs one\n",
        job.layout.expert);
  return out;
}

std::vector<runtime::process_forecast> processes_of(const runtime::training_job& job,
                                                    const std::vector<forecast_group>& groups) {
  return runtime::forecast_processes(job, needs_by_rank(job, groups));
}

/// Empty for a run in one process.
std::string processes_text(const std::vector<runtime::process_forecast>& processes) {
  if (processes.empty())
    return "";
  constexpr const char* form = "{:>7}  {:>9}  {:>10}  {:>12}  {:>10}\n";
  const auto row = [&](const auto&... cells) { return fmt::format(fmt::runtime(form), cells...); };
  std::string out
      = "\nEach process: its workers, and the states that it keeps for another one's ranks\n"
        "(the two newest, and one more while it is taken over or written to the local disk)\n"
        + row("process", "ranks", "workers", "kept", "all");
  for (std::size_t p = 0; p < processes.size(); ++p) {
    const auto& x = processes[p];
    out += row(p,
               runtime::ranges_of(x.ranks),
               runtime::human_bytes(x.workers),
               runtime::human_bytes(x.keeping()),
               runtime::human_bytes(x.peak()));
  }
  return out;
}

std::string growth_text(const runtime::training_job& job) {
  const bool rounded = job.training.precision != runtime::dtype::f32;
  const bool distributed = job.reduction.distributed_optimizer;
  const bool has_experts = runtime::most_expert_load(job) > 0;
  return fmt::format(
      "\nWhat memory grows with\n"
      "  parameters   {} bytes per parameter of a worker; fewer with tensor and pipeline ranks{}\n"
      "  gradients    4 bytes per parameter, for each of --replicas-per-worker; twice for a tied\n"
      "               embedding if a stage has both its uses, which are added at the end.\n"
      "               A worker that reduces alone has memory for them only from the backward\n"
      "               pass to the update, in place of activations; 'activations' counts what\n"
      "               both need beyond that. With several micro-batches per step both exist\n"
      "               at once{}{}\n"
      "  optimizer    {} bytes per parameter: two moments{}; {}\n"
      "  activations  grow with --micro-batch-size x --seq-length x --hidden-size x the layers\n"
      "               of a stage x the micro-batches in flight (one more than the stages that\n"
      "               follow), and on the last stage with the vocabulary; shrink with tensor\n"
      "               ranks, more with --sequence-parallel, and with\n"
      "               --recompute-granularity selective or full{}\n"
      "  saving       what a checkpoint copies until it is written; from a device to host memory\n",
      rounded ? 2 : 4,
      has_experts ? ",\n               those of experts also with expert and expert tensor ranks"
                  : "",
      job.layout.sums_by_source() ? ". Those of experts exist for each expert rank,\n"
                                    "               unless --expert-gradient-sums together"
                                  : "",
      !rounded || job.recovery.on ? ""
                                  : ".\n"
                                    "               In the last one, a layer's gradients reuse the "
                                    "memory of its parameters, which the\n"
                                    "               update restores from the master weights: "
                                    "'gradients' counts the 2 bytes per\n"
                                    "               parameter that they need beyond that",
      job.recovery.on ? 12 + (rounded ? 12 : 8) : (rounded ? 12 : 8),
      job.recovery.on ? " and the fp32 weights of two states (--recovery on)"
      : rounded       ? " and the fp32 master weights"
                      : "",
      distributed ? "sharded over the data ranks"
                  : "all of it on every data rank, unless --use-distributed-optimizer shards it",
      has_experts ? ".\n               Those of experts also grow with --moe-router-topk, and with "
                    "uneven routing"
                  : "");
}

/// Empty if the model's family has no formula.
std::string megatron_text(const runtime::training_job& job) {
  const auto found = runtime::megatron_memory(job);
  return found ? "\nMegatron-LM's own estimate for its largest worker, by its formula (its "
                 "MB is 2^20 bytes; above, 10^6)\n  "
                     + to_text(*found) + "\n"
               : "";
}

/// Empty if no estimate exists for this kind of run.
std::string pytorch_text(const runtime::training_job& job,
                         const std::vector<forecast_group>& groups) {
  if (job.backend != runtime::backend_kind::cuda || !has_pytorch_estimate(job))
    return "";
  constexpr const char* form = "{:>9}  {:>10}  {:>9}  {:>9}  {:>12}  {:>11}  {:>9}  {:>9}\n";
  const auto row = [&](const auto&... cells) { return fmt::format(fmt::runtime(form), cells...); };
  std::string out
      = "\nEstimate for PyTorch on each device (AdamW, fp32 parameters, autocast, flash "
        "attention,\n"
        "no recomputation; without CUDA's context). The formula was compared with PyTorch on a\n"
        "CPU only.\n"
        + row("",
              "parameters",
              "gradients",
              "optimizer",
              "cast weights",
              "activations",
              "loss",
              "all");
  for (const auto mode : {runtime::pytorch_mode::eager, runtime::pytorch_mode::compiled}) {
    const auto x = pytorch_estimate(job, mode);
    out += row(mode == runtime::pytorch_mode::eager ? "eager" : "compiled",
               runtime::human_bytes(x.parameters),
               runtime::human_bytes(x.gradients + x.buckets),
               runtime::human_bytes(x.moments),
               runtime::human_bytes(x.cast),
               runtime::human_bytes(x.activations),
               runtime::human_bytes(x.loss),
               runtime::human_bytes(x.peak()));
  }
  std::int64_t most = 0;
  for (const auto& x : groups)
    most = std::max(most, x.need.peak());
  return out
         + fmt::format("'all' is the peak; Troupe's forecast for the same run: {}\n",
                       runtime::human_bytes(most));
}

/// Program memory of the process with most workers, in bytes.
std::int64_t program_of(const runtime::training_job& job) {
  const auto& l = job.layout;
  return runtime::program_memory((l.world + l.processes - 1) / l.processes);
}

std::string program_text(const runtime::training_job& job) {
  return fmt::format(
      "the program itself, in each process: {} (code, libraries, threads), and the order of "
      "samples{}\n",
      runtime::human_bytes(double(program_of(job))),
      job.backend == runtime::backend_kind::cuda ? " and the driver of the device" : "");
}

std::string page(const runtime::training_job& job,
                 const std::vector<forecast_group>& groups,
                 const std::vector<loaded_worker>& loaded) {
  return heads_text(job) + forecast_text(groups) + program_text(job) + experts_text(job, loaded)
         + processes_text(processes_of(job, groups)) + megatron_text(job)
         + pytorch_text(job, groups) + growth_text(job);
}

ordered_json handoffs_of(const runtime::memory_forecast& need) {
  auto out = ordered_json::array();
  for (const auto& x : need.handoffs)
    out.push_back({{"copy", value(x.what.copy)},
                   {"from_stage", value(x.what.from)},
                   {"to_stage", value(x.what.to)},
                   {"to_rank", x.what.to_rank},
                   {"kind", x.what.gradient ? "gradients" : "activations"},
                   {"credits", x.what.credits},
                   {"bytes_each", x.bytes},
                   {"bytes", x.bytes * x.what.credits}});
  return out;
}

ordered_json pytorch_json(const runtime::pytorch_memory& x) {
  return {{"parameters", x.parameters},
          {"gradients", x.gradients},
          {"moments", x.moments},
          {"buckets", x.buckets},
          {"cast_weights", x.cast},
          {"activations", x.activations},
          {"loss", x.loss},
          {"peak", x.peak()}};
}

ordered_json as_json(const runtime::training_job& job,
                     const std::vector<forecast_group>& groups,
                     const std::vector<loaded_worker>& loaded) {
  const auto& l = job.layout;
  ordered_json out
      = {{"parameters", runtime::parameter_count(runtime::spec_of(job.training))},
         {"padded_vocabulary", job.training.model.padded_vocabulary()},
         {"flops_per_token", operations_per_token(job)},
         {"flops_per_sample", operations(job, 1)},
         {"flops_per_iteration", operations(job)},
         {"batch", {{"micro", job.training.batch.micro}, {"global", job.training.batch.global}}},
         {"layout",
          {{"world", l.world},
           {"tensor", l.tensor},
           {"pipeline", l.pipeline},
           {"data", l.world / (l.tensor * l.pipeline)}}},
         {"precision", to_string(job.training.precision)},
         {"workers", ordered_json::array()}};
  for (const auto& x : groups)
    out["workers"].push_back({{"pipeline", x.pipeline},
                              {"first_data", x.first_data},
                              {"last_data", x.last_data},
                              {"count", x.ranks},
                              {"values", x.need.parameters},
                              {"gradients", x.need.gradients},
                              {"optimizer", x.need.optimizer},
                              {"state_before", x.need.beside},
                              {"activations", x.need.activations},
                              {"gradients_not_taken", x.need.left_by_others},
                              {"verified_passes", x.need.verified},
                              {"peak", x.need.peak()},
                              {"snapshot", x.need.snapshot},
                              {"handoffs", handoffs_of(x.need)}});
  if (!loaded.empty())
    out["layout"].update({{"expert", l.expert}, {"expert_tensor", l.expert_tensor_ranks()}});
  for (const auto& x : loaded)
    out["expert_loads"].push_back(
        {{"load", x.load}, {"activations", x.need.activations}, {"peak", x.need.peak()}});
  out["all_workers"] = together(groups);
  out["program"] = program_of(job);
  for (const auto& x : processes_of(job, groups))
    out["processes"].push_back({{"ranks", x.ranks},
                                {"workers", x.workers},
                                {"keeps_for", x.keeps_for},
                                {"kept", x.kept},
                                {"taken_over", x.taken_over},
                                {"written", x.written},
                                {"peak", x.peak()}});
  if (const auto theory = runtime::megatron_memory(job))
    out["megatron"] = {{"weights_and_optimizer", theory->weights_and_optimizer},
                       {"activations", theory->activations},
                       {"total", theory->total()},
                       {"text", to_text(*theory)}};
  if (has_pytorch_estimate(job))
    out["pytorch_estimate"]
        = {{"eager", pytorch_json(pytorch_estimate(job, runtime::pytorch_mode::eager))},
           {"compiled", pytorch_json(pytorch_estimate(job, runtime::pytorch_mode::compiled))}};
  return out;
}

void declare_memory(command_line& line, const runtime::model_family& family) {
  const auto flags = std::make_shared<training_flags>(family);
  const auto json = std::make_shared<bool>(false);
  const auto skew = std::make_shared<std::optional<double>>();
  line.toggle(
      "--json", "Prints JSON: bytes and floating-point operations.", [json] { *json = true; });
  line.value({.name = "--expert-load",
              .type = "X",
              .help = "Also forecasts workers whose experts get X times the balanced number of "
                      "rows."},
             real(*skew, 1));
  declare(line, *flags);
  line.begins_with(
      fmt::format("Required: {}--micro-batch-size; --vocab-size, --tokenizer DIR or "
                  "--tokenizer-type{}.",
                  needed_by(family, line).names,
                  family.hub() == nullptr ? "" : ", unless the --load-hf folder has a tokenizer"));
  line.note(fmt::format(
      "Takes the flags and configurations of `troupe train {}`; only shape, batch and layout "
      "matter. Needs no data, no tokenizer if --vocab-size is given, and little memory: a model of "
      "175B on 1024 workers takes seconds.",
      family.name()));
  line.tells_besides([flags] { return what_is_missing(shape_and_layout(*flags)); });
  line.runs([flags, json, skew] {
    const auto job = resolve(shape_and_layout(*flags));
    const auto groups = runtime::forecast_workers(job);
    const auto loaded = loaded_workers(job, groups, *skew);
    if (*json)
      print_json(runtime::json_text(as_json(job, groups, loaded), 1));
    else
      print_page(page(job, groups, loaded));
    return 0;
  });
}

}  // namespace

void add_memory(command_line& program) {
  constexpr const char* about
      = "forecasts the memory and the floating-point operations of a training run.";
  auto& line = program.command("memory", about);
  declare_memory(line, runtime::default_family());
  line.begins_with(
      "Example: troupe memory --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 1024 --micro-batch-size 4 --vocab-size 50257 --world-size 2 --bf16");
  for (const auto* family : runtime::families())
    declare_memory(line.command(std::string(family->name()), about), *family);
}

}  // namespace troupe::command
