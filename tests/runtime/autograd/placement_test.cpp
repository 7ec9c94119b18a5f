// PLACEMENT-1 to PLACEMENT-3: an operation refuses variables with an unexpected placement, with one
// rank and with many.

#include "runtime/autograd/dispatch.hpp"
#include "runtime/autograd/ops.hpp"
#include "runtime/autograd/route.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

constexpr placement all[] = {placement::replicated,
                             placement::sequence_sharded,
                             placement::replicated_partial_gradient,
                             placement::feature_sharded,
                             placement::partial,
                             placement::routed};

/// B = 1, T = 2, C = 4; parameter 0 is a matrix of 4 rows and columns, 1 and 2 are vectors.
struct fixture {
  troupe::runtime::stream stream{kernels::backend::reference, 1, {}};
  resident_store store{{{"unit",
                         {{.name = "matrix", .extents = {4, 4}},
                          {.name = "gain", .extents = {4}},
                          {.name = "bias", .extents = {4}}}}},
                       1,
                       {}};
  tape under_test{stream, store, {.recording = false}};
  row_layout rows;

  fixture() {
    rows.positions = rows.order = zeros<std::int32_t>({1, 2});
    rows.starts = zeros<std::int32_t>({2});
    rows.starts.data<std::int32_t>()[1] = 2;
    rows.samples = zeros<std::uint64_t>({1});
    under_test.begin_segment(0);
  }

  template <class T>
  tensor zeros(shape extents) {
    auto out = tensor::empty<T>(stream, extents);
    std::fill_n(out.template data<T>(), out.size(), T(0));
    return out;
  }
  variable made(placement lies, std::int64_t channels = 4) {
    return under_test.make(zeros<float>({1, 2, channels}), lies);
  }

  variable made_along_experts(placement lies, shape extents = {2, 4}) {
    return under_test.make(zeros<float>(extents), {{axis::expert_tensor, lies}});
  }
  /// Both rows are in slots.
  row_slots slots() { return {zeros<std::int32_t>({2}), zeros<std::int32_t>({2, 1})}; }
  /// Both rows are of one expert.
  std::shared_ptr<const expert_groups> one_group() {
    return std::make_shared<expert_groups>(expert_groups{{0, 2}, {0}});
  }

  /// The same, with an exchange between ranks.
  std::shared_ptr<const row_exchange> exchange() {
    return rows_of_experts(under_test, {.chosen = {0, 0}, .experts = 1, .each = 1});
  }
  variable made_routed(placement along_expert, placement along_tensor) {
    return under_test.make(zeros<float>({2, 4}),
                           {{axis::expert, along_expert}, {axis::expert_tensor, along_tensor}});
  }

  /// Requires that `op` accepts the placements in `wanted` and refuses all others.
  void takes(const std::string& name,
             const std::set<placement>& wanted,
             const std::function<void(placement)>& op) {
    for (const auto over : all) {
      CAPTURE(name, to_string(over));
      if (wanted.contains(over))
        CHECK_NOTHROW(op(over));
      else
        CHECK_THROWS_MATCHES(op(over),
                             broken_promise,
                             MessageMatches(StartsWith("PLACEMENT-1") && ContainsSubstring(name)
                                            && ContainsSubstring(std::string(to_string(over)))));
    }
  }
};

const attention_options one_head{.heads = 1, .groups = 1, .head_size = 4};

}  // namespace

