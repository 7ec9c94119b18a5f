#include "actors/command/resolve_parts.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/machine/machine.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::command {
namespace {

/// "F,I,W" or "F,I,W,C"
void read_times(const std::string& text, runtime::schedule_settings& to) {
  constexpr const char* flag = "--pipeline-times";
  std::vector<double> all;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    all.push_back(parse_real(flag, text.substr(at, end - at), {0, 1e12}));
    at = end + 1;
  }
  if (all.size() != 3 && all.size() != 4)
    throw usage_error(
        "{} {} has {} numbers: give the costs of forward, input gradients and weight gradients, "
        "and optionally of a transfer, e.g. 1,1.1,0.7,0.05",
        flag,
        text,
        all.size());
  to.costs = {.forward = all[0], .input_gradients = all[1], .weight_gradients = all[2]};
  to.transfer = all.size() == 4 ? all[3] : 0;
}

/// Virtual stages per rank, as given by flags; 0: not given.
int told_virtual_stages(const training_flags& flags, std::int64_t layers, int ranks) {
  const auto& asked = flags.layout.layers_per_chunk;
  if (!asked)
    return flags.job.layout.schedule.chunks_per_rank;
  if (flags.job.layout.schedule.chunks_per_rank > 0)
    throw usage_error(
        "--num-virtual-stages-per-pipeline-rank and --num-layers-per-virtual-pipeline-stage set "
        "the same number: give one");
  const auto each = *asked * ranks;
  if (layers % each != 0)
    throw usage_error(
        "--num-layers-per-virtual-pipeline-stage {} with --pipeline-model-parallel-size {} needs a "
        "multiple of {} layers, but --num-layers is {}",
        *asked,
        ranks,
        each,
        layers);
  return int(layers / each);
}

/// Reports no stages that cannot be even: the rules of the layout do.
void resolve_stages(const training_flags& flags,
                    runtime::training_job& job,
                    unknown_parts& unknown,
                    sentences& wrong) {
  const auto& s = flags.layout;
  auto& chunks = job.layout.chunks;
  auto& schedule = job.layout.schedule;
  const auto layers = job.training.model.layers();
  const auto letters = runtime::letters_of(job.training);
  const int ranks = job.layout.pipeline;
  const bool told = s.has_ends();
  if (!s.costs.empty())
    collect(wrong, [&] { read_times(s.costs, schedule); });
  unknown.stages = s.stages || told || s.layers_per_chunk;
  if (layers < 1 || unknown.batch)
    return;
  unknown.stages = true;  // until they are made
  if (s.stages && told) {
    wrong.emplace_back(
        "--pipeline-model-parallel-layout sets the contents of every stage: leave out "
        "--decoder-first-pipeline-num-layers, -last- and --account-for-...");
    return;
  }
  collect(wrong, [&] {
    schedule.chunks_per_rank = told_virtual_stages(flags, layers, ranks);
    if (s.stages) {
      // On one rank several stages are more likely a forgotten --pipeline-model-parallel-size.
      const bool of_file = schedule.source.ends_with(".csv");  // with any number of stages
      const int each = of_file                                       ? -1
                       : ranks == 1 && schedule.chunks_per_rank == 0 ? 1
                                                                     : schedule.chunks_per_rank;
      chunks = runtime::stages_from_text(*s.stages, letters, ranks, each);
      const auto found = int(chunks.size()) / ranks;
      if (!of_file && found > 1)
        schedule.chunks_per_rank = found;
    }
    try {
      check(job.training.batch);
    } catch (const runtime::error&) {
      unknown.stages = told;
      return;  // reported with the steps
    }
    const int stages
        = runtime::pipeline_schedule(schedule, ranks, runtime::planned_microbatches(job)).chunks();
    if (told && stages != ranks)
      throw runtime::input_error(
          "--decoder-first-pipeline-num-layers, -last- and --account-for-... set the layers of "
          "pipeline ranks, but this schedule gives each rank {} stages: set the contents of every "
          "stage by --pipeline-model-parallel-layout",
          stages / ranks);
    if (told)
      chunks = runtime::split_layers(letters, stages, s.ends());
    else if (!s.stages && layers % stages == 0)
      chunks = runtime::split_layers(letters, stages, {});
    unknown.stages = false;
  });
}

/// Reads "0,2". The start of the run checks that the devices exist.
std::vector<int> device_numbers(const std::string& text, sentences& wrong) {
  std::vector<int> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    if (!part.empty() && part.size() < 5 && part.find_first_not_of("0123456789") == part.npos)
      out.push_back(std::stoi(part));
    else
      wrong.push_back(fmt::format(
          "--devices '{}': '{}' is not the number of a device; give e.g. 0 or 0,1,2", text, part));
  return out;
}

