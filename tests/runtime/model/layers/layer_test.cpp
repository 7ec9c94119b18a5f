// Rules for the description of a model, and the chunk that is built from it.

#include "runtime/model/chunk.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

void build(const model_spec& model, const axis_ranks& ranks = {}) {
  const chunk whole(model, all_of(model), ranks);
}

residual_sublayer& sublayer(model_spec& of, std::size_t number) {
  return std::get<residual_sublayer>(of.layers.at(0).sublayers.at(number));
}

}  // namespace

TEST_CASE("MODEL-1, MODEL-2: the parts of a model fit each other", "[model]") {
  const auto fitting = gpt_spec(tiny_gpt(1));
  build(fitting);
  auto wide_head = fitting;
  wide_head.head.hidden = 32;
  CHECK_BREAKS("MODEL-1", build(wide_head));
  auto half_tied = fitting;
  half_tied.embedding.tied = false;
  CHECK_BREAKS("MODEL-1", build(half_tied));
  auto other_words = fitting;
  other_words.head.vocabulary = 20;
  CHECK_BREAKS("MODEL-1", build(other_words));
  auto wide_layer = fitting;
  std::get<feed_forward_spec>(sublayer(wide_layer, 1).body).hidden = 32;
  CHECK_BREAKS("MODEL-2", build(wide_layer));
}

TEST_CASE("LAYER-1: tensor ranks divide the query groups of attention", "[model]") {
  auto model = gpt_spec(tiny_gpt(1));
  auto& attention = std::get<attention_spec>(sublayer(model, 0).body);
  attention.groups = 3;
  CHECK_BREAKS("LAYER-1", build(model));
  attention.groups = 1;
  build(model);
  CHECK_BREAKS("LAYER-1", build(model, {{axis::tensor, {0, 2}}}));
}

TEST_CASE("layers are named by stack and number, and feed-forward segments are found", "[model]") {
  auto model = gpt_spec(tiny_gpt(2));
  model.stack = "encoder";
  const chunk whole(model, all_of(model));
  CHECK(whole.units().at(1).name == "encoder.layers.0");
  CHECK(whole.units().at(2).parameters.at(0).name == "encoder.layers.1.input_layernorm.weight");
  int feed_forward = 0;
  for (const auto& segment : whole.program())
    feed_forward += segment.module == recompute_module::feed_forward ? 1 : 0;
  CHECK(feed_forward == 2 * 3);  // norm, fc1, fc2
}

TEST_CASE("attention in a user's own sublayer has a cache, too", "[model]") {
  auto model = gpt_spec(tiny_gpt(2));
  const auto attention = std::get<attention_spec>(sublayer(model, 0).body);
  const auto own = [attention](module_builder& to) { add(to, attention); };
  for (auto& layer : model.layers)
    layer.sublayers.at(1) = own_sublayer{"mine", own};
  const chunk whole(model, all_of(model));
  CHECK(whole.attentions().size() == 4);
}
