// A job survives a round trip through its text.

#include "runtime/job/job_json.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/file/file.hpp"
#include "runtime/schedule/csv.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

training_job some_job() {
  training_job job;
  auto& training = job.training;
  auto& m = training.model.as<gpt_config>();
  m.layers = 4;
  m.hidden = 32;
  m.heads = 4;
  m.groups = 2;
  m.head_size = 8;
  m.ffn = 64;
  m.sequence = m.positions = 16;
  m.vocabulary = 61;
  m.padded_vocabulary = 64;
  training.seed = std::numeric_limits<std::uint64_t>::max();
  training.rate = {.maximum = 0.1 + 0.2, .minimum = 1e-300, .warmup = 3, .decay = 9};
  training.precision = dtype::bf16;
  job.data.path = blend_of("some/where");
  job.data.cache = "a/cache";
  job.data.object_cache = "another/cache";
  job.layout.chunks = {{0, 3}, {3, 6}};
  job.layout.schedule.source = "1f1b";
  job.layout.schedule.memory_limit = std::numeric_limits<double>::infinity();
  job.checkpoints.last_pause = std::chrono::milliseconds(17);
  job.devices.numbers = {2, 0};
  job.transport = transports::ucx;
  job.check_messages = true;
  return job;
}

}  // namespace

TEST_CASE("a job survives a round trip through JSON", "[trainer]") {
  const auto job = some_job();
  const auto text = to_json(job);
  const auto again = job_from_json(text);
  CHECK(to_json(again) == text);
  CHECK(again.training.seed == job.training.seed);
  CHECK(again.training.rate == job.training.rate);  // exact doubles
  CHECK(again.training.precision == dtype::bf16);
  CHECK(to_json(again.training.model) == to_json(job.training.model));
  CHECK(again.data.path == job.data.path);
  CHECK(again.data.cache == job.data.cache);
  CHECK(again.data.object_cache == job.data.object_cache);
  CHECK(again.layout.chunks == job.layout.chunks);
  CHECK(again.layout.schedule.memory_limit == job.layout.schedule.memory_limit);
  CHECK(again.checkpoints.last_pause == job.checkpoints.last_pause);
  CHECK(again.devices.numbers == job.devices.numbers);
  CHECK(again.transport == transports::ucx);
  CHECK(again.check_messages);
}

TEST_CASE("every number in a job's JSON sets a field of the job", "[trainer]") {
  // Each is changed alone, and has to change the job.
  const auto flat = nlohmann::json::parse(to_json(some_job())).flatten();
  for (const auto& [name, value] : flat.items()) {
    if (!value.is_number_integer() || name.find("/model/") != std::string::npos)
      continue;  // the model's own reader refuses invalid models
    auto other = flat;
    other[name] = 1 - std::min<std::int64_t>(1, value.get<std::int64_t>());
    const auto text = other.unflatten().dump();
    INFO(name);
    CHECK(nlohmann::json::parse(to_json(job_from_json(text))).flatten()[name] == other[name]);
  }
}

TEST_CASE("paths and texts of a job that are not UTF-8 keep their bytes", "[trainer]") {
  auto job = some_job();
  job.checkpoints.save = "x\xff";
  job.watch.log_file = std::string("\xc3\x00/l.jsonl", 10);
  job.layout.schedule.source = "\xed\xa0\x80.csv";
  job.tokenizer_description = "\x80";
  job.data.path = blend_of("caf\xc3\xa9");
  const auto text = to_json(job);
  const auto again = job_from_json(text);
  CHECK(to_json(again) == text);
  CHECK(again.checkpoints.save == job.checkpoints.save);
  CHECK(again.watch.log_file == job.watch.log_file);
  CHECK(again.layout.schedule.source == job.layout.schedule.source);
  CHECK(again.tokenizer_description == job.tokenizer_description);
  CHECK(again.data.path == job.data.path);
}

TEST_CASE("a job's JSON with an invalid value is refused", "[trainer]") {
  const auto [name, value] = GENERATE(table<const char*, nlohmann::json>({
      {"/training/rate/maximum", "much"},
      {"/training/rate/maximum", "1e-3"},
      {"/training/rate/style", 5},
      {"/training/rate/style", 256},
      {"/training/precision", -1},
      {"/training/precision", 3},
      {"/training/seed", -1},
      {"/training/seed", 1.5},
      {"/layout/tensor", std::int64_t(1) << 32},
      {"/recompute/granularity", 3},
      {"/recompute/method", 2},
      {"/backend", 3},
      {"/devices/exchange", 3},
      {"/transport", 2},
      {"/data/order", 3},
      {"/data/path/prefixes/0", {{"bytes", "f"}}},
      {"/data/path/prefixes/0", {{"bytes", "fg"}}},
      {"/data/path/prefixes/0", {{"text", "ff"}}},
  }));
  auto job = nlohmann::json::parse(to_json(some_job()));
  job.at(nlohmann::json::json_pointer(name)) = value;
  INFO(name << " = " << value.dump());
  CHECK_THROWS_AS(job_from_json(job.dump()), input_error);
}

TEST_CASE("functions of a job are stored by name, and an unknown name is refused", "[trainer]") {
  auto job = some_job();
  job.training.own
      = {.name = "squares", .feed_forward = [](module_builder&, const feed_forward_spec&) {}};
  job.training.rate_of = {"slow", [](std::int64_t) { return 1e-4; }};
  job.layout.schedule.own = behaviour_factory{.name = "lazy", .make = {}};
  const auto text = to_json(job);
  const auto again = job_from_json(text, functions_of(job));
  CHECK(again.training.own.feed_forward);
  CHECK(again.training.rate_of.at(0) == 1e-4);
  REQUIRE(again.layout.schedule.own);
  CHECK(again.layout.schedule.own->name == "lazy");
  CHECK_THROWS_MATCHES(
      job_from_json(text),
      input_error,
      MessageMatches(ContainsSubstring("'squares'") && ContainsSubstring("register")));
  auto known = functions_of(job);
  known.rates.clear();
  CHECK_THROWS_MATCHES(
      job_from_json(text, known), input_error, MessageMatches(ContainsSubstring("'slow'")));
  known = functions_of(job);
  known.behaviours.clear();
  CHECK_THROWS_MATCHES(
      job_from_json(text, known), input_error, MessageMatches(ContainsSubstring("'lazy'")));
}

TEST_CASE("a schedule file is stored with its text", "[trainer]") {
  const troupe::tests::scratch_folder folder;
  auto job = some_job();
  job.layout.schedule = {.source = (folder.path() / "schedule.csv").string()};
  const auto wanted = pipeline_schedule({.source = "gpipe"}, 2, 4).plain(4);
  write_text(job.layout.schedule.source, to_csv(*wanted));
  job.layout.schedule = with_text(job.layout.schedule);
  std::filesystem::remove(job.layout.schedule.source);
  const auto there = job_from_json(to_json(job)).layout.schedule;
  CHECK(pipeline_schedule(there, 2, 4).plain(4)->ranks == wanted->ranks);
  CHECK_THROWS_AS(pipeline_schedule({.source = there.source}, 2, 4), input_error);
}

TEST_CASE("a text that is not a job is refused", "[trainer]") {
  CHECK_THROWS_AS(job_from_json("{}"), input_error);
  CHECK_THROWS_AS(job_from_json("not JSON"), input_error);
}
