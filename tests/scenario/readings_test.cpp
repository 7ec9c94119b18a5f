// Extra reads of gradients and state for the votes of a whole job, by the profile of its
// operations.

#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memory>
#include <string_view>

using namespace troupe;

namespace {

/// Bytes that operations of this name moved in the third step, on all workers together.
struct readings {
  double square_norms = 0, fingerprints = 0;
};

readings readings_of(runtime::training_job job) {
  job.train_iterations = 3;  // the first two are not counted
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->profile = std::make_shared<runtime::operation_profile>();
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 0);
  CHECK(prepared->node->profile->steps() > 0);
  readings out;
  for (const auto& x : prepared->node->profile->times()) {
    if (x.kind.name == std::string_view("square_norms<float>"))
      out.square_norms += x.bytes;
    if (x.kind.name == std::string_view("fingerprint<float>"))
      out.fingerprints += x.bytes;
  }
  return out;
}

}  // namespace

TEST_CASE("a single replica computes no digest of gradients or values in any layout",
          "[scenario]") {
  const int pipeline = GENERATE(1, 2), tensor = GENERATE(1, 2);
  const bool distributed = GENERATE(false, true), in_turn = GENERATE(false, true);
  CAPTURE(pipeline, tensor, distributed, in_turn);
  auto job = tests::tiny_job(pipeline, in_turn ? 2 : 1, tensor);
  if (in_turn)
    tests::play_in_turn(job, 2);
  job.reduction.distributed_optimizer = distributed;
  job.reduction.grain = 256;
  const auto found = readings_of(job);
  CHECK(found.fingerprints == 0);
  CHECK(found.square_norms > 0);
}

namespace {

/// Bytes of the embedding table, which is tied between the first stage and the last.
constexpr double bytes_of_words = 4.0 * 61 * 32;

}  // namespace

TEST_CASE("replicas that compare gradients read each once for norm and digest", "[scenario]") {
  const auto alone = readings_of(tests::tiny_job(2, 1)), both = readings_of(tests::tiny_job(2, 2));
  CHECK(both.fingerprints == 0);
  // The copy on the last stage only needs the digest; the first stage reports its norm.
  CHECK(both.square_norms == 2 * (alone.square_norms + bytes_of_words));
}

// The profile covers the computing lane.
TEST_CASE("the computing lane does not read gradients that another lane has summed", "[scenario]") {
  auto job = tests::tiny_job(2, 2);
  job.reduction.overlap_gradients = true;
  const auto found = readings_of(job);
  CHECK(found.fingerprints == 0);
  CHECK(found.square_norms == 2 * 2 * bytes_of_words);  // both ends add them there
}
