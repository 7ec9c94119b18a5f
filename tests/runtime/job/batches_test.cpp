// The tensors that a job's data have and its model reads.

#include "runtime/job/batches.hpp"

#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;

TEST_CASE("DATA-4: a job whose data lack a tensor of its model is refused", "[trainer]") {
  training_job job;
  job.training.model = troupe::tests::tiny_gpt(2);
  auto data = schema_of(job);
  CHECK_NOTHROW(require_tensors(job, data));
  data.tensors.erase(data.tensors.begin() + 2);
  CHECK_THROWS_WITH(
      require_tensors(job, data),
      Catch::Matchers::ContainsSubstring(
          "unit 'head' reads 'mask' of each micro-batch, but the data have only 'tokens', "
          "'labels', 'positions', 'samples'"));
  std::vector<std::string> wrong;
  validate_batches(job, wrong);
  CHECK(wrong.empty());
}

TEST_CASE("a job's schema limits attention to documents if its data do", "[trainer]") {
  training_job job;
  const auto model = troupe::tests::tiny_gpt(2);
  job.training.model = model;
  CHECK(schema_of(job).rows_of("positions") == model.sequence);
  CHECK(schema_of(job).documents_of.empty());
  job.data.reset_attention_mask = true;
  CHECK(schema_of(job).documents_of == "tokens");
  job.data = {};
  job.data.sft = true;
  CHECK(schema_of(job).documents_of == "tokens");
}
