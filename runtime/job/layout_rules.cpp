#include "runtime/job/layout_rules.hpp"

#include "runtime/collective/window/offer.hpp"
#include "runtime/core/divisor.hpp"
#include "runtime/core/error.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/job_seats.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/schedule/meetings.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

bool validate_sizes(const training_job& job, sentences& wrong) {
  const auto& l = job.layout;
  const std::pair<const char*, std::int64_t> sizes[]
      = {{"`layout.world`", l.world},
         {"`layout.tensor`", l.tensor},
         {"`layout.pipeline`", l.pipeline},
         {"`layout.expert`", l.expert},
         {"`layout.expert_tensor`", l.expert_tensor == 0 ? 1 : l.expert_tensor},
         {"`layout.replicas_per_worker`", l.replicas_per_worker},
         {"`threads_per_worker`", job.threads_per_worker},
         {"`reduction.bucket_size`", job.reduction.bucket_size}};
  const auto before = wrong.size();
  for (const auto& [flag, size] : sizes)
    if (size < 1)
      wrong.push_back(fmt::format("{} is {}; give at least 1", flag, size));
  if (l.processes < 1 || l.processes > l.world)
    wrong.push_back(fmt::format(
        "`layout.processes` is {} and `layout.world` {}: each process hosts at least one worker",
        l.processes,
        l.world));
  if (l.processes > 1 && job.backend == kernels::backend::cuda && job.devices.measure_products)
    wrong.push_back(
        fmt::format("each of `layout.processes` {} would choose the algorithms of its products by "
                    "its own measurement, with other bits: give `devices.product_choices` none",
                    l.processes));
  if (l.processes > 1 && job.devices.exchange == collectives::nccl_fast)
    wrong.push_back(fmt::format(
        "`devices.exchange` nccl-fast is for one process, but `layout.processes` is {}: "
        "NCCL's order of sums may change with the hosts of processes; give "
        "`devices.exchange` nccl",
        l.processes));
  return wrong.size() == before;
}

/// False if the layout has axes of experts, but the model has none.
bool validate_has_experts(const training_job& job, sentences& wrong) {
  const auto& l = job.layout;
  const auto& model = job.training.model;
  const auto before = wrong.size();
  if (!model.family().shared_by_expert_ranks(model).empty())
    return true;
  const auto refuse = [&wrong](const char* setting, int ranks, int valid) {
    if (ranks != valid)
      wrong.push_back(
          fmt::format("{} {} shares experts, but this model has no mixture-of-experts "
                      "layers; nearest valid: {} {}",
                      setting,
                      ranks,
                      setting,
                      valid));
  };
  refuse("`layout.expert`", l.expert, 1);
  refuse("`layout.expert_tensor`", l.expert_tensor_ranks(), l.tensor);
  return wrong.size() == before;
}

/// Nothing if the mesh is wrong.
std::optional<seats> validate_mesh(const training_job& job, sentences& wrong) {
  const auto& l = job.layout;
  std::optional<seats> out;
  collect(wrong, [&] {
    const auto& all = out.emplace(seats_of(l));
    ensure(std::int64_t{all.replicas()} * l.replicas_per_worker == job.training.batch.data_parallel,
           "JOB-1: the batch knows the replicas of the layout");
    validate_verification(job.recovery, all, wrong);
  });
  return out;
}

/// Null if the batch or the schedule is wrong; the caller reports either.
std::unique_ptr<pipeline_schedule> schedule_of(const training_job& job, sentences& wrong) {
  try {
    check(job.training.batch);
  } catch (const error&) {
    return nullptr;  // reported with the steps
  }
  std::unique_ptr<pipeline_schedule> out;
  collect(wrong, [&] {
    out = std::make_unique<pipeline_schedule>(
        job.layout.schedule, job.layout.pipeline, planned_microbatches(job));
  });
  return out;
}

