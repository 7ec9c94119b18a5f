#include "actors/job/start.hpp"

#include "runtime/checkpoint/same_extension.hpp"
#include "runtime/checkpoint/upcycled.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/scheduler_values.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path resolved(const fs::path& folder) {
  std::error_code failure;
  const auto out = fs::weakly_canonical(folder, failure);
  // "dir/" has an empty last name
  return out.has_filename() ? out : out.parent_path();
}

/// The newest iteration in a folder; empty if it has none or cannot be listed.
std::optional<std::int64_t> newest_in(const fs::path& folder) {
  std::optional<std::int64_t> out;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    out = std::max(out, runtime::iteration_of_folder(at->path().filename().string()));
  return out;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code failure;
  return fs::exists(folder / "manifest.json", failure);
}

bool is_missing(const fs::path& folder) {
  std::error_code failure;
  return fs::status(folder, failure).type() == fs::file_type::not_found;
}

void require_own_folder(const runtime::checkpoint_settings& where) {
  if (where.save.empty())
    return;
  const auto save = resolved(where.save);
  const auto anew = where.begins_anew_by();
  const bool goes_on
      = !where.load.empty() && anew.empty()
        && (resolved(where.load) == save || resolved(where.load).parent_path() == save);
  if (goes_on)
    return;
  const auto newest = newest_in(save);
  if (!newest)
    return;
  if (!anew.empty())
    throw runtime::input_error(
        "cannot save into '{0}': it holds iteration {1}, and {2} begins again at 0; to continue "
        "from there give `checkpoints.load` {0} without {2}, or choose another folder",
        where.save.string(),
        *newest,
        anew);
  throw runtime::input_error(
      "cannot save into '{0}': it holds iteration {1} of another run; add `checkpoints.load` {0} "
      "to continue it, or choose another folder",
      where.save.string(),
      *newest);
}

}  // namespace

runtime::found_checkpoint find_start(const runtime::training_job& job,
                                     const runtime::cancel_token& stop) {
  const auto look = [&stop](std::uint64_t) { stop.throw_if_cancelled(); };
  const auto& where = job.checkpoints;
  require_own_folder(where);
  if (where.load.empty())
    return {};
  if (is_checkpoint(where.load)) {
    runtime::open_checkpoint(where.load, look);
    return {where.load, {}};
  }
  auto found = runtime::latest_checkpoint(where.load, look);
  if (!found.folder
      && (!where.begins_anew_by().empty() || where.exit_on_missing
          || resolved(where.load) != resolved(where.save)))
    throw runtime::input_error(
        "cannot resume from `checkpoints.load` '{}': {}; correct the path, or leave "
        "`checkpoints.load` out to start from iteration 0",
        where.load.string(),
        is_missing(where.load)
            ? "there is no such folder"
            : "it has no manifest.json of a checkpoint and no iter_* folders of a run");
  return found;
}

