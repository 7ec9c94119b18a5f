// Other families than GPT go through jobs of actors as a GPT does. Their layouts:
// tests/matrix/matrix.cpp; deaths: tests/matrix/deaths.cpp; processes: own_program_test.py.

#include "tests/matrix/families.hpp"

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/core/error.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/text_samples.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/schedule/draw.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "tests/matrix/mortals.hpp"
#include "tests/support/recovered_job.hpp"
#include "tests/support/sample_row.hpp"
#include "tests/support/sampled_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

const runtime::model_family& any_family() {
  const auto& all = tests::test_families();
  return *all[GENERATE_REF(range(std::size_t{0}, tests::test_families().size()))];
}

/// Trains on a blend of two data sets with documents of 2 to 10 tokens.
class files_job final : public tests::sampled_job {
 public:
  explicit files_job(const runtime::training_job& job) : sampled_job(job) {
    for (const std::int32_t set : {0, 1}) {
      runtime::indexed_dataset_builder out(folder() / std::to_string(set), vocabulary());
      for (std::int32_t i = 0; i < 20; ++i) {
        std::vector<std::int32_t> ids(std::size_t(2 + (i + set) % 9));
        for (std::size_t t = 0; t < ids.size(); ++t)
          ids[t] = std::int32_t((i * 5 + std::int64_t(t) * (1 + set)) % vocabulary());
        out.add_sequence(ids);
        out.end_document();
      }
      out.finish();
    }
  }

 private:
  std::int64_t vocabulary() const { return job().training.model.vocabulary(); }

  std::shared_ptr<const runtime::sample_dataset> samples() const override {
    auto on_files = job();
    on_files.data = {.path = {.prefixes = {folder() / "0", folder() / "1"}, .weights = {1, 2}},
                     .split = "1,0,0"};
    const auto& batch = on_files.training.batch;
    auto out = runtime::open_samples(on_files,
                                     runtime::data_split::train,
                                     on_files.train_iterations * std::uint64_t(batch.global),
                                     {});
    CHECK_NOTHROW(runtime::require_tensors(on_files, out->schema()));
    CHECK(tests::writes_all(*out, 0));
    return out;
  }
};

runtime::training_job sharded(runtime::training_job job) {
  job.reduction.distributed_optimizer = job.reduction.overlap_gradients
      = job.reduction.overlap_parameters = true;
  return job;
}

}  // namespace

TEST_CASE("a family's model, data and job survive their JSON", "[scenario][family]") {
  const auto& family = any_family();
  auto job = tests::family_job(family, {2}, 2);
  const auto& model = job.training.model;
  CHECK(runtime::model_from_json(runtime::to_json(model)) == model);
  CHECK(runtime::to_json(runtime::job_from_json(runtime::to_json(job), {}))
        == runtime::to_json(job));
  CHECK(runtime::validate(job) == std::vector<std::string>{});
  CHECK_NOTHROW(runtime::require_tensors(job, runtime::schema_of(job)));
  CHECK(family.parameter_count(model) == runtime::parameter_count(model.spec()));
  CHECK(runtime::training_flops(model.spec(), runtime::schema_of(job), 1) > 0);
  const auto names = runtime::loss_names(job.training);  // none if "lm loss" is alone
  CHECK((names.empty() ? 1 : names.size()) == runtime::losses_of(model.spec()).size());
}

TEST_CASE("a family with tensors of its own is not trained on samples of text",
          "[scenario][family]") {
  const auto job = tests::family_job(any_family(), {});
  const auto text = runtime::text_samples().schema(job.training.model, job.data);
  if (text == runtime::schema_of(job))
    CHECK_NOTHROW(runtime::require_tensors(job, text));
  else
    CHECK_THROWS_AS(runtime::require_tensors(job, text), runtime::input_error);
}

TEST_CASE("a family trains on files with the bits of the reference trainer", "[scenario][family]") {
  const auto& family = any_family();
  const bool cut = GENERATE(false, true);
  auto job
      = tests::family_job(family, cut ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>());
  job.reduction = {};
  const runtime::data_settings files = {.path = {.prefixes = {"any"}}};
  if (!family.samples().validate(job.training.model, files, "").empty())
    return;  // needs a tokenizer: command/own_families_files gives it
  tests::check_bits(files_job(job));
}

