#include "tests/command/setting_trials.hpp"
#include "tests/support/setting_fields.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

using namespace troupe;
using namespace troupe::command;
using namespace troupe::tests;

namespace {

/// Settings without a trial, with the reason.
const std::map<std::string, std::string>& not_tried() {
  static const std::map<std::string, std::string> all
      = {{"--load-hf", "its shape is the model's; tests/command/use_test.py"},
         {"--devices", "needs a GPU; tests/command/gpu_test.py"},
         {"--allow-tf32", "needs a GPU; tests/command/gpu_test.py"},
         {"--allow-nondeterministic", "needs a GPU; its part of the identity is checked below"},
         {"--product-choices", "needs a GPU; tests/command/gpu_test.py"},
         {"--collectives", "needs a GPU; its part of the identity is checked below"}};
  return all;
}

/// Paths in the identity of settings that decide bits, if different from their own names.
const std::map<std::string, std::string>& stands_as() {
  static const std::map<std::string, std::string> all
      = {{"model.grouped_queries", "model.groups"},
         {"model.vocabulary_divisor", "model.padded_vocabulary"},
         {"model.yarn_factor", "model.scaling_factor"},
         {"model.latent_attention", "model.latent.kv_rank"},
         {"tokenizer.vocab_file", "tokenizer.fingerprint"},
         {"tokenizer.merge_file", "tokenizer.fingerprint"},
         {"tokenizer.model", "tokenizer.fingerprint"},
         {"tokenizer.folder", "tokenizer.fingerprint"},
         {"tokenizer.pattern", "tokenizer.fingerprint"},
         {"tokenizer.special_tokens", "tokenizer.fingerprint"},
         {"data.path", "data.index_xxh3"},
         {"data.arguments_file", "data.blend"},
         {"data.train_path", "data.train"},
         {"data.unsharded", "data.order"},
         {"data.part_arguments_file", "data.train"},
         {"train_iterations", "data.train_iterations"},
         {"train_samples", "data.train_iterations"},
         {"rate.decay_iterations", "rate.decay"},
         {"rate.warmup_iterations", "rate.warmup"},
         {"rate.warmup_fraction", "rate.warmup"},
         {"rate.wsd_decay_iterations", "rate.wsd_decay"},
         {"optimizer.end_weight_decay", "optimizer.weight_decay"},
         {"scaling.constant", "loss_scale.constant"},
         {"scaling.initial", "loss_scale.initial"},
         {"scaling.minimum", "loss_scale.minimum"},
         {"scaling.window", "loss_scale.window"},
         {"scaling.hysteresis", "loss_scale.hysteresis"},
         {"layout.chunks", "layout.stages"},
         {"layout.ends.first", "layout.stages"},
         {"layout.ends.last", "layout.stages"},
         {"layout.ends.embedding_counts", "layout.stages"},
         {"layout.ends.loss_counts", "layout.stages"},
         {"layout.schedule.source", "layout.gradient_sums"},
         {"layout.schedule.chunks_per_rank", "layout.stages"},
         {"layout.schedule.layers_per_chunk", "layout.stages"},
         {"devices.exchange", "device.collectives"},
         {"devices.nondeterministic", "device.bits"},
         {"devices.tf32", "device.tf32"},
         {"devices.product_choices", "device.products"}};
  return all;
}

/// Parts of an identity that no setting defines, and their sources.
const std::map<std::string, std::string>& of_no_setting() {
  static const std::map<std::string, std::string> all
      = {{"build", "the program"},
         {"instruction_set", "the machine"},
         {"device.name", "the machine"},
         {"device.libraries", "the machine"},
         {"tokenizer.vocabulary_size", "the tokenizer's files, or model.vocabulary"},
         {"data.bytes", "with data.index_xxh3"},
         {"data.answers_xxh3", "with data.index_xxh3, of conversations"},
         {"optimizer.weight_decay_samples", "the length of the run"},
         {"optimizer.moments_from", "where a run resumed without moments"},
         {"batch.data_parallel", "what the other axes leave"},
         {"model.llama3_low", "a model's config.json"},
         {"model.llama3_high", "a model's config.json"}};
  return all;
}

/// Paths that exist only for jobs on GPUs.
const std::set<std::string>& of_gpus() {
  static const std::set<std::string> all = {"device.tf32", "device.products"};
  return all;
}

std::string identity_of(const std::string& text) {
  return runtime::identity(job_of(text));
}

/// Collects the paths of all leaves, such as "model.layers".
void collect_paths(const nlohmann::json& from, const std::string& path, std::set<std::string>& to) {
  for (const auto& [key, value] : from.items())
    if (const auto below = path + (path.empty() ? "" : ".") + key; value.is_object())
      collect_paths(value, below, to);
    else
      to.insert(below);
}

/// Paths in the identities of jobs that together have all of them.
std::set<std::string> identity_paths() {
  std::set<std::string> out;
  const auto add = [&out](const runtime::training_job& job) {
    collect_paths(nlohmann::json::parse(runtime::identity(job)), "", out);
  };
  const std::string two = "--world-size 2 --pipeline-model-parallel-size 2 ";
  for (const auto& text :
       {std::string("--fp16"),
        std::string("--reset-attention-mask --calculate-per-token-loss"),
        std::string("--dataloader-type cyclic"),
        std::string("--fp16 --loss-scale 128"),
        std::string("--optimizer sgd"),
        std::string("--optimizer lion"),
        std::string("--optimizer muon"),
        trials().at("--lr-wsd-decay-iters").around + "--decoupled-lr 1 --lr-wsd-decay-iters 5",
        trials().at("--start-weight-decay").around + "--start-weight-decay 0",
        trials().at("--step-batch-size-schedule").around + "--step-batch-size-schedule 0:2",
        "--data-path " + files() / "data_text_document" + " --split 100,0,0",
        "--data-path 1 " + files() / "data_text_document" + " --split 100,0,0",
        "--train-data-path " + files() / "data_text_document",
        trials().at("--fim-rate").around,
        "--sft --split 100,0,0 --data-path " + files() / "talks_conversations",
        trials().at("--qk-layernorm-rows").around + "--qk-layernorm-rows",
        trials().at("--num-experts").around + "--num-experts 8",
        trials().at("--multi-latent-attention").around + "--multi-latent-attention",
        trials().at("--replay-expert-choices").around + "--replay-expert-choices "
            + files() / "choices",
        two + "--pipeline-model-parallel-layout Et|tttL",
        trials().at("--pipeline-schedule").around + "--pipeline-schedule dualpipe"})
    add(job_of(complete(text)));
  auto fast = job_of(complete(""));
  fast.devices.exchange = runtime::collectives::nccl_fast;
  fast.devices.nondeterministic = true;
  fast.training.optimizer.moments_from = 1;
  fast.layout.expert = fast.layout.expert_tensor = 2;
  fast.layout.expert_sums = runtime::source_sums::together;
  add(fast);
  return out;
}

std::string path_of(const std::string& field) {
  const auto found = stands_as().find(field);
  return found == stands_as().end() ? field : found->second;
}

}  // namespace

