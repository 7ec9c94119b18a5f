#include "actors/command/setting_flags.hpp"
#include "actors/command/setting_names.hpp"
#include "runtime/core/bound_setting.hpp"
#include "runtime/job/job_json.hpp"
#include "tests/command/given_flags.hpp"
#include "tests/command/setting_trials.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/fixed_family.hpp"
#include "tests/support/setting_fields.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>

using namespace troupe;
using namespace troupe::command;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Fields that no flag sets, with the reason.
const std::map<std::string, std::string>& no_settings() {
  static const std::map<std::string, std::string> all
      = {{"tokenizer_description", "of the tokenizer's settings"},
         {"own", "a model's parts in C++"},
         {"rate_changes", "commands to the run, in its checkpoints"},
         {"rate_of", "a function in C++"},
         {"layout.schedule.own", "behaviours in C++"},
         {"layout.schedule.text", "read from the file that is the source"},
         {"layout.schedule.transfer", "with layout.schedule.costs"},
         {"model.padded_vocabulary", "of the vocabulary, its divisor and the tensor ranks"},
         {"model.gated", "of the activation that --swiglu, --geglu and others name"},
         {"model.llama3_low", "Llama 3's, from a model's config.json"},
         {"model.llama3_high", "Llama 3's, from a model's config.json"},
         {"optimizer.moments_from", "where a run resumed without moments"},
         {"optimizer.weight_decay_samples", "the length of the run"},
         {"batch.data_parallel", "what the other axes leave"},
         {"batch.ramp_start", "with batch.ramp"},
         {"batch.ramp_increment", "with batch.ramp"},
         {"batch.ramp_samples", "with batch.ramp"},
         {"data.end_of_document", "the tokenizer's"},
         {"data.objects", "the process's, of the environment"},
         {"reduction.grain", "for tests of buckets"},
         {"recompute.core_attention", "with recompute.modules"},
         {"recompute.feed_forward", "with recompute.modules"},
         {"recompute.expert_activation", "with recompute.modules"},
         {"recompute.shared_experts", "with recompute.modules"},
         {"checkpoints.last_pause", "for tests of full disks"},
         {"faults.seed", "with faults.delays"},
         {"faults.lane_delay_us", "with faults.delays"},
         {"faults.message_delay_us", "with faults.delays"},
         {"devices.measure_products", "with devices.product_choices"}};
  return all;
}

/// Settings without a field of their own: they set other fields.
const std::set<std::string>& becomes_others() {
  static const std::set<std::string> all = {"hosts.nodes",
                                            "hosts.spare_nodes",
                                            "hosts.failure_domains",
                                            "hosts.credentials",
                                            "hosts.local_addr",
                                            "hosts.insecure",
                                            "hosts.host_file",
                                            "hosts.ssh_command",
                                            "hosts.interface",
                                            "hosts.launch_timeout",
                                            "model.grouped_queries",
                                            "model.vocabulary_divisor",
                                            "model.yarn_factor",
                                            "model.latent_attention",
                                            "model.experts.type",
                                            "tokenizer.type",
                                            "tokenizer.vocab_file",
                                            "tokenizer.merge_file",
                                            "tokenizer.model",
                                            "tokenizer.folder",
                                            "tokenizer.pattern",
                                            "tokenizer.special_tokens",
                                            "data.arguments_file",
                                            "data.unsharded",
                                            "data.part_arguments_file",
                                            "batch.ramp",
                                            "train_samples",
                                            "nonfinite",
                                            "rate.decay_iterations",
                                            "rate.warmup_iterations",
                                            "rate.warmup_fraction",
                                            "rate.wsd_decay_iterations",
                                            "optimizer.end_weight_decay",
                                            "layout.context",
                                            "layout.ends.first",
                                            "layout.ends.last",
                                            "layout.ends.embedding_counts",
                                            "layout.ends.loss_counts",
                                            "layout.schedule.layers_per_chunk",
                                            "recompute.modules",
                                            "faults.delays",
                                            "dry_run",
                                            "run.folder"};
  return all;
}

std::string meaning_of(const std::string& text) {
  return runtime::to_json(job_of(text));
}

/// Settings with other values than numbers in a range, choices or files, with the reason.
const std::map<std::string, std::string>& free_words() {
  const std::string several = "several numbers, which their reader knows",
                    token = "of the tokenizer, which is asked";
  static const std::map<std::string, std::string> all
      = {{"--window-size", several},
         {"--nodes", "each is a host and a port, which are read together"},
         {"--spare-nodes", "each is a host and a port, which are read together"},
         {"--ssh-command", "words of a shell"},
         {"--interface", "whatever the system knows as a network interface of a host"},
         {"--local-addr", "whatever the system knows as an address of this host"},
         {"--monitor-address", "a host and a port, which are read together"},
         {"--split", several},
         {"--step-batch-size-schedule", several},
         {"--devices", several},
         {"--pipeline-times", several},
         {"--plant-delays", several},
         {"--context-parallel-size", "all but 1 is refused with a reason"},
         {"--pipeline-model-parallel-layout", "a language of its own"},
         {"--pipeline-schedule", "a name or a file"},
         {"--moe-layer-freq", "a language of its own"},
         {"--moe-router-load-balancing-type", "others are refused with a reason each"},
         {"--recompute-modules", "others of Megatron-LM are refused with a reason each"},
         {"--fim-split-sample", token},
         {"--fim-no-prefix", "any text"},
         {"--fim-prefix-token", token},
         {"--fim-middle-token", token},
         {"--fim-suffix-token", token},
         {"--fim-pad-token", token},
         {"--fim-eod-token", token},
         {"--plant-fault", "an actor's name"},
         {"--plant-death", "an actor's name"}};
  return all;
}