TEST_CASE_METHOD(fixture, "PLACEMENT-1: every operation refuses a wrong placement", "[placement]") {
  const std::set<placement> residual{placement::replicated, placement::sequence_sharded};
  takes("copy_to_tensor_region", residual, [&](placement x) {
    copy_to_tensor_region(under_test, made(x));
  });
  takes("reduce_from_tensor_region", {placement::partial}, [&](placement x) {
    reduce_from_tensor_region(under_test, made(x));
  });
  takes("norm", residual, [&](placement x) { norm(under_test, made(x), {}, 1, 2); });
  takes("residual_norm", residual, [&](placement x) {
    auto onto = made(x);
    residual_norm(under_test, made(x), onto, {}, 1, 2);
  });
  takes("residual_norm", {placement::replicated}, [&](placement x) {
    auto onto = made(placement::replicated);
    residual_norm(under_test, made(x), onto, {}, 1, 2);
  });
  takes("linear", {placement::replicated_partial_gradient}, [&](placement x) {
    linear(under_test, made(x), product::column, 4, 0, 2);
  });
  takes("linear", {placement::feature_sharded}, [&](placement x) {
    linear(under_test, made(x), product::row, 4, 0, no_parameter);
  });
  takes("linear", residual, [&](placement x) {
    linear(under_test, made(x), product::whole, 4, 0, 2);
  });
  takes("activation", {placement::feature_sharded}, [&](placement x) {
    activation(under_test, made(x), kernels::activation::silu, true);
  });
  takes("unpermute", {placement::replicated}, [&](placement x) {
    const auto weights = made_along_experts(placement::replicated, {2, 1});
    unpermute(under_test, made_along_experts(x), slots(), weights);
  });
  takes("unpermute", {placement::replicated}, [&](placement x) {
    const auto weights = made_along_experts(x, {2, 1});
    unpermute(under_test, made_along_experts(placement::replicated), slots(), weights);
  });
  const std::vector<std::int64_t> both{1, 0};
  const auto two_rows = numbered_rows(stream, both, 2, "rows of a test");
  takes("gather_rows", residual, [&](placement x) { gather_rows(under_test, made(x), two_rows); });
  takes("scatter_rows", {placement::replicated}, [&](placement x) {
    scatter_rows(under_test, made(x), two_rows);
  });
  const auto plan = exchange();
  takes("dispatch", residual, [&](placement x) {
    dispatch(under_test, made(x), made(placement::replicated, 1), plan);
  });
  takes("dispatch", residual, [&](placement x) {
    dispatch(under_test, made(placement::replicated), made(x, 1), plan);
  });
  takes("gather_rows", {placement::routed}, [&](placement x) {
    gather_rows(under_test, made_along_experts(x), plan);
  });
  takes("scatter_rows", {placement::partial}, [&](placement x) {
    scatter_rows(under_test, made_along_experts(x), plan);
  });
  takes("combine", {placement::routed}, [&](placement x) {
    combine(under_test, made_routed(x, placement::routed), plan);
  });
  takes("combine", {placement::routed}, [&](placement x) {
    combine(under_test, made_routed(placement::routed, x), plan);
  });
  takes("grouped_linear", {placement::replicated_partial_gradient}, [&](placement x) {
    grouped_linear(
        under_test, made_along_experts(x), product::column, one_group(), 1, 4, 0, no_parameter);
  });
  takes("grouped_linear", {placement::feature_sharded}, [&](placement x) {
    grouped_linear(under_test, made_along_experts(x), product::row, one_group(), 1, 4, 0, 2);
  });
  takes("weighted_activation", {placement::feature_sharded}, [&](placement x) {
    const auto weights = made_along_experts(placement::replicated_partial_gradient, {2});
    weighted_activation(under_test, made_along_experts(x), weights, kernels::activation::silu);
  });
  takes("weighted_activation", {placement::replicated_partial_gradient}, [&](placement x) {
    const auto weights = made_along_experts(x, {2});
    weighted_activation(under_test,
                        made_along_experts(placement::feature_sharded),
                        weights,
                        kernels::activation::silu);
  });
  takes("dropout", residual, [&](placement x) { dropout(under_test, made(x), 0.5F, 1, rows); });
  takes("dropout", residual, [&](placement x) { dropout(under_test, made(x), 0, 1, rows); });
  takes("dropout", residual, [&](placement x) { dropout(under_test, made(x), 0, 1, rows, 0.5F); });
  takes("dropout_add", residual, [&](placement x) {
    dropout_add(under_test, made(x), made(x), 0.5F, 1, rows);
  });
  takes("dropout_add", {placement::replicated}, [&](placement x) {
    dropout_add(under_test, made(x), made(placement::replicated), 0.5F, 1, rows);
  });
  takes("dropout_add", {placement::sequence_sharded}, [&](placement x) {
    dropout_add(under_test, made(placement::sequence_sharded), made(x), 0.5F, 1, rows);
  });
  takes(
      "add_positions", residual, [&](placement x) { add_positions(under_test, made(x), rows, 0); });
  takes("head_norm", {placement::feature_sharded}, [&](placement x) {
    head_norm(under_test, made(x, 12), one_head, {}, {1, 2}, {1, 2});
  });
  takes("row_norm", {placement::feature_sharded}, [&](placement x) {
    row_norm(under_test, made(x, 12), one_head, {}, {1, 2}, {1, 2});
  });
  takes("self_attention", {placement::feature_sharded}, [&](placement x) {
    self_attention(under_test, made(x, 12), one_head, rows);
  });
  takes("cross_attention", {placement::feature_sharded}, [&](placement x) {
    cross_attention(under_test, made(x), made(placement::feature_sharded, 8), one_head, rows, rows);
  });
  takes("cross_attention", {placement::feature_sharded}, [&](placement x) {
    cross_attention(under_test, made(placement::feature_sharded), made(x, 8), one_head, rows, rows);
  });
  takes("self_attention", {placement::feature_sharded}, [&](placement x) {
    const score_bias bias{under_test.make(zeros<float>({1, 2}), x), -1};
    self_attention(under_test, made(placement::feature_sharded, 12), one_head, rows, bias);
  });
  auto in_region = residual;
  in_region.insert(placement::replicated_partial_gradient);
  takes("split_channels", in_region, [&](placement x) {
    split_channels(under_test, made(x), {1, 3});
  });
  takes("join_channels", residual, [&](placement x) {
    join_channels(under_test, {made(x), made(x)});
  });
  for (const auto first : residual)
    takes("join_channels", {first}, [&](placement x) {
      join_channels(under_test, {made(first), made(x)});
    });
  const auto sharded = [&](std::int64_t n) { return made(placement::feature_sharded, n); };
  const auto whole
      = [&](std::int64_t n) { return made(placement::replicated_partial_gradient, n); };
  auto latent = one_head;
  latent.rotated_from = 2;
  takes("latent_qkv", {placement::feature_sharded}, [&](placement x) {
    latent_qkv(under_test, made(x), sharded(6), whole(2), latent);
  });
  takes("latent_qkv", {placement::feature_sharded}, [&](placement x) {
    latent_qkv(under_test, sharded(4), made(x, 6), whole(2), latent);
  });
  takes("latent_qkv", {placement::replicated_partial_gradient}, [&](placement x) {
    latent_qkv(under_test, sharded(4), sharded(6), made(x, 2), latent);
  });
  takes("absorbed_qkv", {placement::feature_sharded}, [&](placement x) {
    absorbed_qkv(under_test, made(x), whole(2), whole(2), 0, latent);
  });
  takes("absorbed_qkv", {placement::replicated_partial_gradient}, [&](placement x) {
    absorbed_qkv(under_test, sharded(4), made(x, 2), whole(2), 0, latent);
  });
  takes("absorbed_qkv", {placement::replicated_partial_gradient}, [&](placement x) {
    absorbed_qkv(under_test, sharded(4), whole(2), made(x, 2), 0, latent);
  });
  takes("absorbed_output", {placement::feature_sharded}, [&](placement x) {
    absorbed_output(under_test, made(x, 2), 0, latent);
  });
  takes("cached_attention", {placement::feature_sharded}, [&](placement x) {
    attention_cache cache{
        zeros<float>({2, 1, 8}), zeros<std::int32_t>({2}), rows.starts, zeros<std::int32_t>({2})};
    cached_attention(under_test, made(x, 12), one_head, rows, cache);
  });
  takes("gate", residual, [&](placement x) { gate(under_test, made(x), rows, 4, 0, 2); });
  takes("route", residual, [&](placement x) {
    route(under_test, made(x), rows, {.rules = {.E = 4, .k = 2}});
  });
  const std::set<placement> logits{placement::feature_sharded, placement::replicated};
  takes("cross_entropy", logits, [&](placement x) {
    cross_entropy(under_test, made(x), zeros<std::int32_t>({1, 2}), zeros<float>({1, 2}), 4, {});
  });
  takes("token_log_probs", logits, [&](placement x) {
    token_log_probs(under_test, made(x), zeros<std::int32_t>({1, 2}), 4);
  });
}