void resolve_device(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& d = flags.job.devices;
  job.backend = flags.backend == "auto" ? runtime::chosen_backend()
                                        : runtime::backend_from(flags.backend).value();
  job.devices.numbers = device_numbers(flags.device_numbers, wrong);
  const bool alone = job.layout.processes == 1 || job.backend != runtime::backend_kind::cuda;
  job.devices.measure_products = alone && d.product_choices != "none";
  if (!alone && !d.product_choices.empty() && d.product_choices != "none")
    wrong.push_back(
        fmt::format("--product-choices {} is for one process: {} processes take the library's "
                    "first suggestion, which is the same in all; leave it out, or give none",
                    d.product_choices.string(),
                    job.layout.processes));
  if (!job.devices.measure_products)
    job.devices.product_choices.clear();
  if (job.backend == runtime::backend_kind::cuda)
    return;
  for (const auto& [given, flag] :
       {std::pair(!flags.device_numbers.empty(), "--devices"),
        std::pair(d.tf32, "--allow-tf32"),
        std::pair(d.nondeterministic, "--allow-nondeterministic"),
        std::pair(d.exchange != runtime::collectives::local, "--collectives"),
        std::pair(!d.product_choices.empty(), "--product-choices")})
    if (given)
      wrong.push_back(
          fmt::format("{} needs GPUs, but this run computes on the backend {}: leave it out, or "
                      "give --backend cuda",
                      flag,
                      runtime::to_string(job.backend)));
}

}  // namespace

void resolve_layout(const training_flags& flags,
                    runtime::training_job& job,
                    unknown_parts& unknown,
                    sentences& wrong) {
  auto& out = job.layout;
  const auto model = std::int64_t{out.tensor} * out.pipeline;
  if (!flags.given.contains("layout.world"))
    out.world = int(std::min<std::int64_t>(model, runtime::most_workers));
  if (!flags.given.contains("layout.processes"))
    out.processes = processes_of(flags.hosts);
  for (auto& complaint : complaints_about(flags.hosts, out.processes))
    wrong.push_back(std::move(complaint));
  out.sequence_parallel = out.sequence_parallel && out.tensor > 1;
  const auto& of = job.training.model;
  if (out.expert_tensor == 1 && of.family().shared_by_expert_ranks(of).empty())
    out.expert_tensor = 0;  // scripts of models without experts give 1
  if (flags.given.contains("precision=bf16") && flags.given.contains("precision=f16"))
    wrong.emplace_back("--bf16 and --fp16 exclude each other: give one");
  const auto cores = runtime::look_at_processor().usable();  // control groups may leave fewer
  if (!flags.given.contains("threads_per_worker"))
    job.threads_per_worker
        = cores_per_worker(flags.hosts, flags.launched, out.world, out.processes, cores);
  resolve_device(flags, job, wrong);
  auto& batch = job.training.batch;
  batch.data_parallel = std::max<std::int64_t>(1, out.world / model) * out.replicas_per_worker;
  resolve_batch(flags, job, unknown, wrong);
  resolve_stages(flags, job, unknown, wrong);
}

void resolve_recompute(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& r = flags.recompute;
  auto& out = job.recompute;
  for (const auto& [given, flag] : {std::pair(r.activations, "--recompute-activations"),
                                    std::pair(r.experts, "--moe-layer-recompute")})
    if (given && r.granularity == "full")
      wrong.push_back(fmt::format(
          "{} means --recompute-granularity selective, but that is full: give one", flag));
  const bool selective = r.activations || r.experts || r.granularity == "selective";
  out.experts = out.experts || r.experts;
  if (selective) {
    out.granularity = runtime::recompute_granularity::selective;
  } else if (r.granularity) {
    out.granularity = runtime::recompute_granularity::full;
    if (!r.method || !r.layers)
      wrong.emplace_back(
          "--recompute-granularity full needs --recompute-method uniform or block, and "
          "--recompute-num-layers, usually 1");
    out.method = r.method == "block" ? runtime::recompute_method::block
                                     : runtime::recompute_method::uniform;
    out.layers = int(r.layers.value_or(1));
  }
  if ((r.method || r.layers) && (selective || !r.granularity))
    wrong.emplace_back(
        "--recompute-method and --recompute-num-layers need --recompute-granularity full: give "
        "that, or leave them out");
  if (flags.given.contains("recompute.modules") && !selective)
    wrong.emplace_back(
        "--recompute-modules needs --recompute-granularity selective: give that, or leave it out");
}

}  // namespace troupe::command