void validate_stages(const training_job& job, int stages, sentences& wrong) {
  const auto& chunks = job.layout.chunks;
  const auto layers = job.training.model.layers();
  if (layers < 1)  // reported with the model, or unknown
    return;
  const auto letters = letters_of(job.training);
  if (chunks.empty() && stages != job.layout.pipeline && layers % stages != 0) {
    wrong.push_back(fmt::format(
        "`model.layers` {} cannot be split evenly over {} stages, {} on each of "
        "`layout.pipeline` {}: give `model.layers` {}, another schedule or other virtual stages, "
        "or list the content of each stage in `layout.chunks`",
        layers,
        stages,
        stages % job.layout.pipeline == 0 ? std::to_string(stages / job.layout.pipeline) : "some",
        job.layout.pipeline,
        (layers + stages - 1) / stages * stages));
    return;
  }
  if (chunks.empty()) {
    collect(wrong, [&] { split_layers(letters, stages, {}); });
    return;
  }
  std::int64_t next = 0;
  bool whole = chunks.size() == std::size_t(stages);
  for (const auto& x : chunks) {
    whole = whole && x.first == next && x.end >= x.first;
    next = x.end;
  }
  if (!whole || next != units_of(letters))
    wrong.push_back(
        fmt::format("the stages '{}' do not hold each of `model.layers` {} once, in order, over {} "
                    "stages on `layout.pipeline` {}; list them again in `layout.chunks`",
                    to_text(chunks, letters),
                    layers,
                    stages,
                    job.layout.pipeline));
}

/// Ranks of experts carry out one plan, so that they exchange rows in one order.
void validate_schedule_of_experts(const training_job& job,
                                  const pipeline_schedule& schedule,
                                  const seats& all,
                                  sentences& wrong) {
  const auto& l = job.layout;
  const auto& model = job.training.model;
  const auto expert_tensor = l.expert_tensor_ranks();
  const auto shared = model.family().shared_by_expert_ranks(model);
  const int sums = l.expert_sums == source_sums::by_source ? l.expert * l.replicas_per_worker : 1;
  // One more is the result.
  const auto most = most_arrays_of_offer(all.extent(axis::expert_data) * schedule.copies()) - 1;
  if (!shared.empty() && l.processes > 1 && sums > most)
    wrong.push_back(fmt::format(
        "each worker has {} gradients of its experts, one for each of `layout.expert` {} x "
        "`layout.replicas_per_worker` {}, and processes add at most {} at once; nearest valid: "
        "`layout.expert_sums` together",
        sums,
        l.expert,
        l.replicas_per_worker,
        most));
  if (all.span() == 1 || schedule.behaviours() == nullptr)
    return;
  const bool fits = l.tensor % expert_tensor == 0;
  std::int64_t within = fits ? l.tensor / expert_tensor : 1;
  for (const auto& x : shared)
    if (x.along == axis::expert)
      within = std::gcd(within, x.size);
  wrong.push_back(fmt::format(
      "`layout.schedule.source` {} is decided by each replica while it runs, but replicas "
      "exchange rows of `layout.expert` {} x `layout.expert_tensor` {} ranks in one order: "
      "choose another schedule; nearest valid: `layout.expert` {} with `layout.expert_tensor` {}",
      schedule.name(),
      l.expert,
      expert_tensor,
      within,
      fits ? expert_tensor : l.tensor));
}

/// A loss over replicas counts their rows in each pass, so all carry out one plan and each pass
/// once. Copies of the model meet, too (PLAN-9).
void validate_losses_over_replicas(const training_job& job,
                                   const pipeline_schedule& schedule,
                                   sentences& wrong) {
  if (!validate(job.training.model).empty())
    return;
  std::vector<loss_spec> losses;
  collect(wrong, [&] { losses = losses_of(job.training); });
  const auto found = std::ranges::find_if(losses, &loss_spec::over_replicas);
  if (found == losses.end())
    return;
  const auto refuse = [&](const std::string& what, const char* give) {
    wrong.push_back(fmt::format(
        "{}, but {} counts the rows of all replicas in each pass: {}", what, found->name, give));
  };
  if (const int each = job.layout.replicas_per_worker; each > 1)
    refuse(fmt::format("`layout.replicas_per_worker` {} computes replicas in turn", each),
           "leave it out");
  if (job.recovery.verify_fraction > 0)
    refuse(fmt::format("`recovery.verify_fraction` {} computes some passes again",
                       job.recovery.verify_fraction),
           "leave it out");
  if (schedule.copies() > 1)
    collect(wrong, [&] {
      for (const int microbatches : planned_microbatches(job, 0)) {
        const auto plan = schedule.plain(microbatches);
        const auto missed = missed_meeting(
            *plan, *schedule.training_credits(microbatches), forwards_of_copies(*plan));
        if (!missed.empty())
          refuse(fmt::format("the copies of the model cannot meet in `layout.schedule.source` {} "
                             "({})",
                             schedule.name(),
                             missed),
                 "change it, or choose another schedule");
      }
    });
  if (schedule.behaviours() != nullptr && job.training.batch.data_parallel > 1)
    refuse(fmt::format("`layout.schedule.source` {} is decided by each replica while it runs",
                       schedule.name()),
           "choose another schedule");
}

