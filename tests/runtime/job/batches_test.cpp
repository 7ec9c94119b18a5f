// The tensors that a job's data have and its model reads.

#include "runtime/job/batches.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/token_schema.hpp"
#include "tests/family/toy/toy_family.hpp"
#include "tests/support/tiny_gpt.hpp"

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

training_job toy_job(std::int64_t patches = 4) {
  training_job job;
  job.training.model = troupe::tests::toy::toy_config{.patches = patches};
  job.data.mock = true;
  return job;
}

tensor_schema& tensor_of(batch_schema& x, const std::string& name) {
  return *std::ranges::find(x.tensors, name, &tensor_schema::name);
}

/// The sentence about a toy job whose data have this schema.
std::string refusal(const std::function<void(batch_schema&)>& change) {
  const auto job = toy_job();
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
  CHECK_THAT(refusal([](auto& x) { x = token_schema(6); }),
             ContainsSubstring("unit 'patches' reads 'patches'"));
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
      {[](auto& x) { tensor_of(x, "patch_positions").extents = {}; },
       "axis 0 of 'patch_positions'"},
      {[](auto& x) {
         tensor_of(x, "patch_positions").extents = {4, 2};
       },
       "one extent and rows 0"},
      {[](auto& x) { tensor_of(x, "patch_positions").rows = -1; }, "stream 'image'"},
      {[](auto& x) { tensor_of(x, "patch_positions").type = dtype::f32; }, "give it type i32"},
      {[](auto& x) { tensor_of(x, "patches").rows = 2; }, "axis 2 of 'patches'"},
      {[](auto& x) {
         tensor_of(x, "patches").extents = {1, 1, 1, 1};
       },
       "give at most three"},
      {[](auto& x) {
         tensor_of(x, "patches").extents = {4, 0};
       },
       "give at least 1"},
      {[](auto& x) { x.tensors.push_back(x.tensors.front()); },
       "two tensors have the name 'tokens'"},
      {[](auto& x) { x.tensors.push_back({.name = "samples"}); }, "'samples' is a name of"},
      {[](auto& x) { x.tensors.push_back({.name = "documents"}); }, "'documents' is a name of"},
      {[](auto& x) { x.documents_of = "patches"; }, "4 rows of 'patches'"},
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
      = {[](auto& x) {
           tensor_of(x, "patches").extents = {5, 16};
         },
         [](auto& x) { x.documents_of = "tokens"; }};
  for (const auto& change : all)
    CHECK_THAT(refusal(change), ContainsSubstring("but the job is planned for 'tokens' i32 (6)"));
}

TEST_CASE("a job that asks for documents is refused if its samples have none", "[trainer]") {
  auto job = toy_job();
  CHECK(sentences_about(job).empty());
  job.data.reset_attention_mask = true;
  CHECK(sentences_about(job).size() == 1);
}

TEST_CASE("with sequence parallelism tensor ranks share whole rows of each stream", "[trainer]") {
  for (const std::int64_t patches : {4, 5}) {
    auto job = toy_job(patches);
    job.training.batch.micro = 1;
    job.layout.tensor = 2;
    CHECK(sentences_about(job).empty());
    job.layout.sequence_parallel = true;
    const auto found = sentences_about(job);
    REQUIRE(found.size() == std::size_t(patches % 2));
    if (!found.empty())
      CHECK_THAT(found.front(), ContainsSubstring("1 x 5 rows of stream 'image'"));
  }
}

TEST_CASE("a mean over tokens needs a first loss over the rows of the sequence", "[trainer]") {
  auto job = toy_job();
  job.training.per_token_loss = true;
  CHECK(sentences_about(job).empty());
  auto model = spec_of(job.training);
  model.streams.front().positions = "patch_positions";  // of the decoder
  std::vector<std::string> wrong;
  validate_rows(job, model, schema_of(job), wrong);
  REQUIRE(wrong.size() == 1);
  CHECK_THAT(wrong.front(), ContainsSubstring("the last stream 'decoder' has 4"));
  job.training.per_token_loss = false;
  validate_rows(job, model, schema_of(job), wrong);
  CHECK(wrong.size() == 1);
}
