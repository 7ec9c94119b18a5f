#include "runtime/job/job.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/job/fault_rules.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/job/layout_rules.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/model/expert_choices.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "runtime/telemetry/trace.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;
using sentences = std::vector<std::string>;

void validate_steps(const training_job& job, const unknown_parts& unknown, sentences& wrong) {
  if (!unknown.batch)
    collect(wrong, [&] { check(job.training.batch); });
  if (job.train_iterations < 1 && !unknown.length)
    wrong.push_back(fmt::format(
        "the run has no step: give `train_iterations` of at least 1, or `train_samples` of "
        "at least `batch.global` {}",
        job.training.batch.global));
  const auto& rate = job.training.rate;
  if (!(rate.maximum >= 0))
    wrong.push_back(fmt::format("`rate.maximum` is {}; give 0 or more", rate.maximum));
  if (rate.minimum > rate.maximum)
    wrong.push_back(fmt::format(
        "`rate.minimum` {} is above `rate.maximum` {}: lower the one or raise the other",
        rate.minimum,
        rate.maximum));
  if (rate.warmup_start > rate.maximum)
    wrong.push_back(fmt::format("`rate.warmup_start` {} is above `rate.maximum` {}: give less",
                                rate.warmup_start,
                                rate.maximum));
  const bool has_length = job.train_iterations > 0 && !unknown.length;
  if (rate.warmup >= rate.decay && has_length)
    wrong.push_back(
        fmt::format("the learning rate warms up for {} samples, but has only {} to rise and "
                    "decay in: shorten `rate.warmup_iterations`, `rate.warmup` or "
                    "`rate.warmup_fraction`, or lengthen `rate.decay_iterations` or `rate.decay`",
                    rate.warmup,
                    rate.decay));
  if (rate.style == decay_style::wsd && has_length
      && (rate.end_decay < 1 || rate.end_decay > rate.decay))
    wrong.push_back(
        fmt::format("`rate.style` WSD decays at its end for {} samples: give "
                    "`rate.wsd_decay_iterations` or `rate.wsd_decay`, from 1 to the {} samples of "
                    "the whole decay",
                    rate.end_decay,
                    rate.decay));
  if (rate.decoupled_minimum > rate.decoupled_maximum)
    wrong.push_back(fmt::format(
        "`rate.decoupled_minimum` {} is above `rate.decoupled_maximum` {}: lower the one or raise "
        "the other",
        rate.decoupled_minimum,
        rate.decoupled_maximum));
  const auto& adam = job.training.optimizer;
  if (adam.weight_decay_style != increase_style::constant
      && adam.start_weight_decay > adam.weight_decay)
    wrong.push_back(
        fmt::format("weight decay would fall from `optimizer.start_weight_decay` {} to "
                    "`optimizer.end_weight_decay` {}: it only grows; lower the one or raise the "
                    "other",
                    adam.start_weight_decay,
                    adam.weight_decay));
  const std::pair<const char*, double> memories[]
      = {{"`optimizer.beta1`", adam.beta1}, {"`optimizer.beta2`", adam.beta2}};
  for (const auto& [flag, beta] : memories)
    if (!(beta >= 0 && beta < 1))
      wrong.push_back(fmt::format("{} is {}; give a number from 0 to below 1", flag, beta));
  if (!(adam.epsilon > 0))
    wrong.push_back(fmt::format("`optimizer.epsilon` is {}; give a positive number", adam.epsilon));
}

/// Refuses to overwrite a file that is not a log.
void require_log(const fs::path& path) {
  std::error_code failure;
  if (path.empty() || !fs::is_regular_file(path, failure))
    return;
  const mapped_file file(path);
  const auto text = file.text();
  const auto line = text.substr(0, text.find('\n'));
  const bool torn = line.size() == text.size() && line.starts_with("{\"iteration\"");
  if (!text.empty() && !torn && iteration_of_json(line) < 0)
    throw input_error(
        "`watch.log_file` '{}': this file exists and is not a log: its first line is not a JSON "
        "object with an 'iteration'; the run would overwrite it, so name another file",
        path.string());
}

/// True for the header of such a table. Builds with fewer columns wrote shorter headers.
bool names_columns(std::string_view line, const std::vector<std::string>& losses) {
  const auto names = columns_in(line);
  const auto known = csv_columns(losses);
  return line.starts_with("iteration,")
         && std::all_of(names.begin(), names.end(), [&](const auto& name) {
              return std::find(known.begin(), known.end(), name) != known.end();
            });
}