TEST_CASE_METHOD(fixture, "results of operations have the right placement", "[placement]") {
  const auto tokens = zeros<std::int32_t>({1, 2});
  CHECK(copy_to_tensor_region(under_test, made(placement::replicated)).placements[axis::tensor]
        == placement::replicated_partial_gradient);
  CHECK(reduce_from_tensor_region(under_test, made(placement::partial)).placements[axis::tensor]
        == placement::replicated);
  CHECK(norm(under_test, made(placement::sequence_sharded), {}, 1, 2).placements[axis::tensor]
        == placement::sequence_sharded);
  CHECK(linear(under_test, made(placement::replicated_partial_gradient), product::column, 4, 0, 2)
            .placements[axis::tensor]
        == placement::feature_sharded);
  CHECK(linear(under_test, made(placement::feature_sharded), product::row, 4, 0, 2)
            .placements[axis::tensor]
        == placement::partial);
  const auto along_experts = [](const variable& x) { return x.placements[axis::expert_tensor]; };
  const auto whole = made_along_experts(placement::replicated_partial_gradient);
  const auto part = made_along_experts(placement::feature_sharded);
  const auto weights = made_along_experts(placement::replicated_partial_gradient, {2});
  CHECK(along_experts(permute(under_test, whole, slots()))
        == whole.placements[axis::expert_tensor]);
  CHECK(along_experts(unpermute(under_test, part, slots())) == placement::feature_sharded);
  CHECK(along_experts(
            grouped_linear(under_test, whole, product::column, one_group(), 1, 4, 0, no_parameter))
        == placement::feature_sharded);
  CHECK(along_experts(grouped_linear(under_test, part, product::row, one_group(), 1, 4, 0, 2))
        == placement::partial);
  CHECK(
      along_experts(weighted_activation(under_test, part, weights, kernels::activation::gelu_tanh))
      == placement::feature_sharded);
  const auto plan = exchange();
  const auto there = dispatch(
      under_test, made(placement::sequence_sharded), made(placement::sequence_sharded, 1), plan);
  for (const auto& x : {there.rows, there.weights})
    CHECK(x.placements
          == axis_map<placement>{{axis::tensor, placement::sequence_sharded},
                                 {axis::expert, placement::routed},
                                 {axis::expert_tensor, placement::routed}});
  CHECK(along_experts(gather_rows(under_test, there.rows, plan))
        == placement::replicated_partial_gradient);
  CHECK(along_experts(scatter_rows(under_test, made_along_experts(placement::partial), plan))
        == placement::routed);
  CHECK(combine(under_test, there.rows, plan).placements
        == axis_map<placement>{{axis::tensor, placement::sequence_sharded}});
  CHECK(embedding(under_test, tokens, rows, 4, 4, 0, no_parameter).placements[axis::tensor]
        == placement::partial);
  CHECK(dropout_add(under_test,
                    made(placement::sequence_sharded),
                    made(placement::sequence_sharded),
                    0,
                    1,
                    rows)
            .placements[axis::tensor]
        == placement::sequence_sharded);
  CHECK(self_attention(under_test, made(placement::feature_sharded, 12), one_head, rows)
            .placements[axis::tensor]
        == placement::feature_sharded);
}

