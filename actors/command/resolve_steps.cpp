#include "actors/command/resolve_parts.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/job_data.hpp"

#include <algorithm>

namespace troupe::command {
namespace {

/// Steps of a run that is counted in samples, as in Megatron-LM. A constant batch size, also after
/// a ramp-up, drops a partial last batch. A schedule of sizes completes it. A run that ends within
/// its ramp-up has one more step.
std::int64_t steps_of_samples(const runtime::batch_schedule& batch, std::int64_t samples) {
  const bool stepped = !batch.steps.empty();
  std::int64_t steps = 0, consumed = 0;
  for (; !runtime::is_settled(batch, consumed) && consumed < samples + !stepped; ++steps)
    consumed += runtime::global_batch_size(batch, consumed);
  const auto left = std::max<std::int64_t>(samples - consumed, 0);
  return steps + (left + (stepped ? batch.global - 1 : 0)) / batch.global;
}

/// True if the batch breaks no rule. Broken rules are reported elsewhere.
bool keeps_its_rules(const runtime::batch_schedule& batch) {
  std::vector<std::string> broken;
  collect(broken, [&] { check(batch); });
  return broken.empty();
}

/// Refuses flags in steps for a run that is counted in samples, and the reverse.
void refuse_units(const training_flags& flags, sentences& wrong) {
  const auto& r = flags.rate;
  const bool in_samples = flags.steps.samples.has_value();
  const bool says_how_long = in_samples != flags.steps.iterations.has_value();
  const auto foreign = [&](const char* flag, bool given, bool of_samples) {
    if (given && of_samples != in_samples && says_how_long)
      wrong.push_back(fmt::format("{} cannot be combined with {}: count both in {}",
                                  flag,
                                  in_samples ? "--train-samples" : "--train-iters",
                                  in_samples ? "samples" : "iterations"));
  };
  foreign("--lr-decay-iters", r.decay_iterations.has_value(), false);
  foreign("--lr-warmup-iters", r.warmup_iterations.has_value(), false);
  foreign("--lr-wsd-decay-iters", r.wsd_iterations.has_value(), false);
  foreign("--lr-decay-samples", r.decay_samples.has_value(), true);
  foreign("--lr-warmup-samples", r.warmup_samples.has_value(), true);
  foreign("--lr-wsd-decay-samples", r.wsd_samples.has_value(), true);
  if (r.warmup_fraction && (r.warmup_iterations || r.warmup_samples))
    wrong.emplace_back(
        "--lr-warmup-fraction sets the same as --lr-warmup-iters or --lr-warmup-samples: give one");
}

/// Refuses flags that have no effect without others.
void refuse_idle(const training_flags& flags, sentences& wrong) {
  const auto& r = flags.rate;
  const auto& rate = flags.job.training.rate;
  const bool wsd = rate.style == runtime::decay_style::wsd;
  const bool ends = r.wsd_iterations || r.wsd_samples;
  if (wsd && !ends)
    wrong.emplace_back(
        "--lr-decay-style WSD needs --lr-wsd-decay-iters or --lr-wsd-decay-samples: the length of "
        "the decay at the end");
  if (!wsd && (ends || rate.end_style != runtime::wsd_style::exponential))
    wrong.emplace_back(
        "--lr-wsd-decay-style, --lr-wsd-decay-iters and --lr-wsd-decay-samples need "
        "--lr-decay-style WSD");
  if (flags.given.contains("rate.decoupled_minimum")
      && !flags.given.contains("rate.decoupled_maximum"))
    wrong.emplace_back("--decoupled-min-lr needs --decoupled-lr");
  const auto &start = flags.weight_decay.start, &end = flags.weight_decay.end;
  const bool grows
      = flags.job.training.optimizer.weight_decay_style != runtime::increase_style::constant;
  if (grows != (start && end) || (!grows && (start || end)))
    wrong.emplace_back(
        "--start-weight-decay, --end-weight-decay and --weight-decay-incr-style linear or cosine "
        "go together: give all three, or --weight-decay alone");
}

void resolve_rate(const training_flags& flags,
                  std::int64_t step,
                  std::int64_t whole_run,
                  runtime::rate_schedule& rate) {
  const auto& r = flags.rate;
  const auto samples = [&](const std::optional<std::int64_t>& in_steps,
                           const std::optional<std::int64_t>& in_samples,
                           std::int64_t otherwise) {
    return in_samples ? *in_samples : in_steps ? *in_steps * step : otherwise;
  };
  rate.decay = samples(r.decay_iterations, r.decay_samples, whole_run);
  rate.warmup = r.warmup_fraction ? *r.warmup_fraction * double(rate.decay)
                                  : double(samples(r.warmup_iterations, r.warmup_samples, 0));
  if (rate.style == runtime::decay_style::wsd)
    rate.end_decay = samples(r.wsd_iterations, r.wsd_samples, 0);
  if (!flags.given.contains("rate.decoupled_maximum"))
    rate.decoupled_minimum = 0;
  else if (!flags.given.contains("rate.decoupled_minimum"))
    rate.decoupled_minimum = rate.minimum;
}

}  // namespace

void resolve_batch(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong) {
  const auto& s = flags.steps;
  auto& batch = job.training.batch;
  const bool global = flags.given.contains("batch.global");
  unknown.batch = !flags.given.contains("batch.micro");
  if (!global)
    batch.global = batch.micro * batch.data_parallel;
  if (s.ramp.size() == 3) {
    batch.ramp_start = s.ramp[0];
    batch.ramp_increment = s.ramp[1];
    batch.ramp_samples = s.ramp[2];
    if (batch.ramp_start == 0)
      wrong.emplace_back("--rampup-batch-size: START is 0; give at least 1");
  }
  if (s.sizes.empty())
    return;
  if (!s.samples)
    wrong.emplace_back(
        "--step-batch-size-schedule needs --train-samples instead of --train-iters, because steps "
        "have several sizes");
  const auto sequence = job.training.model.sequence();
  unknown.batch = true;  // until they are read
  if (sequence < 1)
    return;
  collect(wrong, [&] {
    batch.steps = runtime::batch_steps_from(s.sizes, sequence);
    unknown.batch = !flags.given.contains("batch.micro");
    const auto last = batch.steps.back().size;
    if (global && batch.global != last)
      wrong.push_back(fmt::format(
          "--global-batch-size {} and --step-batch-size-schedule, which ends with {}, contradict "
          "each other: leave --global-batch-size out",
          batch.global,
          last));
    batch.global = last;
  });
}

void resolve_epochs(training_flags& flags,
                    runtime::training_job& job,
                    const unknown_parts& unknown) {
  auto& steps = flags.steps;
  if (unknown.shape || unknown.batch || !runtime::has_own_files(job))
    return;
  const auto& model = job.training.model;
  const auto& of = model.family().samples();
  const auto epochs = of.epochs(model);
  const bool says_how_long = steps.iterations || steps.samples;
  if (epochs == 0 && !says_how_long)
    throw usage_error("the length of the run is missing: give --epochs, or --train-iters");
  if (epochs > 0 && says_how_long)
    throw usage_error(
        "--epochs and --train-iters or --train-samples all set the length of the run: give one");
  if (epochs == 0)
    return;
  const auto batch = job.training.batch.global;
  const auto samples
      = [&](runtime::data_split part) { return std::int64_t(of.samples_in_files(model, part)); };
  const auto train = samples(runtime::data_split::train);
  if (batch < 1 || train < batch)
    throw usage_error(
        "an epoch has {} samples, fewer than one step of --global-batch-size {}: give smaller "
        "batches, or more texts",
        train,
        batch);
  steps.iterations = epochs * train / batch;
  if (!flags.given.contains("watch.eval_interval"))
    job.watch.eval_interval = std::uint64_t((train + batch / 2) / batch);
  if (!flags.given.contains("watch.eval_batches"))
    job.watch.eval_batches = (samples(runtime::data_split::valid) + batch - 1) / batch;
}

/// Megatron-LM counts learning rates in samples. Steps are converted with the full batch size.
void resolve_steps(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong) {
  const auto& s = flags.steps;
  const auto& batch = job.training.batch;
  const bool in_samples = s.samples.has_value();
  if (in_samples && s.iterations)
    wrong.emplace_back(
        "--train-iters and --train-samples both set the length of the run: give one");
  refuse_units(flags, wrong);
  refuse_idle(flags, wrong);
  unknown.length
      = s.iterations.has_value() == in_samples || unknown.batch || !keeps_its_rules(batch);
  if (!unknown.length)
    job.train_iterations
        = std::uint64_t(in_samples ? steps_of_samples(batch, *s.samples) : *s.iterations);
  const auto whole_run
      = in_samples ? *s.samples : std::int64_t(job.train_iterations) * batch.global;
  resolve_rate(flags, batch.global, whole_run, job.training.rate);
  auto& optimizer = job.training.optimizer;
  if (flags.weight_decay.start && flags.weight_decay.end) {
    optimizer.start_weight_decay = *flags.weight_decay.start;
    optimizer.weight_decay = *flags.weight_decay.end;
  }
  if (optimizer.weight_decay_style != runtime::increase_style::constant)
    optimizer.weight_decay_samples = whole_run;
}

}  // namespace troupe::command
