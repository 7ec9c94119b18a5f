#include "actors/command/flags.hpp"
#include "actors/command/hub_models.hpp"
#include "actors/command/resolve_parts.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/command/told.hpp"
#include "actors/job/hub_port.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/data/blend.hpp"
#include "runtime/data/split.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/tokenizer/description.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::command {
namespace {

std::string together(const sentences& wrong) {
  if (wrong.size() == 1)
    return wrong.front();
  std::string out = "this run cannot start:";
  for (const auto& sentence : wrong)
    out += "\n  " + sentence;
  return out;
}

bool chooses_tokenizer(const tokenizer_flags& x) {
  return !x.folder.empty() || !x.vocab_file.empty() || !x.merge_file.empty() || !x.model.empty()
         || x.type != tokenizer_flags().type;
}

void resolve_model(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong) {
  auto& model = job.training.model;
  const auto& family = *flags.family;
  const bool from_hub = !flags.job.checkpoints.load_hub.empty();
  model = family.defaults();
  unknown.shape = true;  // until it is resolved
  collect(wrong, [&] {
    if (auto found = shape_of(flags, wrong)) {
      model = *std::move(found);
      unknown.shape = false;
    }
  });
  auto vocabulary = model.vocabulary();
  family.set_vocabulary(model, vocabulary, 0);
  unknown.tokenizer = true;  // until it is made
  if (unknown.shape && from_hub && !chooses_tokenizer(flags.tokenizer))
    return;  // the folder that could not be read may have one
  collect(wrong, [&] {
    const auto tokens = make(flags.tokenizer);
    job.data.end_of_document = tokens->names_end_of_document() ? tokens->end_of_document() : -1;
    job.tokenizer_description = runtime::describe(choice_of(flags.tokenizer), *tokens);
    const auto sentinels = family.extra_tokens(model);
    if (!from_hub)
      vocabulary = tokens->vocabulary_size() + sentinels;
    else if (!unknown.shape && tokens->vocabulary_size() + sentinels > vocabulary)
      throw usage_error(
          "the tokenizer has {} tokens{}, but the model of --load-hf has {}: use the tokenizer "
          "that it was trained with{}",
          tokens->vocabulary_size(),
          sentinels > 0 ? fmt::format(" besides {} of --vocab-extra-ids", sentinels) : "",
          vocabulary,
          sentinels > 0 ? ", and as many sentinels" : "");
    const auto padded
        = runtime::padded_vocabulary_size(vocabulary, flags.vocabulary_divisor, job.layout.tensor);
    family.set_vocabulary(model, vocabulary, padded);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (padded > most)
      throw usage_error(
          "the vocabulary of {} tokens has {} rows after padding to a multiple of {}, but at most "
          "{} are possible: give a smaller --vocab-size or --make-vocab-size-divisible-by",
          vocabulary,
          padded,
          flags.vocabulary_divisor * job.layout.tensor,
          most);
    unknown.tokenizer = false;
  });
}

/// Reads the words of a flag as a blend. Throws usage_error that names the flag.
runtime::data_blend blend_of(const char* flag, const std::vector<std::string>& words) try {
  return runtime::blend_from_words(words);
} catch (const runtime::input_error& failure) {
  throw usage_error("{}: {}", flag, failure.what());
}

void resolve_blends(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& from = flags.data;
  auto& to = job.data;
  const bool by_part
      = !from.train_path.empty() || !from.valid_path.empty() || !from.test_path.empty();
  collect(wrong, [&] { to.path = blend_of("--data-path", from.path); });
  collect(wrong, [&] { to.train_path = blend_of("--train-data-path", from.train_path); });
  collect(wrong, [&] { to.valid_path = blend_of("--valid-data-path", from.valid_path); });
  collect(wrong, [&] { to.test_path = blend_of("--test-data-path", from.test_path); });
  const auto read = [&](const char* flag, const std::filesystem::path& file, const auto& parse) {
    try {
      parse(runtime::read_text(file));
    } catch (const runtime::input_error& failure) {
      wrong.push_back(fmt::format("{} '{}': {}", flag, file.string(), failure.what()));
    }
  };
  if (!from.arguments_file.empty())
    read("--data-args-path", from.arguments_file, [&](const std::string& text) {
      if (!from.path.empty())
        throw runtime::input_error("--data-path is given, too: give one of them");
      to.path = runtime::blend_from_text(text);
      if (to.path.empty())
        throw runtime::input_error(
            "the file names no data set; write the words of --data-path there");
    });
  if (!from.part_arguments_file.empty())
    read("--per-split-data-args-path", from.part_arguments_file, [&](const std::string& text) {
      if (by_part)
        throw runtime::input_error(
            "--train-data-path, --valid-data-path or --test-data-path is given, too: leave out "
            "these flags or the file");
      const auto parts = runtime::blends_from_json(text);
      to.train_path = parts[0];
      to.valid_path = parts[1];
      to.test_path = parts[2];
    });
}

void resolve_data(const training_flags& flags,
                  runtime::training_job& job,
                  unknown_parts& unknown,
                  sentences& wrong) {
  const auto& d = flags.data;
  for (auto* folder : {&job.data.cache, &job.data.object_cache})
    if (*folder && (*folder)->empty())
      folder->reset();
  if (!job.data.fim.enabled && job.data.fim != runtime::fim_settings())
    wrong.emplace_back("--fim-* flags need --fim-data: add it, or leave them out");
  const auto before = wrong.size();
  resolve_blends(flags, job, wrong);
  unknown.data = wrong.size() > before;
  const bool deals_itself = !d.train_path.empty() || !d.valid_path.empty() || !d.test_path.empty()
                            || !d.part_arguments_file.empty();
  if (flags.given.contains("data.split") && deals_itself)
    wrong.emplace_back(
        "--split divides the documents of --data-path, but here each part has its own data: leave "
        "it out");
  if (d.unsharded && d.order != "cyclic")
    wrong.emplace_back(
        "--no-data-sharding needs --dataloader-type cyclic: add that, or leave --no-data-sharding "
        "out");
  job.data.order = d.order == "single" ? runtime::sampling::single
                   : d.unsharded       ? runtime::sampling::cyclic_unsharded
                                       : runtime::sampling::cyclic;
}

/// Without validation documents (--split 100,0,0) there is no validation, as in Megatron-LM.
void resolve_watching(const training_flags& flags,
                      runtime::training_job& job,
                      const unknown_parts& unknown,
                      sentences& wrong) {
  job.watch.matrix_rate = flags.matrix_rate.value_or(0) * 1e12;
  if (flags.matrix_rate && !job.watch.log_throughput)
    wrong.emplace_back("--matrix-rate needs --log-throughput, which logs the MFU");
  if (job.watch.log_file.empty() && !job.checkpoints.save.empty() && !job.skip_train)
    job.watch.log_file = job.checkpoints.save / "log.jsonl";
  collect(wrong, [&] { actors::hub_port_of(job.watch); });
  collect(wrong, [&] {
    const runtime::split_matrix split(job.data.split);
    const bool validates
        = runtime::has_own_files(job)   ? runtime::has_documents(job, runtime::data_split::valid)
          : job.data.train_path.empty() ? split.share(runtime::data_split::valid).has_value()
                                        : !job.data.valid_path.empty();
    if ((!validates && !unknown.data) || job.watch.eval_batches == 0)
      job.watch.eval_interval = 0;
  });
}

void resolve_nonfinite(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  constexpr std::uint64_t usual = 10;
  const bool skips = flags.steps.nonfinite == "skip";
  const bool given = flags.given.contains("skippable_in_a_row");
  if (given && !skips)
    wrong.emplace_back(
        "--max-skipped-in-a-row needs --on-nonfinite skip: otherwise no step is skipped");
  auto& most = job.training.skippable_in_a_row;
  most = !skips ? 0 : given ? most : usual;
}

void resolve_scaling(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  auto& out = job.training.scaling;
  const auto given = [&flags](const char* setting) { return flags.given.contains(setting); };
  const bool constant = given("scaling.constant");
  const bool dynamic = given("scaling.initial") || given("scaling.minimum")
                       || given("scaling.window") || given("scaling.hysteresis");
  if ((constant || dynamic) && job.training.precision != runtime::dtype::f16)
    wrong.emplace_back(
        "--loss-scale, --initial-loss-scale, --min-loss-scale, --loss-scale-window and "
        "--hysteresis need --fp16: gradients need no scaling in fp32 and bf16, which have the same "
        "range; leave them out");
  if (constant && dynamic)
    wrong.emplace_back(
        "--loss-scale sets a constant scale, but --initial-loss-scale, --min-loss-scale, "
        "--loss-scale-window and --hysteresis set a dynamic one: leave it or them out");
  if (!given("scaling.minimum"))
    out.minimum = std::min(out.minimum, out.initial);
  if (out.minimum > out.initial)
    wrong.push_back(fmt::format("--min-loss-scale {} is above --initial-loss-scale {}: lower it",
                                out.minimum,
                                out.initial));
}

/// Fills in `job`. Adds a sentence for each contradiction within a part and each unreadable input.
void resolve_parts(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong) {
  resolve_model(flags, job, unknown, wrong);
  resolve_data(flags, job, unknown, wrong);
  resolve_layout(flags, job, unknown, wrong);
  resolve_recompute(flags, job, wrong);
  auto length = flags;
  collect(wrong, [&] { resolve_epochs(length, job, unknown); });
  resolve_steps(length, job, unknown, wrong);
  resolve_watching(flags, job, unknown, wrong);
  resolve_nonfinite(flags, job, wrong);
  resolve_scaling(flags, job, wrong);
  if (job.skip_train) {  // nothing is saved, so rules about saving do not apply
    auto& to = job.checkpoints;
    to.save.clear();
    to.local_folder.clear();
    to.save_interval = to.keep_last = to.keep_every = to.local_interval = 0;
  }
  if (!flags.given.contains("recovery.on"))
    job.recovery.on = job.layout.processes > 1;
}

/// Appends sentences in the words of flags, without duplicates.
void add(sentences& told, const sentences& more) {
  for (const auto& sentence : more)
    if (auto text = with_flags(sentence); std::find(told.begin(), told.end(), text) == told.end())
      told.push_back(std::move(text));
}

/// Warns of flags that have no effect.
void warn_of_idle_flags(const training_flags& flags) {
  if (flags.job.layout.sequence_parallel && flags.job.layout.tensor == 1)
    runtime::log_warning(
        "--sequence-parallel does nothing with --tensor-model-parallel-size 1: it is off");
}

/// Downloads the small files of models of the Hub; the flags then name their folders. Returns the
/// model with weights left to download, if there is one.
std::filesystem::path find_hub_models(training_flags& flags) {
  std::filesystem::path left;
  auto& t = flags.tokenizer;
  if (auto& hub = flags.job.checkpoints.load_hub; names_hub_model(hub)) {
    const auto folder = hub_or_local_folder("--load-hf", hub, runtime::hub_files::shape);
    if (!flags.dry_run)
      left = pinned_hub_model(hub);
    hub = folder;
  }
  if (names_hub_model(t))
    (t.folder.empty() ? t.model : t.folder)
        = t.folder.empty()
              ? hub_or_local_folder("--tokenizer-model", t.model, runtime::hub_files::tokenizer)
              : hub_or_local_folder("--tokenizer", t.folder, runtime::hub_files::tokenizer);
  recognise_folders(flags);
  return left;
}

}  // namespace