TEST_CASE("several tensor ranks send the rows that are sharded among them", "[placement]") {
  const auto group = std::make_shared<local_group>(axis::tensor, 2, cancel_token());
  local_communicator first(group, 0);
  fixture x;
  tape cut(x.stream, x.store, {.recording = false, .groups = {{axis::tensor, &first}}});
  cut.begin_segment(0);
  const auto plan = x.exchange();
  const auto sent = [&](placement lies) {
    dispatch(cut, x.made(lies), x.made(placement::sequence_sharded, 1), plan);
  };
  CHECK_NOTHROW(sent(placement::sequence_sharded));
  CHECK_BREAKS("PLACEMENT-1", sent(placement::replicated));
}

TEST_CASE("PLACEMENT-2, PLACEMENT-3: biases and positions are added once, after the sum",
          "[placement]") {
  // Two ranks, one of which runs; both operations throw before a collective.
  const auto group = std::make_shared<local_group>(axis::tensor, 2, cancel_token());
  local_communicator first(group, 0);
  fixture x;
  tape cut(x.stream, x.store, {.recording = false, .groups = {{axis::tensor, &first}}});
  cut.begin_segment(0);
  CHECK_THROWS_MATCHES(linear(cut, x.made(placement::feature_sharded), product::row, 4, 0, 2),
                       broken_promise,
                       MessageMatches(StartsWith("PLACEMENT-2")));
  CHECK_NOTHROW(linear(cut, x.made(placement::feature_sharded), product::row, 4, 0, no_parameter));
  CHECK_NOTHROW(
      linear(cut, x.made(placement::replicated_partial_gradient), product::column, 4, 0, 2));
  const auto of_experts = std::make_shared<local_group>(axis::expert_tensor, 2, cancel_token());
  local_communicator also_first(of_experts, 0);
  tape expert(
      x.stream, x.store, {.recording = false, .groups = {{axis::expert_tensor, &also_first}}});
  expert.begin_segment(0);
  CHECK_THROWS_MATCHES(grouped_linear(expert,
                                      x.made_along_experts(placement::feature_sharded),
                                      product::row,
                                      x.one_group(),
                                      1,
                                      4,
                                      0,
                                      2),
                       broken_promise,
                       MessageMatches(StartsWith("PLACEMENT-2")));
  const auto tokens = x.zeros<std::int32_t>({1, 2});
  CHECK_THROWS_MATCHES(embedding(cut, tokens, x.rows, 4, 4, 0, 0),
                       broken_promise,
                       MessageMatches(StartsWith("PLACEMENT-3")));
  CHECK_NOTHROW(embedding(cut, tokens, x.rows, 4, 4, 0, no_parameter));
}

