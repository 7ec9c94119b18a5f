// How often a step reads state and gradients, by the profile of its operations. Final values are
// read while they are in cache, and only once.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "runtime/trainer/worker.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <memory>
#include <string_view>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// The last phase of a step that runs.
enum class stopped_after : std::uint8_t { passes, reduction, update };

struct watched_step {
  std::vector<operation_time> operations;
  square_norms norms;
  by_view<digest> vote;
  digest state;
  double parameters = 0;

  /// Bytes that operations with this name moved in a step; 0 if there were none.
  double bytes(std::string_view name) const {
    double sum = 0;
    for (const auto& x : operations)
      if (x.kind.name == name)
        sum += x.bytes;
    return sum;
  }
  std::uint64_t calls(std::string_view name) const {
    std::uint64_t sum = 0;
    for (const auto& x : operations)
      if (x.kind.name == name)
        sum += x.calls;
    return sum;
  }
};

gpt_config watched_model(bool tied) {
  auto out = tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  out.tied_embeddings = tied;
  return out;
}

/// Runs three steps with a worker that computes all replicas; the profile counts the last one.
watched_step profiled_step(const gpt_config& model, worker_settings settings, stopped_after end) {
  settings.model = gpt_spec(model);
  settings.chunks = {{chunk_id(0), all_of(settings.model)}};
  const auto profile = std::make_shared<operation_profile>();
  const local_communicator data(std::make_shared<local_group>(axis::data, 1, cancel_token()), 0);
  watched_step out;
  {
    stream stream(kernels::backend::cpu, 1, {});
    stream.time_operations(profile);
    worker by(settings, stream, {.along = {{axis::data, const_cast<local_communicator*>(&data)}}});
    out.parameters = double(by.parameter_count());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      by.begin_step(
          {.step = step_id(step), .microbatches = 2, .logical_replicas = settings.replicas});
      for (int r = 0; r < settings.replicas; ++r)
        for (std::uint32_t m = 0; m < 2; ++m) {
          const pass_key key{r, chunk_id(0), microbatch_id(m)};
          by.forward(key, tiny_batch(stream, model, 2, 10 * std::uint64_t(r) + m));
          by.backward(key, {});
        }
      if (end == stopped_after::passes)
        continue;
      by.reduce();
      out.norms.clear();
      reads wanted(stream);
      if (settings.compared)
        by.norms_and_digests(wanted, out.norms, out.vote);
      else
        by.norms(wanted, out.norms);
      wanted.finish();
      if (end == stopped_after::reduction)
        continue;
      by.update({.step = step, .learning_rate = 0.01});
      out.state = combine(by.digests().own);
    }
  }
  CHECK(profile->steps() == 1);
  out.operations = profile->times();
  return out;
}

}  // namespace

TEST_CASE("unshared gradients are read for their norms during the backward pass", "[trainer]") {
  const bool tied = GENERATE(false, true);
  const auto model = watched_model(tied);
  const auto passes = profiled_step(model, {}, stopped_after::passes),
             whole = profiled_step(model, {}, stopped_after::reduction);
  const double words = tied ? 4 * double(model.vocabulary * model.hidden) : 0;
  CHECK(passes.bytes("square_norms<float>") == 4 * passes.parameters - words);
  CHECK(passes.calls("square_norms<float>") >= 4);  // layer by layer
  CHECK(whole.bytes("square_norms<float>") == 4 * whole.parameters);
  CHECK(whole.calls("square_norms<float>") == passes.calls("square_norms<float>") + (tied ? 1 : 0));
  CHECK(whole.calls("fingerprint<float>") == 0);
}

TEST_CASE("gradients of several replicas are read for their norms when they are summed",
          "[trainer]") {
  const auto model = watched_model(GENERATE(false, true));
  worker_settings two{.replicas = 2, .distributed_optimizer = GENERATE(false, true)};
  CHECK(profiled_step(model, two, stopped_after::passes).calls("square_norms<float>") == 0);
  const auto whole = profiled_step(model, two, stopped_after::reduction);
  CHECK(whole.bytes("square_norms<float>") == 4 * whole.parameters);
}

TEST_CASE("a vote on gradients reads them once for norms and digest", "[trainer]") {
  const auto model = watched_model(GENERATE(false, true));
  const auto alone = profiled_step(model, {}, stopped_after::update),
             compared = profiled_step(model, {.compared = true}, stopped_after::update);
  CHECK(compared.bytes("square_norms<float>") == 4 * compared.parameters);
  CHECK(compared.calls("fingerprint<float>") == 0);
  CHECK(compared.norms == alone.norms);
  CHECK(compared.state == alone.state);
  CHECK(compared.vote.dense != digest());
  CHECK(alone.vote.dense == digest());
}

TEST_CASE("the digest of the state needs no extra read, for every optimizer", "[trainer]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  worker_settings settings{.precision = GENERATE(false, true) ? dtype::bf16 : dtype::f32};
  settings.optimizer.kind = kind;
  const auto step = profiled_step(watched_model(true), settings, stopped_after::update);
  CHECK(step.calls("fingerprint<float>") == 0);
  CHECK(step.state != digest());
}
