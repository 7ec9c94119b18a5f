#include "actors/command/setting_flags.hpp"

#include "actors/command/setting_names.hpp"
#include "runtime/core/bound_setting.hpp"
#include "runtime/family/model_family.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace troupe::command {
namespace {

using runtime::bound_setting;
using runtime::setting_group;

/// The groups of the help behind those of the model.
constexpr setting_group help_groups[] = {
    {"Data",
     "data.path data.arguments_file data.train_path data.valid_path data.test_path "
     "data.part_arguments_file data.mock data.split data.cache data.object_cache data.order "
     "data.unsharded data.eod_mask_loss per_token_loss data.* data.fim.* expert_choices.replay"},
    {"Tokenizer", "tokenizer.* model.vocabulary"},
    {"Batch and steps",
     "batch.* train_iterations train_samples exit_interval exit_minutes skip_train "
     "nonfinite "
     "skippable_in_a_row"},
    {"Optimizer",
     "optimizer.* optimizer.start_weight_decay optimizer.end_weight_decay optimizer.clip seed"},
    {"Loss scale: with --fp16, keeps small gradients from underflow", "scaling.*"},
    {"Learning rate: counted in steps (-iters) with --train-iters, else in samples",
     "rate.maximum rate.minimum rate.style rate.wsd_style rate.wsd_decay_iterations "
     "rate.wsd_decay rate.decay_iterations rate.decay rate.warmup_iterations rate.warmup "
     "rate.warmup_fraction rate.*"},
    {"Layout: workers and their shares",
     "layout.world layout.processes hosts.* layout.tensor layout.sequence_parallel "
     "layout.pipeline layout.context layout.expert layout.expert_tensor layout.* "
     "threads_per_worker precision dry_run"},
    {"Layout: uneven pipeline stages", "layout.chunks layout.ends.*"},
    {"Pipeline schedule",
     "layout.schedule.source layout.schedule.chunks_per_rank layout.schedule.layers_per_chunk "
     "layout.schedule.*"},
    {"Gradients and optimizer state over replicas: no choice here changes a bit", "reduction.*"},
    {"Activation recomputation", "recompute.*"},
    {"Checkpoints", "checkpoints.*"},
    {"Logging and monitoring",
     "watch.log_interval watch.log_throughput watch.matrix_rate watch.* run.folder watch.progress "
     "watch.log_format watch.log_level watch.quiet watch.straggler_ratio watch.hub "
     "watch.hub_certificate expert_choices.record"},
    {"Recovery", "recovery.*"},
    {"Device", "backend devices.numbers devices.* transport"},
    {"Testing", "check_messages faults.*"},
};

/// Megatron-LM's scripts pass '99,1,0' with quotes that the shell does not remove.
std::string unquoted(const std::string& word) {
  const bool quoted = word.size() >= 2 && word.front() == word.back()
                      && (word.front() == '\'' || word.front() == '"');
  return quoted ? word.substr(1, word.size() - 2) : word;
}

/// Reads --recompute-modules: the parts of a layer that this build can recompute separately.
void read_modules(runtime::recompute_settings& to,
                  const std::string& flag,
                  const std::vector<std::string>& all) {
  const std::map<std::string, bool*> modules{{"core_attn", &to.core_attention},
                                             {"mlp", &to.feed_forward},
                                             {"moe", &to.experts},
                                             {"moe_act", &to.expert_activation},
                                             {"shared_experts", &to.shared_experts}};
  for (const auto& each : modules)
    *each.second = false;
  for (const auto& module : all)
    if (const auto found = modules.find(module); found != modules.end())
      *found->second = true;
    else
      throw usage_error("{} {} is refused: {}; give core_attn, mlp, moe, moe_act or shared_experts",
                        flag,
                        module,
                        module == "layernorm"
                            ? "norms keep only two numbers per row, so nothing is saved"
                        : module == "mla_up_proj"
                            ? "the up products of latent attention cannot be recomputed alone"
                            : "layers have no such part");
}

void read_delays(runtime::fault_settings& to, const std::string& flag, const std::string& word) {
  const auto first = word.find(','), last = word.rfind(',');
  if (first == std::string::npos || first == last)
    throw usage_error("{} '{}': give three numbers, SEED,LANE_US,MESSAGE_US", flag, word);
  constexpr std::int64_t longest_us = 10'000'000;
  to.seed = std::uint64_t(parse_whole(flag, word.substr(0, first), {0, largest_count}));
  to.lane_delay_us
      = int(parse_whole(flag, word.substr(first + 1, last - first - 1), {0, longest_us}));
  to.message_delay_us = int(parse_whole(flag, word.substr(last + 1), {0, longest_us}));
}

own_readers readers_of(training_flags& to) {
  using words = const std::vector<std::string>&;
  auto& job = to.job;
  return {
      {"data.split", [&job](const auto&, words x) { job.data.split = unquoted(x[0]); }},
      {"recompute.modules",
       [&job](const auto& flag, words x) { read_modules(job.recompute, flag, x); }},
      {"faults.delays", [&job](const auto& flag, words x) { read_delays(job.faults, flag, x[0]); }},
      {"layout.context", [](const auto& flag, words x) {
         if (parse_whole(flag, x[0], {1, 1 << 30}) != 1)
           throw usage_error(
               "{} {} is refused: this build does not split samples over workers; use "
               "--pipeline-model-parallel-size; give 1",
               flag,
               x[0]);
       }}};
}

/// The reason why a setting refuses a word of Megatron-LM; null: it does not.
const char* why_refused(std::string_view setting, std::string_view word) {
  if (setting == "model.experts.type" && word == "fp64")
    return "routers multiply and compute scores in fp32, and choose in fp64; give fp32";
  if (setting == "layout.dispatcher" && word == "flex")
    return "DeepEP, HybridEP and NCCL EP are not supported; use alltoall";
  if (setting != "optimizer.kind")
    return nullptr;
  if (word == "dist_muon")
    return "--use-distributed-optimizer decides how the state is sharded; use it with "
           "--optimizer muon";
  if (word == "adaptive_muon")
    return "second moments of orthogonalized updates are not implemented; use --optimizer muon";
  if (word == "soap")
    return "eigenvectors of the gradients' covariances are not implemented; use --optimizer muon "
           "or adam";
  return nullptr;
}

/// The place of a setting in the help: the entry that names it, or begins like it at the greatest
/// length.
const std::string& place_of(std::string_view setting, const std::vector<std::string>& entries) {
  setting = setting.substr(0, setting.find('='));
  const std::string* best = nullptr;
  for (const auto& entry : entries) {
    if (entry == setting)
      return entry;
    if (entry.ends_with('*') && setting.starts_with(entry.substr(0, entry.size() - 1))
        && (best == nullptr || entry.size() > best->size()))
      best = &entry;
  }
  runtime::ensure(best != nullptr, "SETTING-2: a flag of a row has no place in the help");
  return *best;
}

flag_description described(const bound_setting& x) {
  const auto& flag = *x.flag;
  const bool toggle = x.is_toggle();
  return {.name = flag.name,
          .field = x.name,
          .type = x.type,
          .unit = flag.unit,
          .default_value = flag.default_value,
          .help = flag.help,
          .least = toggle ? 0 : flag.least,
          .most = toggle ? 0 : flag.most,
          .range = x.range,
          .megatron = flag.megatron == nullptr ? std::nullopt : std::optional(flag.megatron),
          .resume = x.resume,
          .once = flag.once,
          .injects_faults = flag.injects_faults};
}

}  // namespace

