// The tensors that a job's data have and its model reads.

#include "runtime/job/batches.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/token_schema.hpp"
#include "tests/support/two_lengths.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

training_job gpt_job() {
  training_job job;
  job.training.model = troupe::tests::tiny_gpt(2);
  return job;
}

/// The data of two_lengths.
batch_schema two_schemas(std::int64_t patches) {
  auto out = token_schema(6);
  out.tensors.push_back({.name = "patches", .extents = {patches, 16}, .rows = 0});
  out.tensors.push_back(
      {.name = "patch_positions", .type = dtype::i32, .extents = {patches}, .rows = 0});
  return out;
}

tensor_schema& tensor_of(batch_schema& x, const std::string& name) {
  const auto found = std::ranges::find(x.tensors, name, &tensor_schema::name);
  REQUIRE(found != x.tensors.end());
  return *found;
}

/// The sentence about a GPT whose data have another schema.
std::string refusal(const std::function<void(batch_schema&)>& change) {
  const auto job = gpt_job();
  auto data = schema_of(job);
  change(data);
  try {
    require_tensors(job, data);
  } catch (const input_error& failure) {
    return failure.what();
  }
  return {};
}

std::vector<std::string> sentences_about(const training_job& job) {
  std::vector<std::string> out;
  validate_batches(job, out);
  return out;
}

}  // namespace

TEST_CASE("DATA-4: a job whose data lack a tensor of its model is refused", "[trainer]") {
  const auto job = gpt_job();
  auto data = schema_of(job);
  CHECK_NOTHROW(require_tensors(job, data));
  data.tensors.erase(data.tensors.begin() + 2);
  CHECK_THROWS_WITH(
      require_tensors(job, data),
      ContainsSubstring("unit 'head' reads 'mask' of each micro-batch, but the data have only "
                        "'tokens', 'labels', 'positions', 'samples'"));
  CHECK(sentences_about(job).empty());
}

TEST_CASE("DATA-4: the first unit that reads a missing tensor is named", "[trainer]") {
  CHECK_THAT(refusal([](auto& x) { x.tensors.erase(x.tensors.begin()); }),
             ContainsSubstring("unit 'embedding' reads 'tokens'"));
}

TEST_CASE("a job's schema limits attention to documents if its data do", "[trainer]") {
  auto job = gpt_job();
  CHECK(schema_of(job).rows_of("positions") == job.training.model.sequence());
  CHECK(schema_of(job).documents_of.empty());
  job.data.reset_attention_mask = true;
  CHECK(schema_of(job).documents_of == "tokens");
  CHECK(sentences_about(job).empty());
  job.data = {};
  job.data.sft = true;
  CHECK(schema_of(job).documents_of == "tokens");
  CHECK(sentences_about(job).empty());
}

TEST_CASE("a schema that no micro-batch can have, or no model can read, is refused", "[trainer]") {
  struct wrong_one {
    std::function<void(batch_schema&)> change;
    const char* sentence;
  };
  const std::vector<wrong_one> all = {
      {[](auto& x) { tensor_of(x, "positions").extents = {}; }, "axis 0 of 'positions'"},
      {[](auto& x) {
         tensor_of(x, "positions").extents = {6, 2};
       },
       "one extent and rows 0"},
      {[](auto& x) { tensor_of(x, "positions").rows = -1; }, "stream 'decoder'"},
      {[](auto& x) { tensor_of(x, "positions").type = dtype::f32; }, "give it type i32"},
      {[](auto& x) { tensor_of(x, "mask").rows = 1; }, "axis 1 of 'mask'"},
      {[](auto& x) {
         x.tensors.push_back({.name = "pixels", .extents = {1, 1, 1, 1}});
       },
       "give at most three"},
      {[](auto& x) {
         x.tensors.push_back({.name = "pixels", .extents = {4, 0}});
       },
       "give at least 1"},
      {[](auto& x) { x.tensors.push_back(tensor_of(x, "mask")); },
       "two tensors have the name 'mask'"},
      {[](auto& x) { x.tensors.push_back({.name = "samples"}); }, "'samples' is a name of"},
      {[](auto& x) { x.tensors.push_back({.name = "documents"}); }, "'documents' is a name of"},
      {[](auto& x) {
         x.tensors.push_back({.name = "pixels", .extents = {4}, .rows = 0});
         x.documents_of = "pixels";
       },
       "4 rows of 'pixels'"},
      {[](auto& x) { x.documents_of = "audio"; }, "rows of 'audio', but it has none"},
  };
  for (const auto& x : all) {
    CAPTURE(x.sentence);
    const auto found = refusal(x.change);
    CHECK_THAT(found, StartsWith("the schema of the data is wrong: "));
    CHECK_THAT(found, ContainsSubstring(x.sentence));
  }
  CHECK(refusal([](auto&) {}).empty());
}

TEST_CASE("data with other tensors than the job is planned for are refused", "[trainer]") {
  const std::vector<std::function<void(batch_schema&)>> all
      = {[](auto& x) { x.tensors.push_back({.name = "pixels", .extents = {4}}); },
         [](auto& x) { x.documents_of = "tokens"; }};
  for (const auto& change : all)
    CHECK_THAT(refusal(change), ContainsSubstring("but the job is planned for 'tokens' i32 (6)"));
}

TEST_CASE("with sequence parallelism tensor ranks share whole rows of each stream", "[trainer]") {
  const auto model = troupe::tests::two_lengths();
  for (const std::int64_t patches : {4, 5})
    for (const bool sharded : {false, true}) {
      CAPTURE(patches, sharded);
      auto job = gpt_job();
      job.training.batch.micro = 1;
      job.layout.tensor = 2;
      job.layout.sequence_parallel = sharded;
      std::vector<std::string> wrong;
      validate_rows(job, model, two_schemas(patches), wrong);
      REQUIRE(wrong.size() == std::size_t(sharded && patches == 5));
      if (!wrong.empty())
        CHECK_THAT(wrong.front(), ContainsSubstring("1 x 5 rows of stream 'encoder'"));
    }
}

TEST_CASE("a mean over tokens needs a first loss over the rows of the sequence", "[trainer]") {
  auto job = gpt_job();
  auto model = troupe::tests::two_lengths();
  std::vector<std::string> wrong;
  job.training.per_token_loss = true;
  validate_rows(job, model, two_schemas(4), wrong);
  CHECK(wrong.empty());
  for (auto& stream : model.streams)
    stream.positions = "patch_positions";
  validate_rows(job, model, two_schemas(4), wrong);
  REQUIRE(wrong.size() == 1);
  CHECK_THAT(wrong.front(), ContainsSubstring("the last stream 'decoder' has 4"));
  job.training.per_token_loss = false;
  validate_rows(job, model, two_schemas(4), wrong);
  CHECK(wrong.size() == 1);
}