/// Refuses to overwrite a file that is not such a table. A run continues with the columns that its
/// table has.
void require_table(const fs::path& path, const recipe& training) {
  std::error_code failure;
  if (path.empty() || !fs::is_regular_file(path, failure))
    return;
  const mapped_file file(path);
  const auto text = file.text();
  const auto losses = loss_names(training);
  if (!names_columns(text.substr(0, text.find('\n')), losses)
      && !csv_header(losses).starts_with(text))
    throw input_error(
        "`watch.csv_file` '{}': this file exists and its first line is not the header of such a "
        "table; name another file",
        path.string());
}

/// Refuses to overwrite a file that is not a plan, and the plan that this run executes.
void require_plan(const training_job& job) {
  const auto& path = job.watch.schedule_record;
  std::error_code failure;
  if (path.empty())
    return;
  if (job.layout.pipeline < 2)
    throw input_error(
        "`watch.schedule_record` '{}': a single pipeline stage has no schedule to record; leave it "
        "out, or give a `layout.pipeline` above 1",
        path.string());
  if (!fs::is_regular_file(path, failure))
    return;
  if (fs::equivalent(path, job.layout.schedule.source, failure))
    throw input_error(
        "`watch.schedule_record` '{}' would overwrite the schedule of this run: name another file",
        path.string());
  try {
    plan_from_csv(read_text(path), path.string());
  } catch (const error&) {
    throw input_error(
        "`watch.schedule_record` '{}': this file exists and is not a plan; the run would overwrite "
        "it, so name another file",
        path.string());
  }
}

/// Refuses to overwrite a file that no earlier run wrote, such as a configuration, a checkpoint, or
/// another input of this run.
void require_own_kind(const char* setting,
                      const fs::path& path,
                      const char* kind,
                      std::string_view beginning) {
  std::error_code failure;
  if (path.empty() || !fs::is_regular_file(path, failure))
    return;
  const mapped_file file(path);
  if (!file.text().empty() && !file.text().starts_with(beginning))
    throw input_error(
        "{} '{}': this file exists and is not a {}; the run would overwrite it, so name another "
        "file",
        setting,
        path.string(),
        kind);
}

void validate_files(const training_job& job, bool has_model, sentences& wrong) {
  const auto& c = job.checkpoints;
  const auto folder = [&](const char* flag, const fs::path& path, bool must_be) {
    std::error_code failure;
    const auto what = fs::status(path, failure);
    if (path.empty() || fs::is_directory(what) || (!fs::exists(what) && !must_be))
      return;
    wrong.push_back(fmt::format(
        "{} '{}': {}",
        flag,
        path.string(),
        fs::exists(what) ? "this is a file; name a folder" : "there is no such folder"));
  };
  folder("`checkpoints.save`", c.save, false);
  folder("`checkpoints.load`", c.load, false);
  folder("`checkpoints.load_hub`", c.load_hub, true);
  folder("`checkpoints.pretrained`", c.pretrained, false);
  folder("`watch.board_dir`", job.watch.board_dir, false);
  const auto& choices = job.training.expert_choices;
  folder("`expert_choices.record`", choices.record, false);
  folder("`expert_choices.replay`", choices.replay, true);
  if (job.data.cache)
    folder("`data.cache`", *job.data.cache, false);
  if (job.data.object_cache)
    folder("`data.object_cache`", *job.data.object_cache, false);
  const std::pair<const char*, const fs::path*> files[]
      = {{"`watch.log_file`", &job.watch.log_file},
         {"`watch.csv_file`", &job.watch.csv_file},
         {"`watch.schedule_record`", &job.watch.schedule_record},
         {"`watch.trace_file`", &job.watch.trace_file},
         {"`watch.profile_file`", &job.watch.profile_file}};
  for (const auto& [flag, path] : files) {
    std::error_code failure;
    if (path->empty())
      continue;
    if (fs::is_directory(*path, failure))
      wrong.push_back(fmt::format("{} '{}': this is a folder; name a file", flag, path->string()));
    else if (path->has_parent_path() && c.save / path->filename() != *path  // the run makes it
             && !fs::is_directory(path->parent_path(), failure)
             && failure != std::errc::permission_denied)  // reported below
      wrong.push_back(fmt::format("{} '{}': there is no folder '{}' to write it in; make it first",
                                  flag,
                                  path->string(),
                                  path->parent_path().string()));
  }
  for (const auto& [flag, path] : files)
    for (const auto& [other, its] : files)
      if (std::string_view(flag) < other && name_one_file(*path, *its))
        wrong.push_back(fmt::format(
            "{} and {} both name '{}': give each its own file", flag, other, path->string()));
  for (const auto& prefix : prefixes_of(job.data))
    for (const auto& input : {bin_path(prefix), idx_path(prefix)})
      for (const auto& [flag, path] : files)
        if (name_one_file(*path, input))
          wrong.push_back(fmt::format(
              "{} '{}' is the data that the run reads: name another file", flag, path->string()));
  collect(wrong, [&] { require_log(job.watch.log_file); });
  if (has_model)
    collect(wrong, [&] { require_table(job.watch.csv_file, job.training); });
  collect(wrong, [&] { require_plan(job); });
  collect(wrong, [&] {
    require_own_kind("`watch.trace_file`", job.watch.trace_file, "trace", trace_beginning);
  });
  collect(wrong, [&] {
    require_own_kind(
        "`watch.profile_file`", job.watch.profile_file, "profile of operations", profile_beginning);
  });
  const std::pair<const char*, fs::path> targets[]
      = {{"`checkpoints.save`", c.save.empty() ? c.save : c.save / ".lock"},
         {"`watch.log_file`", job.watch.log_file},
         {"`watch.csv_file`", job.watch.csv_file},
         {"`watch.board_dir`",
          job.watch.board_dir.empty() ? fs::path() : job.watch.board_dir / "events.out.tfevents"},
         {"`expert_choices.record`",
          choices.record.empty() ? choices.record : choices.record / "choices"},
         {"`watch.schedule_record`", job.watch.schedule_record},
         {"`watch.trace_file`", job.watch.trace_file},
         {"`watch.profile_file`", job.watch.profile_file}};
  for (const auto& [flag, path] : targets)
    if (!path.empty() && wrong.empty())
      if (const auto obstacle = write_obstacle(path))
        wrong.push_back(fmt::format(
            "{} cannot be written: {}; choose a place that is writable", flag, *obstacle));
  if (c.save.empty() && c.save_interval > 0)
    wrong.emplace_back(
        "`checkpoints.save_interval` needs `checkpoints.save` DIR: where checkpoints go");
}

