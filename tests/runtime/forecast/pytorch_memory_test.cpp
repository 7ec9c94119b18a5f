// The expected numbers are computed by hand from the formulas of the header.

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/forecast/peer_memory.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::runtime;

namespace {

/// 8 tokens of 4 channels: 568 parameters, including the vocabulary's padding.
training_job small_gpt() {
  training_job out;
  auto& m = out.training.model.as<runtime::gpt_config>();
  m.layers = 2;
  m.hidden = 4;
  m.heads = m.groups = m.head_size = 2;
  m.ffn = 16;
  m.sequence = m.positions = 8;
  m.vocabulary = 9;
  m.padded_vocabulary = 10;
  m.hidden_dropout = 0;
  out.training.precision = dtype::bf16;
  out.layout.world = 1;
  out.training.batch.micro = out.training.batch.global = 1;
  return out;
}

/// RMS norms, a gated activation, two query heads per key head, no biases: 580 parameters.
training_job small_llama() {
  auto out = small_gpt();
  auto& m = out.training.model.as<runtime::gpt_config>();
  m.groups = 1;
  m.normalization = kernels::normalization::rms;
  m.activation = kernels::activation::silu;
  m.gated = true;
  m.position = position_embedding::rope;
  m.linear_bias = m.tied_embeddings = false;
  return out;
}

}  // namespace

TEST_CASE("the estimate for eager PyTorch equals its formula", "[memory]") {
  CHECK(pytorch_estimate(small_gpt(), pytorch_mode::eager)
        == pytorch_memory{.parameters = 4 * 568,
                          .gradients = 4 * 568,
                          .moments = 8 * 568,
                          .cast = 2 * (2 * 228 + 40),
                          .activations = 8 * (2 * 168 + 48),
                          .loss = 8 * 120});
  CHECK(pytorch_estimate(small_llama(), pytorch_mode::eager)
        == pytorch_memory{.parameters = 4 * 580,
                          .gradients = 4 * 580,
                          .moments = 8 * 580,
                          .cast = 2 * (2 * 240 + 40),
                          .activations = 8 * (2 * 228 + 44),
                          .loss = 8 * 120});
}

TEST_CASE("the estimate for compiled PyTorch equals its formula", "[memory]") {
  CHECK(pytorch_estimate(small_gpt(), pytorch_mode::compiled)
        == pytorch_memory{.parameters = 4 * 568,
                          .gradients = 4 * 568,
                          .moments = 8 * 568,
                          .cast = 2 * (2 * 228 + 40),
                          .activations = 8 * (2 * 168 + 48),
                          .loss = 8 * 24 + 80,
                          .together = true});
  CHECK(pytorch_estimate(small_llama(), pytorch_mode::compiled)
        == pytorch_memory{.parameters = 4 * 580,
                          .gradients = 4 * 580,
                          .moments = 8 * 580,
                          .cast = 2 * (2 * 240 + 40),
                          .activations = 8 * (2 * 196 + 44),
                          .loss = 8 * 24 + 80,
                          .together = true});
}

TEST_CASE("without autocast there are no copies of weights, and activations are twice as wide",
          "[memory]") {
  auto job = small_gpt();
  job.training.precision = dtype::f32;
  const auto x = pytorch_estimate(job, pytorch_mode::eager);
  CHECK(x.cast == 0);
  CHECK(x.activations == 8 * (2 * 280 + 56));
  CHECK(x.loss == 8 * 120);
}

TEST_CASE("eager PyTorch saves dropout masks", "[memory]") {
  auto job = small_gpt();
  job.training.model.as<runtime::gpt_config>().hidden_dropout = 0.1;
  CHECK(pytorch_estimate(job, pytorch_mode::eager).activations == 8 * (2 * 176 + 52));
  CHECK(pytorch_estimate(job, pytorch_mode::compiled).activations == 8 * (2 * 168 + 48));
}

TEST_CASE("with several micro-batches, gradients and activations coexist", "[memory]") {
  auto job = small_gpt();
  CHECK(pytorch_estimate(job, pytorch_mode::eager).peak() == 12 * 568 + 992 + 3072 + 960);
  job.training.batch.global = 2;
  CHECK(pytorch_estimate(job, pytorch_mode::eager).peak() == 16 * 568 + 992 + 3072 + 960);
  job.layout.world = 2;  // one micro-batch per device, and buckets
  CHECK(pytorch_estimate(job, pytorch_mode::eager).peak() == 16 * 568 + 992 + 3072 + 960);
  job.training.batch.global = 4;
  CHECK(pytorch_estimate(job, pytorch_mode::eager).peak() == 20 * 568 + 992 + 3072 + 960);
}

TEST_CASE("compiled, a micro-batch's gradients coexist with the sum of the others", "[memory]") {
  auto job = small_gpt();
  job.training.batch.global = 2;
  CHECK(pytorch_estimate(job, pytorch_mode::compiled).peak() == 16 * 568 + 992 + 3072 + 272);
  job.training.model.as<runtime::gpt_config>().sequence = 1;
  CHECK(pytorch_estimate(job, pytorch_mode::compiled).peak() == 20 * 568);
  CHECK(pytorch_estimate(job, pytorch_mode::eager).peak() == 16 * 568 + 992 + 384 + 120);
}

TEST_CASE("the update has gradients, but no activations", "[memory]") {
  auto job = small_gpt();
  job.training.model.as<runtime::gpt_config>().sequence = 1;
  CHECK(pytorch_estimate(job, pytorch_mode::compiled).peak() == 16 * 568);
}

TEST_CASE("MEMORY-1: parts of a model have no estimate", "[memory]") {
  auto job = small_gpt();
  CHECK(has_pytorch_estimate(job));
  job.layout.tensor = 2;
  CHECK_FALSE(has_pytorch_estimate(job));
  CHECK_THROWS_AS(pytorch_estimate(job, pytorch_mode::eager), broken_promise);
  job.layout.tensor = 1;
  job.layout.pipeline = 2;
  CHECK_FALSE(has_pytorch_estimate(job));
  job.layout.pipeline = 1;
  job.training.own.name = "mine";
  CHECK_FALSE(has_pytorch_estimate(job));
}
