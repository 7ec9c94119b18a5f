#include "runtime/job/job.hpp"

#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/families.hpp"
#include "tests/support/kept_scales.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

void write_data(const std::filesystem::path& prefix, std::int32_t last) {
  indexed_dataset_builder out(prefix, 100);
  const std::vector<std::int32_t> tokens = {1, 2, 3, last};
  out.add_sequence(tokens);
  out.end_document();
  out.finish();
}

training_job good() {
  training_job x;
  auto& m = x.training.model.as<gpt_config>();
  m.layers = 2;
  m.hidden = m.ffn = 16;
  m.heads = m.groups = 2;
  m.head_size = 8;
  m.sequence = m.positions = 8;
  m.vocabulary = m.padded_vocabulary = 100;
  x.training.rate = {1e-3, 0, 0, 0, 40, decay_style::linear};
  x.training.batch = {2, 4, 2};
  x.layout.world = 2;
  x.data.mock = true;
  x.train_iterations = 10;
  x.tokenizer_description
      = R"({"type": "GPT2BPETokenizer", "fingerprint": "ab", "vocab_file": "/a/vocab.json"})";
  return x;
}

bool tells(const training_job& x, const std::string& what) {
  const auto all = validate(x);
  return std::any_of(all.begin(), all.end(), [&](const std::string& sentence) {
    return sentence.find(what) != std::string::npos;
  });
}

void in_parts(training_job& x) {
  x.layout.tensor = 2;
  x.layout.world = 4;
}

}  // namespace

TEST_CASE("a valid job has no complaints", "[job]") {
  CHECK(validate(good()).empty());
}

TEST_CASE("a job with different replicas in batch and layout is refused", "[job]") {
  auto job = good();
  job.training.batch.data_parallel = 1;
  CHECK_BREAKS("JOB-1", validate(job));
}

TEST_CASE("each broken rule of a job has an error text", "[job]") {
  const scratch_folder folder;
  std::vector<std::pair<std::string, training_job>> broken;
  const auto add = [&](const std::string& what, const auto& change) {
    broken.emplace_back(what, good());
    change(broken.back().second);
  };
  add("`model.hidden`", [](training_job& x) { x.training.model.as<gpt_config>().hidden = 0; });
  add("`threads_per_worker`", [](auto& x) { x.threads_per_worker = 0; });
  add("`layout.pipeline` 3", [](auto& x) { x.layout = {.world = 6, .pipeline = 3}; });
  add("`layout.world` 3", [](auto& x) { x.layout = {.world = 3, .pipeline = 2}; });
  add("`batch.global` 5", [](auto& x) { x.training.batch.global = 5; });
  add("the run has no step", [](auto& x) { x.train_iterations = 0; });
  add("`rate.maximum` is -1", [](auto& x) { x.training.rate.maximum = -1; });
  add("`rate.minimum`", [](auto& x) { x.training.rate.minimum = 1; });
  add("`rate.warmup_start`", [](auto& x) { x.training.rate.warmup_start = 1; });
  add("warms up for 40", [](auto& x) { x.training.rate.warmup = 40; });
  add("`optimizer.beta2`", [](auto& x) { x.training.optimizer.beta2 = 1; });
  add("`optimizer.epsilon`", [](auto& x) { x.training.optimizer.epsilon = 0; });
  add("the training data is missing", [](auto& x) { x.data.mock = false; });
  add("`data.mock`", [](auto& x) { x.data.path = blend_of("gone"); });
  add("gone", [](auto& x) { x.data.path = blend_of("gone"); });
  add("`data.split` 0,1", [](auto& x) { x.data.split = "0,1"; });
  add("'1,x'", [](auto& x) { x.data.split = "1,x"; });
  add("`checkpoints.load_hub`", [&](auto& x) { x.checkpoints.load_hub = folder / "gone"; });
  add("`watch.log_file`", [&](auto& x) { x.watch.log_file = folder / "no" / "log"; });
  add("this is a folder", [&](auto& x) { x.watch.trace_file = folder.path(); });
  add("`checkpoints.save_interval`", [](auto& x) { x.checkpoints.save_interval = 3; });
  const auto up_to_rounding = [&](const std::string& what, const auto& change) {
    add(what, [&](auto& x) {
      x.devices.nondeterministic = true;
      change(x);
    });
  };
  up_to_rounding("`recovery.on` compares", [](auto& x) { x.recovery.on = true; });
  up_to_rounding("`recovery.verify_fraction` compares",
                 [](auto& x) { x.recovery.verify_fraction = 0.5; });
  up_to_rounding("`checkpoints.strict_identity` compares",
                 [](auto& x) { x.checkpoints.strict_identity = true; });
  add("each its own", [&](auto& x) {
    x.watch.log_file = folder / "log";
    x.watch.trace_file = folder / "." / "log";
  });
  std::ofstream(folder / "thesis.txt") << "Chapter 1\n";
  add("is not a log", [&](auto& x) { x.watch.log_file = folder / "thesis.txt"; });
  add("is not a folder", [&](auto& x) { x.checkpoints.save = folder / "thesis.txt" / "x"; });
  for (const auto* nobody : {"@3",
                             "stage:0.1@3",
                             "stage:2.0@3",
                             "replica:0.0@3",
                             "lane:0@3",
                             "x@3",
                             "stage:0.0.1@3",
                             "lane:0.0.@3",
                             "stage:0.0.0.0@3",
                             "wire:0.0@3",
                             "monitor@3,x@3",
                             "monitor@3,",
                             ",monitor@3"})
    add("names no actor", [&](auto& x) { x.faults.fault = nobody; });
  for (const auto* no_step :
       {"monitor", "monitor@", "stage:1.0@0", "loader@x", "monitor@3,loader@x", "monitor@3,loader"})
    add("names no step", [&](auto& x) { x.faults.fault = no_step; });
  add("never occurs: the run has 10 steps", [](auto& x) { x.faults.fault = "monitor@11-12"; });
  for (const auto& [what, job] : broken) {
    CAPTURE(what);
    CHECK(tells(job, what));
  }
}