void validate_expert_choices(const training_job& job, bool has_model, sentences& wrong) {
  const auto& x = job.training.expert_choices;
  const auto& model = job.training.model;
  const bool without_experts = has_model && model.family().shared_by_expert_ranks(model).empty();
  for (const auto& [setting, folder] : {std::pair("`expert_choices.record`", &x.record),
                                        std::pair("`expert_choices.replay`", &x.replay)})
    if (without_experts && !folder->empty())
      wrong.push_back(
          fmt::format("{} '{}': this model has no mixture-of-experts layers; leave it out",
                      setting,
                      folder->string()));
  if (name_one_file(x.record, x.replay))
    wrong.push_back(
        fmt::format("`expert_choices.record` and `expert_choices.replay` both name '{}': the run "
                    "would overwrite what it reads; give each its own folder",
                    x.record.string()));
  std::error_code failure;
  if (fs::is_directory(x.replay, failure))  // else it is refused with the other folders
    collect(wrong, [&] { require_choices(x.replay); });
}

void validate_resuming(const training_job& job, sentences& wrong) {
  const auto& c = job.checkpoints;
  if (c.override_scheduler && c.use_checkpoint_scheduler)
    wrong.emplace_back(
        "`checkpoints.override_scheduler` and `checkpoints.use_checkpoint_scheduler` contradict "
        "each other: give only one, for the learning rate of the command line or of the "
        "checkpoint");
  if (c.finetune && c.load.empty() && c.load_hub.empty())
    wrong.emplace_back(
        "`checkpoints.finetune` needs `checkpoints.load` DIR: the checkpoint to take parameters "
        "from");
  if (c.exit_on_missing && c.load.empty() && c.load_hub.empty())
    wrong.emplace_back(
        "`checkpoints.exit_on_missing` needs `checkpoints.load` DIR: where the checkpoint must be");
  const auto anew = c.begins_anew_by();
  if (!c.pretrained.empty() && (!c.load_hub.empty() || !anew.empty()))
    wrong.push_back(
        fmt::format("`checkpoints.pretrained` and {} both give the first parameters: leave one out",
                    anew.empty() ? "`checkpoints.load_hub`" : anew));
  const auto changing = anew.empty() && c.no_load_optim ? "`checkpoints.no_load_optim`" : anew;
  if (c.strict_identity && !changing.empty())
    wrong.push_back(fmt::format(
        "`checkpoints.strict_identity` requires equal bits, but {} changes them: leave one out",
        changing));
  if (c.use_checkpoint_scheduler && !changing.empty())
    wrong.push_back(
        fmt::format("`checkpoints.use_checkpoint_scheduler` takes the checkpoint's learning rate, "
                    "and {} that of the command line: leave one out",
                    changing));
  if (c.keep_last > 0 && c.save.empty())
    wrong.emplace_back(
        "`checkpoints.keep_last` needs `checkpoints.save` DIR: where checkpoints go");
  if (c.keep_every > 0 && c.keep_last == 0)
    wrong.emplace_back(
        "`checkpoints.keep_every` needs `checkpoints.keep_last`: without it all are kept");
  if ((c.local_interval > 0) != !c.local_folder.empty())
    wrong.emplace_back(
        "`checkpoints.local_interval` and `checkpoints.local_folder` need each other: how often "
        "states are written to a disk of each host, and where");
  else if (c.local_interval > 0 && (job.layout.processes < 2 || !job.recovery.on))
    wrong.emplace_back(
        "`checkpoints.local_interval` needs several processes and `recovery.on`: it writes the "
        "states that processes keep of each other");
}