void validate_schedule(const training_job& job,
                       const pipeline_schedule& schedule,
                       sentences& wrong) {
  const auto& name = schedule.name();
  if (schedule.copies() > 1 && job.layout.replicas_per_worker > 1)
    wrong.push_back(fmt::format(
        "`layout.schedule.source` {} has two copies of the model, each with half of the "
        "micro-batches, and `layout.replicas_per_worker` {} would divide them once more: "
        "leave that out",
        name,
        job.layout.replicas_per_worker));
  if (job.reduction.overlap_gradients && (schedule.copies() > 1 || schedule.behaviours()))
    wrong.push_back(
        fmt::format("`reduction.overlap_gradients` needs the same order of gradients on all "
                    "replicas, and `layout.schedule.source` {} {}: leave "
                    "`reduction.overlap_gradients` out",
                    name,
                    schedule.copies() > 1 ? "fills the two copies of a stage at different times"
                                          : "is decided while it runs"));
}

/// The multiple of `ranks` nearest to `size` that divides `whole`; 0 when there is none.
std::int64_t nearest_multiple(std::int64_t size, std::int64_t ranks, std::int64_t whole) {
  std::int64_t best = 0;
  for (auto x = ranks; x <= whole; x += ranks)
    if (whole % x == 0 && (best == 0 || std::abs(x - size) < std::abs(best - size)))
      best = x;
  return best;
}

/// `setting`: the number of ranks along this axis. `workers`: the workers that they divide; 0: any.
void validate_shares(const std::vector<shared_size>& all,
                     axis along,
                     const char* setting,
                     std::int64_t ranks,
                     std::int64_t workers,
                     sentences& wrong) {
  std::int64_t common = workers;
  for (const auto& x : all)
    if (x.along == along)
      common = std::gcd(common, x.size);
  const auto near = [&](const shared_size& x) {
    return x.whole > 0 ? nearest_multiple(x.size, ranks, x.whole)
                       : std::max<std::int64_t>(1, (x.size + ranks / 2) / ranks) * ranks;
  };
  for (const auto& x : all) {
    if (x.along != along || x.size <= 0 || x.size % ranks == 0)
      continue;
    const auto here = near(x);
    wrong.push_back(
        fmt::format("{} {} is not a multiple of {} {}, and every "
                    "worker needs an equal share; nearest valid: {}{} {}",
                    x.name,
                    x.size,
                    setting,
                    ranks,
                    here == 0 ? "" : fmt::format("{} here, or ", here),
                    setting,
                    nearest_divisor(common, ranks)));
  }
}

void validate_tensor(const training_job& job, sentences& wrong) {
  const auto& model = job.training.model;
  const std::int64_t tensor = job.layout.tensor;
  validate_shares(model.family().shared_by_tensor_ranks(model),
                  axis::tensor,
                  "`layout.tensor`",
                  tensor,
                  0,
                  wrong);
  const auto sizes = model.family().sizes(model);
  const auto sequence = sizes.sequence;
  const auto rows = job.training.batch.micro * sequence;
  if (job.layout.sequence_parallel && rows > 0 && rows % tensor != 0)
    wrong.push_back(
        fmt::format("`layout.sequence_parallel` shards `batch.micro` {} x `{}` {} tokens "
                    "over `layout.tensor` {}, which does not divide them; nearest valid: "
                    "`{}` {}",
                    job.training.batch.micro,
                    sizes.sequence_setting,
                    sequence,
                    tensor,
                    sizes.sequence_setting,
                    std::max<std::int64_t>(1, (sequence + tensor / 2) / tensor) * tensor));
}

void validate_experts(const training_job& job, sentences& wrong) {
  const auto& l = job.layout;
  const auto& model = job.training.model;
  const auto shared = model.family().shared_by_expert_ranks(model);
  if (shared.empty())
    return;
  const int workers = l.world / l.pipeline, expert_tensor = l.expert_tensor_ranks();
  validate_shares(
      shared, axis::expert, "`layout.expert`", l.expert, workers / expert_tensor, wrong);
  validate_shares(shared,
                  axis::expert_tensor,
                  "`layout.expert_tensor`",
                  expert_tensor,
                  workers / l.expert,
                  wrong);
  if (l.tensor > 1 && !l.sequence_parallel)
    wrong.push_back(
        fmt::format("each of `layout.tensor` {} ranks sends its own rows to experts, "
                    "as in Megatron-LM: give `layout.sequence_parallel`",
                    l.tensor));
  const auto ep = l.order.find("ep"), dp = l.order.find("dp");
  if (l.expert > 1 && ep != l.order.npos && ep > dp)
    wrong.push_back(
        fmt::format("`layout.order` {} has ep after dp, but the order of sums over `layout.expert` "
                    "{} ranks is that of data ranks; nearest valid: tp-cp-ep-dp-pp",
                    l.order,
                    l.expert));
}