TEST_CASE("a setting changes the identity exactly if its row says that it decides bits",
          "[command][settings][unsanitized]") {
  for (const auto& x : settings_of_training()) {
    if (x.name == "--fim-eod-token")
      continue;  // these data allow a single value: their end of document
    INFO(x.name);
    const auto found = trials().find(x.name);
    REQUIRE((found != trials().end()) != not_tried().contains(x.name));
    if (found == trials().end())
      continue;
    const auto& [around, other, instead] = found->second;
    const bool decides = x.resume != at_resume::free;
    CHECK((identity_of(complete(around + instead))
           != identity_of(complete(around + x.name + " " + other)))
          == decides);
  }
}

TEST_CASE("the identity has exactly the settings that decide bits, and the listed parts",
          "[command][settings]") {
  const auto paths = identity_paths();
  std::set<std::string> decide;
  for (const auto& x : settings_of_training())
    if (x.resume != at_resume::free) {
      const auto path = path_of(field_of(x));
      INFO(x.name << ", " << path);
      CHECK(paths.contains(path) != of_gpus().contains(path));
      decide.insert(path);
    }
  for (const auto& path : paths) {
    INFO(path);
    const bool listed = of_no_setting().contains(path)
                        || of_no_setting().contains(path.substr(0, path.find('.')));
    CHECK(decide.contains(path) != listed);
  }
}

TEST_CASE("a relative folder of choices has the identity of its absolute path", "[command]") {
  auto job = job_of(complete(trials().at("--replay-expert-choices").around));
  auto& folder = job.training.expert_choices.replay;
  folder = "choices";
  const auto relative = runtime::identity(job);
  folder = std::filesystem::absolute("choices");
  CHECK(runtime::identity(job) == relative);
  folder = std::filesystem::absolute("x") / ".." / "choices";
  CHECK(runtime::identity(job) == relative);
  folder = "others";
  CHECK(runtime::identity(job) != relative);
}

TEST_CASE("a row that decides bits is in the identity, and a resume compares its flag",
          "[command][settings]") {
  const auto paths = identity_paths();
  std::set<std::string> free, compared;
  for (const auto& x : settings_of_training())
    (x.resume == at_resume::free ? free : compared).insert(path_of(field_of(x)));
  const auto all = tests::setting_fields(setting_rows::deciding);
  CHECK(all.size() > 30);
  for (const auto& field : all) {
    const auto path = path_of(field);
    INFO(field << ", " << path);
    CHECK(paths.contains(path));
    CHECK_FALSE(free.contains(path));
    CHECK(compared.contains(path) != of_no_setting().contains(path));
  }
}