void declare_setting(command_line& line, bound_setting x, const own_readers& own) {
  list_reader take = [set = x.set](const auto&, const auto& words) {
    try {
      set(words);
    } catch (const runtime::input_error& failure) {
      throw usage_error("{}", with_flags(failure.what()));
    }
  };
  const auto found = own.find(x.name);
  runtime::ensure(x.set != nullptr || found != own.end(),
                  "SETTING-4: each flag of a row has a reader");
  if (found != own.end()) {
    x.read_by({});
    take = found->second;
  }
  auto what = described(x);
  if (x.is_toggle())
    return line.toggle(std::move(what), [take, name = what.name] { take(name, {}); });
  if (x.flag->most > 1)
    return line.values(std::move(what), std::move(take));
  reader one(
      [take, choices = x.choices, setting = x.name](const auto& flag, const auto& word) {
        if (const auto* why = why_refused(setting, word))
          throw usage_error("{} {} is refused: {}", flag, word, why);
        take(flag, {choices.empty() ? word : chosen(flag, word, choices)});
      },
      x.choices,
      x.now);
  one.only_given = x.flag->only_given;
  line.value(std::move(what), std::move(one));
}

void declare_settings(command_line& line, training_flags& to) {
  auto all = runtime::bind_settings(to.job);
  for (const auto& more : {to.family->bind(to.model),
                           runtime::bind_settings<asked_settings>(to),
                           bind(to.tokenizer),
                           runtime::bind_settings(to.hosts, "hosts.")})
    all.insert(all.end(), more.begin(), more.end());
  const auto own = readers_of(to);
  const auto has_flag = [&all](std::string_view setting) {
    return std::ranges::find(all, setting, &bound_setting::name) != all.end();
  };
  for (const auto& [setting, take] : own)
    runtime::ensure(has_flag(setting), "SETTING-4: each reader has its flag");
  for (const auto& needed : to.family->required())
    runtime::ensure(has_flag(needed.name), "FAMILY-2: a setting that a model needs has a flag");
  auto groups = to.family->groups();
  groups.insert(groups.end(), std::begin(help_groups), std::end(help_groups));
  std::vector<std::string> entries;
  for (const auto& group : groups)
    for (auto& entry : runtime::words_in(group.settings))
      entries.push_back(std::move(entry));
  std::map<std::string, std::vector<bound_setting>> placed;
  for (auto& x : all)
    placed[place_of(x.name, entries)].push_back(std::move(x));
  for (const auto& group : groups) {
    line.group(group.title);
    for (const auto& entry : runtime::words_in(group.settings))
      for (auto& x : std::exchange(placed[entry], {}))  // the first place counts
        declare_setting(line, std::move(x), own);
  }
}

}  // namespace troupe::command