namespace {

runtime::scheduler_values values_of(const runtime::training_job& job) {
  return {job.training.rate, job.training.optimizer.decay(), job.training.batch.global};
}

void settle_scheduler(const runtime::checkpoint_reader& from, runtime::training_job& job) {
  const auto where = fmt::format("the identity in '{}'", from.folder().string());
  const auto there = runtime::scheduler_values_in(from.manifest().identity, where);
  const auto& checkpoints = job.checkpoints;
  if (job.training.rate_of.at)
    return;  // a difference of names is reported with the identity
  if (checkpoints.use_checkpoint_scheduler && !there)
    throw runtime::input_error(
        "{} has no learning rate to use: leave `checkpoints.use_checkpoint_scheduler` out", where);
  if (checkpoints.override_scheduler || !there || *there == values_of(job))
    return;
  if (!checkpoints.use_checkpoint_scheduler)
    throw runtime::input_error(
        "cannot resume from '{}': its learning rate follows another schedule.{}\n"
        "Choose one: `checkpoints.override_scheduler` keeps that of the command line, "
        "`checkpoints.use_checkpoint_scheduler` that of the checkpoint; or give the flags it was "
        "trained with",
        from.folder().string(),
        differences(*there, values_of(job)));
  job.training.rate = there->rate;
  auto& optimizer = job.training.optimizer;
  optimizer.weight_decay = there->weight_decay.end;
  const bool grows = there->weight_decay.style != runtime::increase_style::constant;
  optimizer.start_weight_decay = grows ? there->weight_decay.start : 0;
  optimizer.weight_decay_style = there->weight_decay.style;
  optimizer.weight_decay_samples = there->weight_decay.samples;
}

/// The step from which the moments of a checkpoint began at zero.
std::uint64_t moments_from(const runtime::checkpoint_manifest& x) {
  const auto all = runtime::json_value(x.identity);
  const auto found = all.find("optimizer");
  if (found == all.end() || !found->is_object() || !found->contains("moments_from"))
    return 0;
  const auto& since = (*found)["moments_from"];
  if (!since.is_number_unsigned() || since.get<std::uint64_t>() > std::uint64_t(x.iteration))
    throw runtime::input_error(
        "the identity of iteration {} says that its moments began after it; use another checkpoint",
        x.iteration);
  return since.get<std::uint64_t>();
}

/// Moves the layout fields out of an identity.
json take_layout(json& identity) {
  json out = json::object();
  if (const auto layout = identity.find("layout"); layout != identity.end()) {
    out["layout"] = *layout;
    identity.erase("layout");
  }
  const auto batch = identity.find("batch");
  if (batch != identity.end() && batch->is_object() && batch->contains("data_parallel")) {
    out["batch"]["data_parallel"] = (*batch)["data_parallel"];
    batch->erase("data_parallel");
  }
  const auto model = identity.find("model");  // padded to a multiple of the tensor axis
  if (model != identity.end() && model->is_object() && model->contains("padded_vocabulary")) {
    out["model"]["padded_vocabulary"] = (*model)["padded_vocabulary"];
    model->erase("padded_vocabulary");
  }
  return out;
}

/// Warnings about a run that continues under another identity.
std::vector<std::string> compare_identities(const runtime::checkpoint_reader& from,
                                            const runtime::training_job& job) {
  auto there = runtime::json_value(from.manifest().identity),
       here = runtime::json_value(
           runtime::with_rate_changes(runtime::identity(job), job.training.rate_changes));
  const auto layout
      = differences(runtime::json_text(take_layout(there)), runtime::json_text(take_layout(here)));
  const auto others = differences(runtime::json_text(there), runtime::json_text(here));
  if (job.checkpoints.strict_identity && !(layout + others).empty())
    throw runtime::input_error(
        "cannot resume from '{}' with the same bits (`checkpoints.strict_identity`): this run has "
        "another identity.{}{}\nGive the settings it was trained with, or leave "
        "`checkpoints.strict_identity` out",
        from.folder().string(),
        layout,
        others);
  std::vector<std::string> out;
  if (!layout.empty())
    out.push_back(fmt::format(
        "the layout has changed since '{}': results agree with those of the other layout "
        "numerically; bits are equal only if no other axis than the pipeline differs.{}",
        from.folder().string(),
        layout));
  if (!others.empty())
    out.push_back(fmt::format(
        "the checkpoint '{}' was written by a run with another identity: later states may differ "
        "from those of that run in their bits.{}",
        from.folder().string(),
        others));
  return out;
}

/// Optimizer of a checkpoint's identity, for example "muon, others by adam".
std::string state_kind_of(const runtime::checkpoint_manifest& x) {
  const auto text = [](const json& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  runtime::optimizer_settings out;
  const auto all = runtime::json_value(x.identity);
  const auto found = all.find("optimizer");
  if (found == all.end() || !found->is_object())
    return state_kind(out);
  if (const auto kind = text(*found, "kind"); !kind.empty()) {
    const auto known = runtime::optimizer_kind_from(kind);
    if (!known)
      return kind;
    out.kind = *known;
  }
  if (const auto muon = found->find("muon"); muon != found->end() && muon->is_object())
    out.muon.others = runtime::optimizer_kind_from(text(*muon, "others")).value_or(out.muon.others);
  return state_kind(out);
}

/// `troupe checkpoint import` makes checkpoints without optimizer state.
void require_state(const runtime::checkpoint_reader& from, const runtime::training_job& job) {
  const auto names = from.names();
  const bool has_state = std::any_of(names.begin(), names.end(), [](auto name) {
    return name.starts_with("exp_avg.") || name.starts_with("momentum_buffer.");
  });
  const char* const instead
      = "`checkpoints.finetune` to begin a new training with them, or `checkpoints.no_load_optim` "
        "to continue from its iteration with moments from zero";
  if (!has_state)
    throw runtime::input_error(
        "cannot resume from '{}': it has parameters but no optimizer state. Give {}",
        from.folder().string(),
        instead);
  const auto there = state_kind_of(from.manifest());
  const auto here = state_kind(job.training.optimizer);
  if (there != here)
    throw runtime::input_error(
        "cannot resume from '{}': it has optimizer state of {}, but this run's `optimizer.kind` is "
        "{}. Give the optimizer it was trained with; or, for its parameters only, {}",
        from.folder().string(),
        there,
        here,
        instead);
}

void check_pretrained(const runtime::checkpoint_reader& from, const runtime::training_job& job) {
  runtime::require_extension(from.manifest(), job.training.own, from.folder());
  const auto &there = from.manifest().model, &here = job.training.model;
  const auto& family = here.family();
  if (&there.family() != &family)
    throw runtime::input_error(
        "cannot fine-tune '{}' (`checkpoints.pretrained`): its model is {}, and this run's is {}",
        from.folder().string(),
        there.family().title(),
        family.title());
  const auto wrong
      = differences(family.essence(family.body_of(there)), family.essence(family.body_of(here)));
  if (!wrong.empty())
    throw runtime::input_error(
        "cannot fine-tune '{}' (`checkpoints.pretrained`): it is a checkpoint of another model.{}\n"
        "Give the settings that it was trained with, or another checkpoint",
        from.folder().string(),
        wrong);
}

}  // namespace

start_point plan_start(runtime::training_job& job, const runtime::cancel_token& stop) {
  start_point out;
  auto found = find_start(job, stop);
  out.warnings = std::move(found.warnings);
  const auto& checkpoints = job.checkpoints;
  if (!found.folder && !checkpoints.pretrained.empty()) {
    const auto pretrained = runtime::open_model(checkpoints.pretrained);
    check_pretrained(*pretrained, job);
    out.text
        = fmt::format("from iteration 0, with the parameters of '{}' (`checkpoints.pretrained`)",
                      pretrained->folder().string());
    return out;
  }
  if (!found.folder) {
    out.text
        = checkpoints.load_hub.empty()
              ? "from iteration 0, with initial values"
              : fmt::format("from iteration 0, with the weights of '{}' (`checkpoints.load_hub`)",
                            checkpoints.load_hub.string());
    return out;
  }
  out.from = std::make_shared<const runtime::checkpoint_reader>(*found.folder);
  check_model(*out.from, job);
  const auto& there = out.from->manifest();
  if (const auto anew = checkpoints.begins_anew_by(); !anew.empty()) {
    out.text = fmt::format("from iteration 0, with {} of '{}' ({})",
                           checkpoints.upcycle ? "experts made of the layers" : "the parameters",
                           found.folder->string(),
                           anew);
    return out;
  }
  out.iteration = std::uint64_t(there.iteration);
  out.consumed = std::uint64_t(there.consumed_samples);
  out.skipped = there.skipped;
  const bool ended = out.iteration >= job.train_iterations && !job.skip_train;
  if (job.skip_train)
    out.text = fmt::format("iteration {} ('{}') is evaluated, and not trained (`skip_train`)",
                           out.iteration,
                           found.folder->string());
  else
    out.text = fmt::format(
        fmt::runtime(
            ended ? "nothing to do: iteration {} of {} already exists ('{}'); to continue, give "
                    "more `train_iterations` (or `train_samples`), and "
                    "`checkpoints.override_scheduler` unless the decay keeps its length"
                  : "from iteration {} of {} ('{}')"),
        out.iteration,
        job.train_iterations,
        found.folder->string());
  // The schedule belongs to the optimizer, as in Megatron-LM: it is not loaded or compared.
  if (checkpoints.no_load_optim) {
    if (!ended)
      out.text += ", moments from zero (`checkpoints.no_load_optim`)";
    if (!runtime::rate_changes_in(there.identity, out.from->folder().string()).empty())
      out.warnings.emplace_back(
          "commands changed the learning rate before this checkpoint, and "
          "`checkpoints.no_load_optim` drops these changes");
    job.training.optimizer.moments_from = out.iteration - out.skipped.iterations;
    return out;
  }
  require_state(*out.from, job);
  out.with_moments = true;
  if (job.training.precision == runtime::dtype::f16 && there.scale.is_used())
    out.scale = runtime::resumed_scale(job.training.scaling, there.scale);
  job.training.optimizer.moments_from = moments_from(there);
  settle_scheduler(*out.from, job);
  if (!checkpoints.override_scheduler)
    job.training.rate_changes = runtime::rate_changes_in(
        there.identity, fmt::format("the identity in '{}'", out.from->folder().string()));
  for (auto& told : compare_identities(*out.from, job))
    out.warnings.push_back(std::move(told));
  return out;
}

bool goes_on_from_its_saves(const runtime::checkpoint_settings& where) {
  return !where.save.empty() && !where.load.empty() && where.begins_anew_by().empty()
         && !where.no_load_optim && resolved(where.load) == resolved(where.save);
}

std::string differences(const std::string& there,
                        const std::string& here,
                        const char* whose,
                        const char* ours) {
  const auto a = runtime::json_value(there).flatten(), b = runtime::json_value(here).flatten();
  std::set<std::string> names;
  for (const auto* x : {&a, &b})
    for (const auto& [name, value] : x->items())
      names.insert(name);
  const auto shown = [](const json& x, const std::string& name) {
    const auto found = x.find(name);
    return found == x.end()
               ? std::string("nothing")
               : runtime::json_text_replacing(*found, -1, runtime::json_characters::ascii);
  };
  std::string out;
  for (const auto& name : names) {
    const auto x = shown(a, name), y = shown(b, name);
    if (x == y || name.empty())  // an empty object flattens to one entry without a name
      continue;
    const auto key
        = runtime::json_text_replacing(json(name.substr(1)), -1, runtime::json_characters::ascii);
    out += fmt::format(
        "\n  {}: {} {}, {} {}", std::string_view(key).substr(1, key.size() - 2), whose, x, ours, y);
  }
  return out;
}

namespace {

bool is_mixture(const runtime::model_description& x) {
  return !x.family().shared_by_expert_ranks(x).empty();
}

}  // namespace

void check_model(const runtime::checkpoint_reader& from, const runtime::training_job& job) {
  runtime::require_extension(from.manifest(), job.training.own, from.folder());
  const auto& there = from.manifest().model;
  auto here = job.training.model;
  if (&there.family() != &here.family())
    throw runtime::input_error("cannot resume from '{}': its model is {}, and this run's is {}",
                               from.folder().string(),
                               there.family().title(),
                               here.family().title());
  if (job.checkpoints.upcycle) {
    if (is_mixture(there))
      throw runtime::input_error(
          "cannot make experts of '{}' (`checkpoints.upcycle`): its model has experts already; "
          "leave `checkpoints.upcycle` out to continue from it, or name a checkpoint of the model "
          "without experts",
          from.folder().string());
    here = runtime::dense_origin_of(here, job.checkpoints.upcycle_granularity).model;
  }
  const auto wrong = differences(there.family().essence(there), here.family().essence(here));
  if (!wrong.empty())
    throw runtime::input_error(
        "cannot resume from '{}': it is a checkpoint of another model.{}\n"
        "Give the flags it was trained with, or another `checkpoints.load`{}",
        from.folder().string(),
        wrong,
        is_mixture(here) && !is_mixture(there)
            ? "; to make experts of its layers, add `checkpoints.upcycle`"
            : "");
}

namespace {

/// `iteration_of` gets a line without its end; lines of other formats stay.
template <class IterationOf>
void cut_log(const fs::path& log, std::uint64_t iteration, const IterationOf& iteration_of) {
  std::error_code failure;
  if (log.empty() || !fs::is_regular_file(log, failure))
    return;
  const auto text = runtime::read_text(log);
  std::string kept;
  std::string_view rest = text;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const auto line = rest.substr(0, end + 1);
    rest.remove_prefix(line.size());
    const std::int64_t at = iteration_of(line.substr(0, end));
    if (at < 0 || std::uint64_t(at) <= iteration)
      kept += line;
  }
  if (kept.size() != text.size())
    runtime::write_text(log, kept);
}

}  // namespace

void cut_logs(const runtime::watch_settings& watch, std::uint64_t iteration) {
  cut_log(watch.log_file, iteration, runtime::iteration_of_json);
  cut_log(watch.csv_file, iteration, runtime::iteration_of_row);
}

}  // namespace troupe::actors
