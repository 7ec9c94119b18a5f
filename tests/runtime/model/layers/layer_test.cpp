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

}  // namespace

TEST_CASE("MODEL-1, MODEL-2: the parts of a model fit each other", "[model]") {
  const auto fitting = gpt_spec(tiny_gpt(1));
  build(fitting);
  auto wide_head = fitting;
  wide_head.part<head_spec>().hidden = 32;
  CHECK_BREAKS("MODEL-2", build(wide_head));
  auto tied_elsewhere = fitting;
  tied_elsewhere.part<head_spec>().tied_to = "no such parameter";
  CHECK_BREAKS("MODEL-1", build(tied_elsewhere));
  auto other_words = fitting;
  other_words.part<head_spec>().vocabulary = 20;
  CHECK_BREAKS("MODEL-1", build(other_words));
  auto wide_layer = fitting;
  sublayer(wide_layer, 1).body.get_if<feed_forward_spec>()->hidden = 32;
  CHECK_BREAKS("MODEL-2", build(wide_layer));
}

TEST_CASE("LAYER-1: tensor ranks divide the query groups of attention", "[model]") {
  auto model = gpt_spec(tiny_gpt(1));
  auto& attention = *sublayer(model, 0).body.get_if<attention_spec>();
  attention.groups = 3;
  CHECK_BREAKS("LAYER-1", build(model));
  attention.groups = 1;
  build(model);
  CHECK_BREAKS("LAYER-1", build(model, {{axis::tensor, {0, 2}}}));
}

TEST_CASE("layers are named by stack and number, and feed-forward segments are found", "[model]") {
  auto model = gpt_spec(tiny_gpt(2));
  for (auto& unit : model.units)
    if (unit.layer >= 0)
      unit.name = unit.prefix = "encoder.layers." + std::to_string(unit.layer);
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
  const auto attention = *sublayer(model, 0).body.get_if<attention_spec>();
  const auto own = [attention](module_builder& to) { add(to, attention); };
  for (std::size_t l = 0; l < 2; ++l)
    model.part<layer_spec>(l).sublayers.at(1) = own_sublayer{"mine", own};
  const chunk whole(model, all_of(model));
  CHECK(whole.caches() == std::vector<shape>(4, {attention.groups, 2 * attention.head_size}));
}