/// Numbers without a default, with the reason.
const std::map<std::string, std::string>& no_default() {
  static const std::map<std::string, std::string> all
      = {{"--num-layers", "required"},
         {"--hidden-size", "required"},
         {"--num-attention-heads", "required"},
         {"--seq-length", "required"},
         {"--micro-batch-size", "required"},
         {"--train-iters", "required, or the other"},
         {"--train-samples", "required, or the other"},
         {"--lr", "required"},
         {"--lr-decay-samples", "says what --lr-decay-iters says"},
         {"--lr-warmup-samples", "says what --lr-warmup-iters says"},
         {"--lr-warmup-fraction", "says what --lr-warmup-iters says"},
         {"--lr-wsd-decay-iters", "required with --lr-decay-style WSD, or the other"},
         {"--lr-wsd-decay-samples", "required with --lr-decay-style WSD, or the other"},
         {"--rampup-batch-size", "without it there is no ramp"},
         {"--vocab-size", "the tokenizer says it"},
         {"--decoder-first-pipeline-num-layers", "without it stages are even"},
         {"--decoder-last-pipeline-num-layers", "without it stages are even"},
         {"--num-layers-per-virtual-pipeline-stage", "says what the virtual stages say"},
         {"--pipeline-memory-limit", "without it there is no limit"},
         {"--recompute-num-layers", "required where it means something"}};
  return all;
}

void collect_flags(const command_description& from, std::vector<flag_description>& to) {
  for (const auto& group : from.groups)
    to.insert(to.end(), group.flags.begin(), group.flags.end());
  to.insert(to.end(), from.faults.begin(), from.faults.end());
  for (const auto& below : from.commands)
    collect_flags(below, to);
}

}  // namespace

TEST_CASE("each field of a job has a setting, or a reason to have none", "[command][settings]") {
  std::set<std::string> known;
  for (const auto& x : settings_of_training())
    known.insert(field_of(x));
  const auto fields = tests::setting_fields();
  for (const auto& field : fields) {
    INFO(field);
    CHECK(known.contains(field) != no_settings().contains(field));
  }
  for (const auto& field : known) {
    INFO(field);
    const bool is_field = std::find(fields.begin(), fields.end(), field) != fields.end();
    CHECK(is_field != becomes_others().contains(field));
  }
}

TEST_CASE("SETTING-2: each flag of a row is declared once, with its columns",
          "[command][settings]") {
  std::map<std::string, flag_description> declared;
  for (const auto& x : settings_of_training())
    CHECK(declared.emplace(x.name, x).second);
  runtime::training_job job;
  asked_settings asked;
  auto model = runtime::default_family().asked();
  auto rows = runtime::bind_settings(job);
  tokenizer_flags tokenizer;
  host_flags hosts;
  for (auto& more : {runtime::bind_settings(asked),
                     runtime::default_family().bind(model),
                     bind(tokenizer),
                     runtime::bind_settings(hosts, "hosts.")})
    rows.insert(rows.end(), more.begin(), more.end());
  CHECK(rows.size() > 200);
  for (const auto& row : rows) {
    INFO(row.flag->name);
    const auto found = declared.find(row.flag->name);
    REQUIRE(found != declared.end());
    const auto& x = found->second;
    CHECK(x.field == row.name);
    CHECK(x.help == row.flag->help);
    CHECK(x.resume == row.resume);
    CHECK((x.most == 0) == row.is_toggle());
  }
}

TEST_CASE("a setting has one flag, and errors name that flag", "[command][settings]") {
  std::set<std::string> fields;
  for (const auto& x : settings_of_training()) {
    INFO(x.name);
    CHECK(fields.insert(x.field).second);
    CHECK(with_flags("`" + x.field + "` is wrong") == x.name + " is wrong");
  }
  CHECK(with_flags("see `troupe doctor`, or `layout.world` 2")
        == "see `troupe doctor`, or --world-size 2");
  CHECK(with_flags("a lone ` and `nobody`") == "a lone ` and `nobody`");
}