TEST_CASE("a family's made-up samples are a function of part and seed", "[scenario][family]") {
  const auto& family = any_family();
  const auto model = family.smallest(3);
  const auto sample = [&](runtime::data_split part, std::uint64_t seed) {
    const auto data = runtime::made_up_batches(model, part, {}, seed);
    if (!data)
      return std::string();
    const auto batch = data->microbatch({});
    std::string out;
    for (const auto& x : family.samples().schema(model, {}).tensors) {
      const auto& values = batch.at(x.name);
      out.append(reinterpret_cast<const char*>(values.raw()), values.bytes());
    }
    return out;
  };
  using enum runtime::data_split;
  const auto first = sample(train, 1);
  CHECK(sample(train, 1) == first);
  if (first.empty())
    return;  // made of tokens by the job
  CHECK(sample(train, 2) != first);
  CHECK(sample(valid, 1) != first);
}

TEST_CASE("a family refuses sizes of files, or counts their parameters by a formula",
          "[scenario][family]") {
  const auto& family = any_family();
  constexpr int many = 1'000'000'000;
  const auto model = family.smallest(many);
  if (runtime::validate(model).empty()) {
    CHECK(runtime::parameter_count(model) > many);
    return;
  }
  runtime::checkpoint_manifest of;
  of.model = model;
  of.identity = of.layout = "{}";
  CHECK_THROWS_WITH(runtime::manifest_from_json(runtime::to_json(of), "the manifest"),
                    ContainsSubstring("its model is impossible"));
}

TEST_CASE("a family's made-up samples fill each of their elements", "[scenario][family]") {
  const auto job = tests::family_job(any_family(), {});
  for (const auto part :
       {runtime::data_split::train, runtime::data_split::valid, runtime::data_split::test}) {
    const auto data = runtime::open_samples(job, part, 4, {});
    CHECK(data->schema() == runtime::schema_of(job));
    for (std::uint64_t i = 0; i < 4; ++i)
      CHECK(tests::writes_all(*data, i));
  }
}

TEST_CASE("FAMILY-3: samples that do not follow documents refuse to limit attention to them",
          "[scenario][family]") {
  auto job = tests::family_job(any_family(), {});
  job.data.reset_attention_mask = true;
  std::vector<std::string> wrong;
  runtime::validate_data(job, {}, wrong);
  const bool is_refused = std::ranges::any_of(wrong, [](const auto& x) {
    return x.find("`data.reset_attention_mask`") != std::string::npos;
  });
  const auto& samples = job.training.model.family().samples();
  CHECK(is_refused != samples.follows("data.reset_attention_mask"));
}

TEST_CASE("a family's steps and losses have the bits of the reference trainer",
          "[scenario][family]") {
  const tests::scratch_folder folder;
  auto job = tests::family_job(any_family(), {1, 4, 5});
  job.watch.log_file = folder / "log.jsonl";
  CHECK(actors::run(tests::tiny_prepared(job)).reason == "");
  const auto expected = tests::by_reference_trainer(job);
  const auto seen = tests::steps_in(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size());
  for (const auto& step : expected) {
    const auto& record = seen.at(int(step.iteration));
    CHECK(record["state_digest"] == to_string(step.state));
    CHECK(record["grad_norm"] == step.grad_norm);
    for (const auto& [field, mean] : runtime::loss_fields(step))
      CHECK(record[field] == mean);
  }
  CHECK(expected.back().loss < expected.front().loss);
}

TEST_CASE("a family's checkpoint goes on under another layout with the same bits",
          "[scenario][family]") {
  const auto& family = any_family();
  const bool back = GENERATE(false, true);
  CAPTURE(back);
  const tests::scratch_folder there, here;
  auto first = tests::family_job(family, {5}, 2);
  auto second = sharded(tests::family_job(family, {2, 4}, 2, 1, {.expert = 2}));
  if (back)
    std::swap(first, second);
  first.checkpoints.save = there / "checkpoints";
  first.checkpoints.save_interval = 3;
  first.watch.log_file = there / "log.jsonl";
  second.watch.log_file = here / "log.jsonl";
  REQUIRE(actors::run(tests::tiny_prepared(first)).reason == "");
  const auto checkpoint = there / "checkpoints/iter_0000003";
  tests::gathered_state loaded;
  REQUIRE(actors::run(tests::going_on(second, checkpoint, &loaded)).reason == "");
  CHECK(loaded.is_whole());
  CHECK(loaded.difference_to(runtime::checkpoint_reader(checkpoint)) == "");
  auto expected = tests::digests_in(there / "log.jsonl");
  std::erase_if(expected, [](const auto& step) { return step.first <= 3; });
  CHECK(tests::digests_in(here / "log.jsonl") == expected);
}