TEST_CASE("TAPE-6: tensor ranks share whole rows", "[placement]") {
  // 3 rows of 4 elements on 2 ranks: the elements could be shared. It throws before a collective.
  const auto group = std::make_shared<local_group>(axis::tensor, 2, cancel_token());
  local_communicator first(group, 0);
  fixture x;
  tape cut(x.stream,
           x.store,
           {.recording = false, .groups = {{axis::tensor, &first}}, .sequence_parallel = true});
  cut.begin_segment(0);
  const auto three = cut.make(x.zeros<float>({1, 3, 4}), placement::partial);
  CHECK_THROWS_MATCHES(
      reduce_from_tensor_region(cut, three), broken_promise, MessageMatches(StartsWith("TAPE-6")));
}

TEST_CASE("copy to and reduce from the tensor region are each other's backward pass",
          "[placement]") {
  // Rank r holds r + 1 in each element: the sum is 3; with sequence parallelism each has its rows.
  const bool sequence_parallel = GENERATE(false, true);
  CAPTURE(sequence_parallel);
  const auto group = std::make_shared<local_group>(axis::tensor, 2, cancel_token());
  std::vector<std::thread> threads;
  std::vector<std::string> failures(2);
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto check = [&](bool good, const char* what) {
        if (!good)
          failures[std::size_t(r)] += std::string(what) + "; ";
      };
      local_communicator mine(group, r);
      fixture x;
      tape graph(x.stream,
                 x.store,
                 {.groups = {{axis::tensor, &mine}}, .sequence_parallel = sequence_parallel});
      graph.begin_segment(0);
      auto parts = graph.make(x.zeros<float>({1, 2, 4}), placement::partial);
      std::fill_n(parts.data.data<float>(), 8, float(r + 1));
      const auto sum = reduce_from_tensor_region(graph, parts);
      check(sum.placements[axis::tensor]
                == (sequence_parallel ? placement::sequence_sharded : placement::replicated),
            "how the sum lies");
      check(sum.data.size() == (sequence_parallel ? 4 : 8), "how much of it");
      check(sum.data.elements<float>()[3] == 3, "the sum");
      const auto again = copy_to_tensor_region(graph, sum);
      check(again.placements[axis::tensor] == placement::replicated_partial_gradient
                && again.data.size() == 8,
            "all of it is there");
      check(again.data.elements<float>()[7] == 3, "the last element");
      graph.end_segment();
      again.gradient->sum = x.zeros<float>({2, 4});
      std::fill_n(again.gradient->sum.data<float>(), 8, float(10 * (r + 1)));
      graph.input_gradients(0);
      check(parts.gradient->sum.size() == 8, "all of the gradient");
      for (const float g : parts.gradient->sum.elements<float>())
        check(g == 30, "the gradient");
    });
  for (auto& t : threads)
    t.join();
  for (const auto& failure : failures)
    CHECK(failure.empty());
}