void validate_reduction(const training_job& job, sentences& wrong) {
  const auto& r = job.reduction;
  if (r.overlap_parameters && !r.distributed_optimizer)
    wrong.emplace_back(
        "`reduction.overlap_parameters` gathers the parameters that "
        "`reduction.distributed_optimizer` shards: give both, or neither");
  if (r.overlap_parameters && !r.overlap_gradients)
    wrong.emplace_back(
        "`reduction.overlap_parameters` needs `reduction.overlap_gradients`, as in Megatron-LM: "
        "give both");
}

void validate_recomputation(const training_job& job,
                            const unknown_parts& unknown,
                            sentences& wrong) {
  const auto& r = job.recompute;
  if (r.granularity == recompute_granularity::selective && !r.has_module())
    wrong.emplace_back(
        "`recompute.granularity` selective has no `recompute.modules`: give core_attn, mlp or "
        "both");
  const auto& model = job.training.model;
  const bool without_experts
      = !unknown.shape && model.family().shared_by_expert_ranks(model).empty();
  for (const auto& [on, module] : {std::pair(r.experts, "moe"),
                                   std::pair(r.expert_activation, "moe_act"),
                                   std::pair(r.shared_experts, "shared_experts")})
    if (on && without_experts)
      wrong.push_back(fmt::format(
          "`recompute.modules` {} is refused: this model has no mixture-of-experts layers; leave "
          "it out",
          module));
  const auto& l = job.layout;
  if (r.granularity != recompute_granularity::full || unknown.stages
      || job.training.model.layers() < 1)
    return;
  std::int64_t most = l.chunks.empty() ? job.training.model.layers() / l.pipeline : 0;
  const auto letters = letters_of(job.training);
  for (const auto& x : l.chunks) {
    const auto layers = layers_in(x, letters);
    most = std::max(most, layers.end - layers.first);
  }
  if (r.layers < 1 || r.layers > most)
    wrong.push_back(
        fmt::format("`recompute.layers` {}: a pipeline stage has {} layers; give 1 to {}",
                    r.layers,
                    most,
                    most));
}

}  // namespace

void validate_verification(const recovery_settings& recovery,
                           const seats& all,
                           std::vector<std::string>& wrong) {
  if (recovery.verify_fraction <= 0 || all.span() != 0)
    return;
  const int expert = all.extent(axis::expert), each = all.extent(axis::expert_tensor);
  const int stage = all.extent(axis::tensor) * all.extent(axis::context);
  const int workers = all.size() / all.extent(axis::pipeline);
  int nearest = workers / each;
  for (int x = nearest; x > 0; --x)
    if (const int ranks = x * each; workers % ranks == 0
                                    && (ranks % stage == 0 || stage % ranks == 0)
                                    && std::abs(x - expert) <= std::abs(nearest - expert))
      nearest = x;
  wrong.push_back(fmt::format(
      "`recovery.verify_fraction` {} has the next group of replicas compute passes again, but {} "
      "ranks of `layout.expert` x `layout.expert_tensor` and {} ranks of a replica's stage "
      "overlap, and one number must divide the other; nearest valid: `layout.expert` {}, or leave "
      "`recovery.verify_fraction` out",
      recovery.verify_fraction,
      expert * each,
      stage,
      nearest));
}

std::vector<std::string> validate_layout(const training_job& job, const unknown_parts& unknown) {
  sentences wrong;
  if (!validate_sizes(job, wrong) || (!unknown.shape && !validate_has_experts(job, wrong)))
    return wrong;
  const auto all = validate_mesh(job, wrong);
  const auto before = wrong.size();
  if (unknown.batch || unknown.stages) {
    // The schedule cannot be checked.
  } else if (const auto schedule = schedule_of(job, wrong)) {
    validate_stages(job, schedule->chunks(), wrong);
    if (!unknown.shape) {
      validate_schedule(job, *schedule, wrong);
      validate_losses_over_replicas(job, *schedule, wrong);
    }
    if (all)
      validate_schedule_of_experts(job, *schedule, *all, wrong);
  } else if (wrong.size() == before && job.layout.chunks.empty()) {
    validate_stages(job, job.layout.pipeline, wrong);
  }
  validate_tensor(job, wrong);
  validate_experts(job, wrong);
  validate_reduction(job, wrong);
  validate_recomputation(job, unknown, wrong);
  return wrong;
}

}  // namespace troupe::runtime