TEST_CASE("a model with operations for the CPU alone is refused on a device", "[job]") {
  auto x = good();
  x.training.own = {.name = "scales", .feed_forward = troupe::tests::add_scale};
  x.backend = troupe::kernels::backend::cuda;
  CHECK(validate(x).empty());
  x.training.own.host_only = true;
  CHECK(tells(x, "'scales' has operations for the CPU alone, but `backend` is cuda"));
  x.backend = troupe::kernels::backend::cpu;
  CHECK(validate(x).empty());
  CHECK(traits_of(troupe::tests::kept_scales().part<layer_spec>()).host_only);
}

TEST_CASE("a module with operations for the CPU alone is refused on a device", "[job]") {
  troupe::tests::test_families();
  auto x = good();
  x.training.model = find_family("toy").smallest(2);
  const auto* const refusal
      = "'decoder.layers.0' has operations for the CPU alone, but `backend` is cuda";
  CHECK(!tells(x, refusal));
  x.backend = troupe::kernels::backend::cuda;
  CHECK(tells(x, refusal));
}

TEST_CASE("each impossible layout has an error text, with the nearest valid value", "[job]") {
  struct {
    const char* says;
    void (*change)(training_job&);
  } const cases[] = {
      {"`layout.tensor` is 0", [](auto& x) { x.layout.tensor = 0; }},
      {"`layout.replicas_per_worker` is -1", [](auto& x) { x.layout.replicas_per_worker = -1; }},
      {"`reduction.bucket_size` is 0", [](auto& x) { x.reduction.bucket_size = 0; }},
      {"`layout.world` 2 is not a multiple of tensor 4", [](auto& x) { x.layout.tensor = 4; }},
      {"`model.heads` 2 is not a multiple of `layout.tensor` 4, and "
       "every worker needs an equal share; nearest valid: 4 here, or "
       "`layout.tensor` 2",
       [](auto& x) { x.layout.tensor = 4; }},
      {"`model.groups` 1",
       [](training_job& x) { x.training.model.as<gpt_config>().groups = 1, in_parts(x); }},
      {"`model.ffn` 15",
       [](training_job& x) { x.training.model.as<gpt_config>().ffn = 15, in_parts(x); }},
      {"the padded vocabulary 101",
       [](training_job& x) {
         x.training.model.as<gpt_config>().padded_vocabulary = 101, in_parts(x);
       }},
      {"nearest valid: `model.sequence` 8",
       [](training_job& x) {
         x.training.batch.micro = 1;
         x.training.model.as<gpt_config>().sequence = 7;
         in_parts(x);
         x.layout.sequence_parallel = true;
       }},
      {"`layout.ends.first`", [](auto& x) { x.layout.pipeline = 3, x.layout.world = 6; }},
      {"'Et*2|L' do not hold each of `model.layers` 2 once",
       [](auto& x) {
         x.layout.chunks = {{0, 3}, {3, 4}};
       }},
      {"'Et|t' do not hold",
       [](auto& x) {
         x.layout.pipeline = 2;
         x.layout.world = 4;
         x.layout.chunks = {{0, 2}, {2, 3}};
       }},
      {"give both, or neither", [](auto& x) { x.reduction.overlap_parameters = true; }},
      {"needs `reduction.overlap_gradients`",
       [](auto& x) { x.reduction.overlap_parameters = true; }},
      {"no `recompute.modules`",
       [](auto& x) {
         x.recompute.granularity = recompute_granularity::selective;
         x.recompute.core_attention = false;
       }},
      {"`recompute.layers` 3: a pipeline stage has 2 layers; give 1 to 2",
       [](auto& x) {
         x.recompute.granularity = recompute_granularity::full;
         x.recompute.layers = 3;
       }},
  };
  for (const auto& c : cases) {
    CAPTURE(c.says);
    auto x = good();
    c.change(x);
    CHECK(tells(x, c.says));
  }
}

