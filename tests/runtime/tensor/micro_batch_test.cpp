#include "runtime/tensor/micro_batch.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

TEST_CASE("a micro-batch for the stages has named inputs and labels", "[tensor]") {
  memory_pool pool;
  const micro_batch x(2, 3, pool);
  bundle inputs, labels;
  add_inputs(inputs, x);
  add_labels(labels, x);
  CHECK(inputs.size() == 3);
  CHECK(inputs.at("tokens").raw() == x.tokens.raw());
  CHECK(inputs.at("positions").raw() == x.positions.raw());
  CHECK(inputs.at("samples").raw() == x.samples.raw());
  CHECK(labels.size() == 2);
  CHECK(labels.at("labels").raw() == x.labels.raw());
  CHECK(labels.at("mask").raw() == x.mask.raw());
  CHECK(to_bundle(x).size() == 5);
}