void recognise_folders(training_flags& flags) {
  auto& load = flags.job.checkpoints.load;
  auto& hub = flags.job.checkpoints.load_hub;
  for (auto* const named :
       {&load, &hub, &flags.job.checkpoints.pretrained, &flags.tokenizer.folder})
    take_gguf(*named);
  if (hub.empty() && !load.empty() && runtime::is_hub_folder(load))
    hub = std::exchange(load, {});
  auto& pretrained = flags.job.checkpoints.pretrained;
  if (hub.empty() && !pretrained.empty() && runtime::is_hub_folder(pretrained))
    hub = std::exchange(pretrained, {});
  if (!hub.empty() && !chooses_tokenizer(flags.tokenizer) && runtime::has_tokenizer(hub))
    flags.tokenizer.folder = hub;
}

std::vector<std::string> what_is_missing(const training_flags& said) {
  auto flags = said;
  recognise_folders(flags);
  sentences wrong;
  const auto require = [&](bool given, const char* otherwise) {
    if (!given)
      wrong.emplace_back(otherwise);
  };
  const auto& hub = flags.job.checkpoints.load_hub;
  if (hub.empty())
    for (const auto& setting : flags.family->required())
      if (!flags.given.contains(setting.name) && !flags.given.contains(setting.instead))
        wrong.push_back(fmt::format("`{}` is missing; {}the model's shape is given by flags",
                                    setting.name,
                                    flags.family->hub() == nullptr ? "" : "without --load-hf "));
  const bool unread
      = names_hub_model(flags.tokenizer)
        || (!hub.empty() && !runtime::is_hub_folder(hub) && !chooses_tokenizer(flags.tokenizer));
  if (!unread)  // otherwise it is not downloaded yet, or the folder is wrong
    collect(wrong, [&] { choice_of(flags.tokenizer); });
  const auto& s = flags.steps;
  require(flags.given.contains("batch.micro"),
          "--micro-batch-size is missing: the samples that pass a stage at once");
  require(s.iterations || s.samples || flags.given.contains(flags.family->own_data()),
          "the length of the run is missing: give --train-iters or --train-samples");
  require(flags.given.contains("rate.maximum"), "--lr is missing: the peak learning rate");
  const auto& d = flags.data;
  require(flags.given.contains(flags.family->own_data()) || flags.job.data.mock || !d.path.empty()
              || !d.train_path.empty() || !d.valid_path.empty() || !d.test_path.empty()
              || !d.arguments_file.empty() || !d.part_arguments_file.empty(),
          "the training data is missing: give --data-path PREFIX, or --mock-data");
  sentences out;
  add(out, wrong);
  return out;
}

runtime::training_job resolve(const training_flags& said) {
  auto flags = said;
  recognise_folders(flags);
  auto told = what_is_missing(flags);
  if (!told.empty()
      && (names_hub_model(flags.job.checkpoints.load_hub) || names_hub_model(flags.tokenizer)))
    throw usage_error("{}", together(told));  // before something is downloaded
  const auto left = find_hub_models(flags);
  auto job = flags.job;
  unknown_parts unknown;
  sentences wrong;
  resolve_parts(flags, job, unknown, wrong);
  add(told, wrong);
  sentences rules;
  add(rules, runtime::validate(job, unknown));
  add(told, independent_of(told, rules));
  if (!told.empty())
    throw usage_error("{}", together(told));
  if (!left.empty())
    hub_or_local_folder("--load-hf", left, runtime::hub_files::model);
  warn_of_idle_flags(flags);
  return job;
}

}  // namespace troupe::command