TEST_CASE("a setting has a range, choices or files as values, or a reason to have none",
          "[command][settings]") {
  for (const auto& x : settings_of_training()) {
    if (x.most == 0)
      continue;
    INFO(x.name);
    const bool ranged = !std::holds_alternative<std::monostate>(x.range);
    const bool told = ranged || !x.choices.empty() || kind_of(x.type) != word_kind::any;
    CHECK(told != free_words().contains(x.name));
    if (ranged) {
      CHECK(x.default_value.empty() == no_default().contains(x.name));
      CHECK_FALSE(told_shortly(x.range).empty());
    }
  }
}

TEST_CASE("both ends of a documented range are allowed", "[command][settings]") {
  int tried = 0;
  for (const auto& x : settings_of_training()) {
    std::vector<std::string> ends;
    if (const auto* const real = std::get_if<real_range>(&x.range)) {
      if (!real->above && real->least > std::numeric_limits<double>::lowest())
        ends.push_back(fmt::format("{}", real->least));
      if (!real->below && real->most < 1e6)
        ends.push_back(fmt::format("{}", real->most));
    }
    const auto found = trials().find(x.name);
    const auto around = found == trials().end() ? std::string() : found->second.around;
    for (const auto& end : ends) {
      const auto said = refusal_of_flags(complete(around + x.name + " " + end));
      INFO(said);
      CHECK_THAT(said, !ContainsSubstring(x.name + " is " + end));
      ++tried;
    }
  }
  CHECK(tried > 25);
}

TEST_CASE("the documented default is the real one", "[command][settings][unsanitized]") {
  int tried = 0;
  for (const auto& x : settings_of_training()) {
    const bool ranged = !std::holds_alternative<std::monostate>(x.range);
    const bool chosen
        = std::find(x.choices.begin(), x.choices.end(), x.default_value) != x.choices.end();
    // The default of --backend depends on the machine; --tokenizer-type needs files.
    if (x.name == "--backend" || x.name == "--tokenizer-type"
        || !(chosen || (ranged && takes(x.range, x.default_value))))
      continue;
    INFO(x.name << " " << x.default_value);
    const auto found = trials().find(x.name);
    const auto around = found == trials().end() ? std::string() : found->second.around;
    CHECK(meaning_of(complete(around))
          == meaning_of(complete(around + x.name + " " + x.default_value)));
    ++tried;
  }
  CHECK(tried > 40);
}

TEST_CASE("range, unit and default are in their columns, not in the help text",
          "[command][settings]") {
  command_line program("troupe", "");
  add_commands(program);
  std::vector<flag_description> all;
  collect_flags(program.describe(), all);
  CHECK(all.size() > 200);
  for (const auto& x : all) {
    INFO(x.name << ": " << x.help);
    if (!x.name.empty())
      CHECK(x.help.find("efault") == std::string::npos);
    if (!x.unit.empty())
      CHECK_FALSE(told_shortly(x.range).empty());
  }
}

namespace {

class without_reader final : public fixed_family {
 public:
  std::vector<runtime::bound_setting> bind(std::any& /*asked*/) const override {
    static constexpr runtime::setting_flag flag = {.name = "--unread", .type = "N"};
    return {{{}, "model.unread", &flag, "N", at_resume::free}};
  }
};

class without_flag final : public fixed_family {
 public:
  std::vector<runtime::required_setting> required() const override {
    return {{"model.layers", "2"}};
  }
};

class with_other_groups final : public fixed_family {
 public:
  std::vector<runtime::setting_group> groups() const override {
    return {{"Model", "model.* seed"}, {"Model: its data", "data.*"}};
  }
};

command_description declare_flags_of(const runtime::model_family& family) {
  training_flags flags(family);
  command_line line("troupe train fixed", "");
  declare_settings(line, flags);
  return line.describe();
}

}  // namespace

TEST_CASE("SETTING-4: each flag of a row has a reader", "[command][settings]") {
  CHECK_NOTHROW(declare_flags_of(fixed_family()));
  CHECK_BREAKS("SETTING-4", declare_flags_of(without_reader()));
}

TEST_CASE("a family may name settings of other groups", "[command][settings]") {
  std::map<std::string, std::vector<std::string>> titles;
  for (const auto& group : declare_flags_of(with_other_groups()).groups)
    for (const auto& flag : group.flags)
      titles[flag.field].push_back(group.title);
  CHECK(titles.at("seed") == std::vector<std::string>{"Model"});
  CHECK(titles.at("data.reset_position_ids") == std::vector<std::string>{"Model: its data"});
}

TEST_CASE("FAMILY-2: a setting that a model needs has a flag", "[command][settings]") {
  CHECK_BREAKS("FAMILY-2", declare_flags_of(without_flag()));
}

TEST_CASE("SETTING-5: a setting has one flag in all families", "[command][settings]") {
  command_line program("troupe", "");
  auto& train = program.command("train", "");
  const auto add = [&train](const std::string& family, const std::string& flag) {
    train.command(family, "").toggle({.name = flag, .field = "model.size"}, [] {});
  };
  add("a", "--size");
  add("b", "--size");
  CHECK(flags_in(program.describe()) == setting_names{{"model.size", "--size"}});
  add("c", "--length");
  CHECK_BREAKS("SETTING-5", flags_in(program.describe()));
}