void validate_upcycling(const training_job& job, bool has_model, sentences& wrong) {
  const auto& c = job.checkpoints;
  if (!c.upcycle) {
    if (c.upcycle_granularity != 1)
      wrong.emplace_back(
          "`checkpoints.upcycle_granularity` does nothing without `checkpoints.upcycle`: add it, "
          "or leave it out");
    return;
  }
  if (c.load.empty())
    wrong.emplace_back(
        "`checkpoints.upcycle` needs `checkpoints.load` DIR: a checkpoint of a dense model; "
        "`troupe checkpoint import` makes one of a Hugging Face model");
  const auto before = wrong.size();
  const auto& model = job.training.model;
  if (has_model && !model.family().dense_origin_of(model, c.upcycle_granularity, wrong)
      && wrong.size() == before)
    wrong.push_back(fmt::format(
        "`checkpoints.upcycle` makes experts of dense layers, and {} has none: leave it "
        "out",
        model.family().title()));
}

/// An operation for the CPU alone would fail in the first pass on a device.
void validate_backend(const training_job& job, sentences& wrong) {
  if (job.backend != kernels::backend::cuda)
    return;
  auto found = job.training.own.host_only ? job.training.own.name : "";
  for (const auto& unit : spec_of(job.training).units)
    if (found.empty() && unit.module.traits().host_only)
      found = unit.name;
  if (!found.empty())
    wrong.push_back(
        fmt::format("'{}' has operations for the CPU alone, but `backend` is cuda: set `backend` "
                    "cpu, or write it with operations that run on devices",
                    found));
}

/// A job with nondeterministic kernels cannot use features that compare bits.
void validate_bits(const training_job& job, sentences& wrong) {
  if (!job.devices.nondeterministic)
    return;
  const auto refuse
      = [&wrong](const char* what, const char* compares, const char* remedy = "give one of them") {
          wrong.push_back(
              fmt::format("`devices.nondeterministic` gives other bits each time, and {} {}: {}",
                          what,
                          compares,
                          remedy));
        };
  if (job.recovery.on)
    refuse("`recovery.on`",
           "compares a step that runs again with its first result",
           "leave the first out, or turn recovery off, which is on by default with several "
           "processes");
  if (job.recovery.verify_fraction > 0)
    refuse("`recovery.verify_fraction`", "compares passes that are computed twice");
  if (job.checkpoints.strict_identity)
    refuse("`checkpoints.strict_identity`",
           "compares the bits of a run with those of its checkpoint");
}

}  // namespace

std::vector<std::string> validate(const training_job& job, unknown_parts unknown) {
  sentences wrong;
  bool has_model = false;
  if (!unknown.shape) {
    auto model = job.training.model;
    if (unknown.tokenizer) {  // any size passes validation
      const auto any = std::max<std::int64_t>(1, model.vocabulary());
      model.family().set_vocabulary(model, any, any);
    }
    wrong = validate(model);
    has_model = wrong.empty();
  }
  for (auto& sentence : validate_layout(job, unknown))
    wrong.push_back(std::move(sentence));
  validate_steps(job, unknown, wrong);
  validate_data(job, unknown, wrong);
  validate_tokenizer_of_data(job, wrong);
  if (wrong.empty() && !unknown.shape)
    validate_batches(job, wrong);
  validate_files(job, has_model, wrong);
  validate_expert_choices(job, has_model, wrong);
  validate_resuming(job, wrong);
  validate_upcycling(job, has_model, wrong);
  validate_bits(job, wrong);
  if (has_model && !unknown.tokenizer)
    collect(wrong, [&] { validate_backend(job, wrong); });
  for (auto& sentence : validate_faults(job))
    wrong.push_back(std::move(sentence));
  return wrong;
}

}  // namespace troupe::runtime