TEST_CASE("a family's checkpoint loads under another number of tensor ranks",
          "[scenario][family]") {
  const auto& family = any_family();
  const tests::scratch_folder there;
  auto first = tests::family_job(family, {4}, 1, 2);
  first.checkpoints.save = there / "checkpoints";
  first.train_iterations = 2;
  REQUIRE(actors::run(tests::tiny_prepared(first)).reason == "");
  auto second = tests::family_job(family, {});
  second.train_iterations = 3;
  tests::gathered_state loaded;
  const auto checkpoint = there / "checkpoints/iter_0000002";
  REQUIRE(actors::run(tests::going_on(second, checkpoint, &loaded)).reason == "");
  CHECK(loaded.is_whole());
  CHECK(loaded.difference_to(runtime::checkpoint_reader(checkpoint)) == "");
}

TEST_CASE("a family's runs survive deaths with the same bits", "[scenario][family][recovery]") {
  const auto what = matrix::of_family(any_family());
  const std::string death = GENERATE("lane:0.1@4:forward",
                                     "lane:1.0@4:reduce",
                                     "stage:0.2@4:acknowledged",
                                     "node@3:vote",
                                     "supervisor@2:acknowledged");
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("a family's runs with a stage for each unit survive deaths with the same bits",
          "[scenario][family][recovery]") {
  const auto& family = any_family();
  const auto cuts = matrix::cuts_of(family).at(matrix::each_unit);
  const tests::arrangement what{std::string(family.name()) + ", a stage for each unit",
                                tests::watched_job(tests::family_job(family, cuts))};
  const std::string death = GENERATE("node@3:vote", "lane:0.1@4:weight-gradient");
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("the peak memory of a family's stages is up to 5 percent above its forecast",
          "[scenario][family]") {
  const auto& family = any_family();
  const std::string schedule = GENERATE("gpipe", "1f1b", "zb-h1", "interleaved", "zb-v");
  CAPTURE(family.name(), schedule);
  const bool virtual_stages = schedule == "interleaved" || schedule == "zb-v";
  auto job = tests::scheduled_job(
      family,
      schedule,
      2,
      virtual_stages ? std::vector<std::int64_t>{1, 4, 6} : std::vector<std::int64_t>{4});
  // Large micro-batches, beside which the rounding of blocks is small.
  job.training.batch = {.micro = 64, .global = 512, .data_parallel = 1};
  job.train_iterations = 2;
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).reason == "");
  CHECK(prepared->node->pools->peaks().size() == 2);
  for (const auto& [rank, peak] : prepared->node->pools->peaks()) {
    CAPTURE(rank, peak);
    const auto expected = runtime::forecast_memory(
        job, prepared->opened().pipeline, prepared->opened().seats.at(rank));
    // A late message of another stage lowers the peak, most in a small model.
    CHECK(double(peak) > double(expected.peak() - expected.left_by_others) * 0.8);
    CHECK(double(peak) < double(expected.peak()) * 1.05);
  }
}

TEST_CASE("a family's plans are drawn, with the letters of its units", "[scenario][family]") {
  const auto& family = any_family();
  const auto job = tests::scheduled_job(family, "interleaved", 2, {1, 4, 6});
  const auto pipeline = runtime::pipeline_of(job);
  const auto plan = pipeline.schedule->training(runtime::planned_microbatches(job));
  const auto stages = runtime::to_text(job.layout.chunks, job.training.model.letters());
  CHECK(std::count(stages.begin(), stages.end(), '|') == 3);
  CHECK(runtime::stages_from_text(stages, job.training.model.letters(), 2, 2) == job.layout.chunks);
  const auto drawing
      = runtime::to_text({{stages, runtime::simulate(*plan, {}), plan->copies}}, {.width = 200});
  CHECK_THAT(drawing, ContainsSubstring(stages));
  CHECK_THAT(runtime::to_svg({{stages, runtime::simulate(*plan, {}), plan->copies}}),
             ContainsSubstring(stages));
}