TEST_CASE_METHOD(fixture,
                 "ATTENTION-2: rotary channels have a frequency for each pair",
                 "[placement]") {
  auto settings = one_head;
  settings.rotated = 4;
  CHECK_THROWS_MATCHES(
      self_attention(under_test, made(placement::feature_sharded, 12), settings, rows),
      broken_promise,
      MessageMatches(StartsWith("ATTENTION-2")));
  settings.rotary_frequency = zeros<float>({2});
  CHECK_NOTHROW(self_attention(under_test, made(placement::feature_sharded, 12), settings, rows));
}

TEST_CASE_METHOD(fixture,
                 "ATTENTION-3: attention without a cache has values of its own",
                 "[placement]") {
  auto settings = one_head;
  settings.values_in_keys = true;
  CHECK_THROWS_MATCHES(
      self_attention(under_test, made(placement::feature_sharded, 8), settings, rows),
      broken_promise,
      MessageMatches(StartsWith("ATTENTION-3")));
}

TEST_CASE_METHOD(fixture, "ATTENTION-4: queries and keys have as many sequences", "[placement]") {
  const auto q = made(placement::feature_sharded), kv = made(placement::feature_sharded, 8);
  auto keys = rows;
  keys.documents = zeros<std::int32_t>({3});
  keys.documents.data<std::int32_t>()[2] = 2;
  keys.document_samples = zeros<std::uint64_t>({2});
  CHECK_BREAKS("ATTENTION-4", cross_attention(under_test, q, kv, one_head, rows, keys));
  CHECK_BREAKS("ATTENTION-4", cross_attention(under_test, q, kv, one_head, keys, rows));
  CHECK_NOTHROW(cross_attention(under_test, q, kv, one_head, keys, keys));
}

TEST_CASE_METHOD(fixture,
                 "LATENT-1: each head has a key of its own, and the shared key is its rotated end",
                 "[placement]") {
  const auto whole = made(placement::replicated_partial_gradient, 2);
  const auto q = made(placement::feature_sharded), kv = made(placement::feature_sharded, 6);
  auto latent = one_head;
  latent.rotated_from = 1;
  CHECK_BREAKS("LATENT-1", latent_qkv(under_test, q, kv, whole, latent));
  CHECK_BREAKS("LATENT-1", absorbed_qkv(under_test, q, whole, whole, 0, latent));
  latent.rotated_from = 2;
  CHECK_NOTHROW(latent_qkv(under_test, q, kv, whole, latent));
  latent.groups = 2;
  CHECK_BREAKS("LATENT-1", latent_qkv(under_test, q, kv, whole, latent));
}

TEST_CASE_METHOD(fixture,
                 "channels are cut and joined; an unused part has the gradient 0",
                 "[tape]") {
  const auto counted = [&](shape extents, float from) {
    auto out = zeros<float>(extents);
    std::iota(out.data<float>(), out.data<float>() + out.size(), from);
    return out;
  };
  const auto elements = [](const tensor& x) {
    const auto all = x.elements<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  tape graph(stream, store, {});
  graph.begin_segment(0);
  const auto x = graph.make(counted({1, 2, 4}, 0), placement::replicated);
  const auto parts = split_channels(graph, x, {1, 2, 1});
  const auto joined = join_channels(graph, {parts[1], parts[0]});
  graph.end_segment();
  CHECK(elements(joined.data) == std::vector<float>{1, 2, 0, 5, 6, 4});
  joined.gradient->sum = counted({1, 2, 3}, 10);
  graph.input_gradients(0);
  CHECK(elements(x.gradient->sum) == std::vector<float>{12, 10, 11, 0, 15, 13, 14, 0});
}
