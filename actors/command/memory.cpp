#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/memory_advice.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/trainer/process_forecast.hpp"
#include "runtime/trainer/pytorch_memory.hpp"
#include "runtime/trainer/theoretical_memory.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;
using runtime::forecast_group;

/// Memory depends on shape, batch and layout. Whatever else a run needs to know is left out, so
/// that neither data nor tokenizer files have to be there.
training_flags shape_and_layout(training_flags flags) {
  flags.data = {.mock = true};
  if (flags.tokenizer.vocabulary_size)
    flags.tokenizer = {.type = "NullTokenizer", .vocabulary_size = flags.tokenizer.vocabulary_size};
  flags.steps.ramp.clear();
  if (!flags.steps.sizes.empty() && !flags.steps.global)
    flags.steps.global
        = runtime::batch_steps_from(flags.steps.sizes, flags.model.sequence.value_or(1))
              .back()
              .size;
  flags.steps.sizes.clear();
  flags.steps.samples.reset();
  flags.steps.iterations = 1;
  flags.steps.exit_interval = 0;
  flags.rate = {.maximum = 1};
  flags.checkpoints = {};
  flags.watch = megatron_watch();
  flags.faults = {};
  return flags;
}

std::int64_t microbatches_of(const runtime::training_job& job) {
  const auto& b = job.training.batch;
  return b.global / (b.micro * b.data_parallel);
}

double operations(const runtime::training_job& job) {
  return runtime::training_flops(job.training.model, double(job.training.batch.global));
}

double operations_per_token(const runtime::training_job& job) {
  return runtime::training_flops(job.training.model, 1) / double(job.training.model.sequence);
}

std::string heads_text(const runtime::training_job& job) {
  const auto& m = job.training.model;
  const auto& b = job.training.batch;
  const auto& l = job.layout;
  return fmt::format(
      "parameters  {} ({} with the padding of the vocabulary to {})\n"
      "step        {} of {}: {:.4g} floating-point operations, {:.5g} a token\n"
      "            (Megatron-LM's count: forward and backward, causal attention half, nothing for "
      "recomputation)\n"
      "workers     {}: {} tensor{} x {} pipeline x {} data; {} of {} each, {}\n",
      runtime::parameter_count(m),
      runtime::parameter_count(m)
          + (m.padded_vocabulary - m.vocabulary) * m.hidden * (m.tied_embeddings ? 1 : 2),
      m.padded_vocabulary,
      runtime::counted(b.global, "sample"),
      runtime::counted(m.sequence, "token"),
      operations(job),
      operations_per_token(job),
      l.world,
      l.tensor,
      l.sequence_parallel ? " (sequence parallel)" : "",
      l.pipeline,
      l.world / (l.tensor * l.pipeline),
      runtime::counted(
          microbatches_of(job) * l.replicas_per_worker, "micro-batch", "micro-batches"),
      b.micro,
      to_string(job.training.precision));
}

/// One for each stage: all its workers, and what those that need most of each kind need.
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
      = "\nTroupe's forecast: for each stage, what its worker that needs most will take (one step "
        "is\n"
        "rehearsed with operations that do nothing)\n"
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
         + (verifies
                ? "'activations' counts what is held of passes that --verify-fraction computes "
                  "again\n"
                : "")
         + (leaves ? "'activations' counts gradients that another stage, when it is late, has not "
                     "taken yet\n"
                   : "")
         + (keeps ? "'optimizer' counts the state of the step before, which --recovery on keeps\n"
                  : "");
}

std::vector<runtime::process_forecast> processes_of(const runtime::training_job& job,
                                                    const std::vector<forecast_group>& groups) {
  return runtime::forecast_processes(job, needs_by_rank(job, groups));
}

/// Empty where one process hosts all.
std::string processes_text(const std::vector<runtime::process_forecast>& processes) {
  if (processes.empty())
    return "";
  constexpr const char* form = "{:>7}  {:>9}  {:>10}  {:>12}  {:>10}\n";
  const auto row = [&](const auto&... cells) { return fmt::format(fmt::runtime(form), cells...); };
  std::string out
      = "\nEach process: its workers, and what it keeps of another one's ranks (their two newest\n"
        "states, and one more while it is taken over, or written to the local disk)\n"
        + row("process", "ranks", "workers", "kept", "all");
  for (std::size_t p = 0; p < processes.size(); ++p) {
    const auto& x = processes[p];
    out += row(p,
               fmt::format("{}-{}", x.first_rank, x.end_rank - 1),
               runtime::human_bytes(x.workers),
               runtime::human_bytes(x.keeping()),
               runtime::human_bytes(x.peak()));
  }
  return out;
}