TEST_CASE("replicas in turn on one worker give the same identity as one worker each", "[job]") {
  auto turns = good();
  turns.layout.world = 1;
  turns.layout.replicas_per_worker = 2;
  CHECK(validate(turns).empty());
  CHECK(identity(turns) == identity(good()));
  turns.reduction.distributed_optimizer = true;
  turns.recompute.granularity = recompute_granularity::selective;
  CHECK(identity(turns) == identity(good()));
  turns.training.precision = dtype::bf16;
  CHECK(identity(turns) != identity(good()));
  auto cut = good();
  cut.layout.tensor = 2;
  CHECK(identity(cut) != identity(good()));
}

TEST_CASE("expert ranks are in the identity only where they decide bits", "[job]") {
  auto one = good();
  CHECK_THAT(identity(one), !ContainsSubstring("expert"));
  auto shared = one;
  shared.layout.expert = 2;
  shared.layout.dispatcher = token_dispatcher::allgather;
  CHECK(identity(shared) == identity(one));
  shared.layout.expert_sums = source_sums::together;
  CHECK_THAT(
      identity(shared),
      ContainsSubstring(R"("expert":2)") && ContainsSubstring(R"("expert_sums":"together")"));
  shared.layout.expert = 1;
  CHECK(identity(shared) == identity(one));
  auto cut = one;
  cut.layout.tensor = 2;
  auto folded = cut;
  folded.layout.expert_tensor = 2;
  CHECK(identity(folded) == identity(cut));
  folded.layout.expert_tensor = 1;
  CHECK_THAT(identity(folded), ContainsSubstring(R"("expert_tensor":1)"));
  folded.layout.expert_tensor = 0;
  folded.layout.expert = 2;
  CHECK_THAT(identity(folded),
             ContainsSubstring(R"("expert":2)") && !ContainsSubstring("expert_sums"));
}

TEST_CASE("a log, an empty file and a torn first record are accepted as log file", "[job]") {
  const scratch_folder folder;
  auto job = good();
  job.watch.log_file = folder / "log";
  job.faults.fault = "lane:1.0@3,monitor@4-5";
  for (const auto* text : {"", "{\"iteration\":1}\n", "{\"iteration\":1,\"lm"}) {
    std::ofstream(job.watch.log_file) << text;
    CAPTURE(text);
    CHECK(validate(job).empty());
  }
}

TEST_CASE("the identity survives a round trip through a manifest", "[job]") {
  const auto text = identity(good());
  CHECK(nlohmann::json::parse(text).dump() == text);
}

TEST_CASE("the identity has what decides the bits, without paths", "[job]") {
  const scratch_folder folder;
  write_data(folder / "data", 4);
  auto here = good();
  here.data.mock = false;
  here.data.path = blend_of(folder / "data");

  auto moved = here;
  std::filesystem::create_directory(folder / "elsewhere");
  for (const auto* end : {".bin", ".idx"})
    std::filesystem::copy(folder / (std::string("data") + end),
                          folder / (std::string("elsewhere/data") + end));
  moved.data.path = blend_of(folder / "elsewhere/data");
  moved.tokenizer_description
      = R"({"type": "GPT2BPETokenizer", "fingerprint": "ab", "vocab_file": "/b/vocab.json"})";
  moved.checkpoints.save = "elsewhere";
  moved.watch.log_interval = 7;
  CHECK(identity(moved) == identity(here));

  const auto differs = [&](const auto& change) {
    auto other = here;
    change(other);
    return identity(other) != identity(here);
  };
  CHECK(differs([](auto& x) { x.training.seed = 1; }));
  CHECK(differs([](training_job& x) { x.training.model.as<gpt_config>().hidden_dropout = 0; }));
  CHECK(differs([](auto& x) { x.training.rate.maximum = 2e-3; }));
  CHECK(differs([](auto& x) { x.training.optimizer.clip = 2; }));
  CHECK(differs([](auto& x) { x.training.batch.micro = 1; }));
  CHECK(differs([](auto& x) { x.layout.pipeline = 2; }));
  CHECK(differs([](auto& x) { x.train_iterations = 11; }));
  CHECK(differs([](auto& x) { x.threads_per_worker = 2; }));
  CHECK(differs([](auto& x) { x.backend = troupe::kernels::backend::reference; }));
  CHECK(differs([](auto& x) { x.data.split = "1"; }));
  CHECK(differs([](auto& x) {
    x.tokenizer_description = R"({"type": "GPT2BPETokenizer", "fingerprint": "cd"})";
  }));
}
