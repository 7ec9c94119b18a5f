// The layout in a checkpoint's manifest.

#include "actors/checkpointer/manifest_of.hpp"

#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string layout_of(const runtime::training_job& job) {
  const actors::opened_job opened(job, runtime::seats_of(job.layout), runtime::pipeline_of(job));
  return actors::manifest_of({}, opened, "{}").layout;
}

}  // namespace

TEST_CASE("a manifest has the axes of experts only if they differ from those of dense layers",
          "[actors]") {
  auto job = tests::tiny_job(1, 2, 2);
  CHECK_THAT(layout_of(job), !ContainsSubstring("expert"));
  job.layout.expert_tensor = 2;
  CHECK_THAT(layout_of(job), !ContainsSubstring("expert"));
  job.layout.expert_tensor = 1;
  job.layout.expert = 4;
  CHECK_THAT(layout_of(job),
             ContainsSubstring(R"("expert_model_parallel_size":4)")
                 && ContainsSubstring(R"("expert_tensor_parallel_size":1)"));
}