std::string growth_text(const runtime::training_job& job) {
  const bool rounded = job.training.precision != runtime::dtype::f32;
  const bool distributed = job.reduction.distributed_optimizer;
  return fmt::format(
      "\nWhat grows with what\n"
      "  parameters   {} bytes for each that a worker holds: fall with tensor and pipeline ranks\n"
      "  gradients    4 bytes for each, once for each of --replicas-per-worker; those of a tied\n"
      "               embedding twice where a stage has both its uses, which are added at the "
      "end.\n"
      "               A worker that sums them with nobody has memory for them from the backward "
      "pass\n"
      "               to the update only, where activations were: those count what both need "
      "more;\n"
      "               with several micro-batches a step both are there at once{}\n"
      "  optimizer    {} bytes for each: two moments{}; {}\n"
      "  activations  grow with --micro-batch-size x --seq-length x --hidden-size x the layers of "
      "a\n"
      "               stage x the micro-batches under way (as many as stages follow, and one), and "
      "on\n"
      "               the last stage with the vocabulary; fall with tensor ranks, more with\n"
      "               --sequence-parallel, and with --recompute-granularity selective or full\n"
      "  saving       what a checkpoint copies until it is written; from a device to the host's "
      "memory\n",
      rounded ? 2 : 4,
      !rounded || job.recovery.on
          ? ""
          : ".\n               In the last of them a layer's gradients take the memory of its "
            "parameters, which\n"
            "               the update makes again from the master: 'gradients' counts the 2 bytes "
            "for each\n"
            "               that they need beyond that",
      job.recovery.on ? 12 + (rounded ? 12 : 8) : (rounded ? 12 : 8),
      job.recovery.on ? " and the fp32 weights of two states (--recovery on)"
      : rounded       ? " and the fp32 master"
                      : "",
      distributed
          ? "sharded over the data ranks"
          : "all of it on every data rank; --use-distributed-optimizer shards it over them");
}

/// Empty where it is for another kind of run.
std::string pytorch_text(const runtime::training_job& job,
                         const std::vector<forecast_group>& groups) {
  if (job.backend != runtime::backend_kind::cuda || !has_pytorch_estimate(job))
    return "";
  constexpr const char* form = "{:>9}  {:>10}  {:>9}  {:>9}  {:>12}  {:>11}  {:>9}  {:>9}\n";
  const auto row = [&](const auto&... cells) { return fmt::format(fmt::runtime(form), cells...); };
  std::string out
      = "\nAn estimate of what PyTorch takes on each device (AdamW, fp32 parameters, autocast,\n"
        "flash attention, no recomputation; without CUDA's context), by a formula that was\n"
        "held against it on a CPU, not on a device\n"
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
         + fmt::format(
             "'all' is what is there at once, at most; Troupe's forecast for the same: {}\n",
             runtime::human_bytes(most));
}

std::string page(const runtime::training_job& job, const std::vector<forecast_group>& groups) {
  return heads_text(job) + forecast_text(groups) + processes_text(processes_of(job, groups))
         + "\nMegatron-LM's own estimate for its heaviest worker, by its formula (its MB is 2^20 bytes; "
           "above it is 10^6)\n  "
         + to_text(runtime::megatron_memory(job)) + "\n" + pytorch_text(job, groups)
         + growth_text(job);
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

ordered_json as_json(const runtime::training_job& job, const std::vector<forecast_group>& groups) {
  const auto& l = job.layout;
  const auto theory = runtime::megatron_memory(job);
  ordered_json out
      = {{"parameters", runtime::parameter_count(job.training.model)},
         {"padded_vocabulary", job.training.model.padded_vocabulary},
         {"flops_per_token", operations_per_token(job)},
         {"flops_per_sample", runtime::training_flops(job.training.model, 1)},
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
  out["all_workers"] = together(groups);
  for (const auto& x : processes_of(job, groups))
    out["processes"].push_back({{"first_rank", x.first_rank},
                                {"last_rank", x.end_rank - 1},
                                {"workers", x.workers},
                                {"keeps_for", x.keeps_for},
                                {"kept", x.kept},
                                {"taken_over", x.taken_over},
                                {"written", x.written},
                                {"peak", x.peak()}});
  out["megatron"] = {{"weights_and_optimizer", theory.weights_and_optimizer},
                     {"activations", theory.activations},
                     {"total", theory.total()},
                     {"text", to_text(theory)}};
  if (has_pytorch_estimate(job))
    out["pytorch_estimate"]
        = {{"eager", pytorch_json(pytorch_estimate(job, runtime::pytorch_mode::eager))},
           {"compiled", pytorch_json(pytorch_estimate(job, runtime::pytorch_mode::compiled))}};
  return out;
}

}  // namespace

void add_memory(command_line& program) {
  auto& line = program.command(
      "memory", "tells the memory and the arithmetic that a training run will need.");
  const auto flags = std::make_shared<training_flags>();
  const auto json = std::make_shared<bool>(false);
  line.toggle("--json", "Prints JSON, for programs: bytes and floating-point operations.", [json] {
    *json = true;
  });
  declare(line, *flags);
  line.note(
      "Takes the flags and configurations of `troupe train gpt`, and looks at shape, batch and "
      "layout. No data is needed, no tokenizer where --vocab-size is given, and no memory: a model "
      "of 175B on 1024 workers takes seconds.");
  line.tells_besides([flags] { return what_is_missing(shape_and_layout(*flags)); });
  line.runs([flags, json] {
    const auto job = resolve(shape_and_layout(*flags));
    const auto groups = runtime::forecast_workers(job);
    if (*json)
      print_json(runtime::json_text(as_json(job, groups), 1));
    else
      print_page(page(job, groups));
    return 0;
  });
}

}  // namespace troupe::command
