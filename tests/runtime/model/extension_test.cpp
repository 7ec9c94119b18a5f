#include "runtime/core/error.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

chunk whole(const extension& own) {
  return chunk(gpt_spec(tiny_gpt(2), own), {0, 4});
}

}  // namespace

TEST_CASE("an extension replaces the feed-forward block of every layer", "[model]") {
  std::vector<std::string> seen;
  const auto model
      = whole({.name = "mine",
               .feed_forward = [&](module_builder& to, const feed_forward_spec& in_place_of) {
                 CHECK(to.layer() == std::int64_t(seen.size()));
                 seen.push_back(to.name());
                 CHECK(in_place_of.hidden == 16);
                 CHECK(in_place_of.ffn == 20);
                 const int a = to.add({.name = "a", .extents = {16}});
                 CHECK(to.add({.name = "b", .extents = {16}}) == a + 1);
                 to.segment("only", [](tape&, pass&) {});
               }});
  CHECK(seen == std::vector<std::string>{"decoder.layers.0.mlp", "decoder.layers.1.mlp"});
  int own = 0;
  for (const auto& unit : model.units())
    for (const auto& x : unit.parameters) {
      CHECK(x.name.find("mlp.linear") == std::string::npos);
      CHECK(x.name.find("pre_mlp_layernorm") == std::string::npos);
      own += int(x.name.find(".mlp.") != std::string::npos);
    }
  CHECK(own == 4);
  const auto& program = model.program();
  CHECK(std::count_if(program.begin(),
                      program.end(),
                      [](const segment& x) {
                        return x.name.ends_with(".mlp.only")
                               && x.module == recompute_module::feed_forward;
                      })
        == 2);
}

TEST_CASE("an extension without a name or with a duplicate parameter is refused", "[model]") {
  CHECK_THROWS_MATCHES(whole({.feed_forward = [](module_builder&, const feed_forward_spec&) {}}),
                       input_error,
                       MessageMatches(ContainsSubstring("extension::name")));
  CHECK_THROWS_MATCHES(whole({.loss = cross_entropy}),
                       input_error,
                       MessageMatches(ContainsSubstring("extension::name")));
  const auto twice = [](module_builder& to, const feed_forward_spec&) {
    to.add({.name = "weight", .extents = {4}});
    to.add({.name = "weight", .extents = {8}});
  };
  CHECK_THROWS_MATCHES(
      whole({.name = "mine", .feed_forward = twice}),
      input_error,
      MessageMatches(ContainsSubstring("two parameters named 'decoder.layers.0.mlp.weight'")));
}

TEST_CASE("a function is recorded as a node, runs once, and frees its captures", "[autograd]") {
  stream stream(troupe::kernels::backend::reference, 1, {});
  const chunk model(gpt_spec(tiny_gpt(2)), {0, 4});
  resident_store store(model.units(), 1, stream.pool());
  tape t(stream, store, {});
  auto held = std::make_shared<int>(0);
  t.begin_segment(0);
  t.record([held](tape&) { ++*held; });
  t.end_segment();
  t.input_gradients(0);
  CHECK(*held == 1);
  CHECK(held.use_count() == 1);
}

TEST_CASE("a user's own work runs on real memory and is refused on a shadow", "[device]") {
  int runs = 0;
  stream(troupe::kernels::backend::cpu, 1, memory_pool()).run([&] { ++runs; });
  stream(troupe::kernels::backend::cpu, 1, memory_pool::shadow()).run([&] { ++runs; });
  CHECK(runs == 1);
}
