// Latent attention: the formula, and the same bits at cuts and with recomputation.

#include "runtime/model/layers/latent_attention.hpp"

#include "runtime/model/counts.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/latent_gpt.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

using doubles = std::vector<double>;
constexpr std::int64_t B = 2, T = 5;
const std::vector<float> frequency = {1, 0.3F};

/// A module alone, with random parameters and inputs.
struct alone {
  latent_attention_spec spec;
  stream by{kernels::backend::cpu, 1, {}};
  unit_spec unit{.name = "unit"};
  std::vector<shape> caches;
  std::vector<segment> program;
  std::unique_ptr<resident_store> store;
  std::vector<float> input = normal<float>(B * T * 16, 3);

  /// With several tensor ranks it is the first, and rows are sharded.
  explicit alone(const latent_attention_spec& x, int tensor_ranks = 1) : spec(x) {
    unit_under_construction in{.unit = unit,
                               .ranks = {{axis::tensor, {0, tensor_ranks}}},
                               .sequence_parallel = tensor_ranks > 1,
                               .caches = caches,
                               .program = program};
    module_builder to(in, "attention");
    add(to, spec);
    store = std::make_unique<resident_store>(std::vector<unit_spec>{unit}, 1, by.pool());
    initialise(*store, 5);
    shake(*store, 0.25);
  }

  /// The state before the first segment, with an input of these extents.
  pass begun(const tape& graph, shape extents, placement along) {
    pass p;
    p.settings.training = false;
    p.rows.order = filled<std::int32_t>(by, {B, T}, [](auto i) { return i % T; });
    p.rows.starts = filled<std::int32_t>(by, {B + 1}, [](auto b) { return b * T; });
    p.rows.samples = filled<std::uint64_t>(by, {B}, [](auto b) { return b; });
    p.rows.uniform = true;
    p.rotary_frequency = filled<float>(by, {2}, [](auto i) { return frequency[std::size_t(i)]; });
    p.x = graph.make(filled<float>(by, extents, [&](auto i) { return input[std::size_t(i)]; }),
                     along);
    return p;
  }

  std::vector<float> output() {
    tape graph(by, *store, {.recording = false});
    auto p = begun(graph, {B, T, 16}, placement::replicated);
    for (const auto& x : program) {
      graph.begin_segment(0);
      x.forward(graph, p);
      graph.end_segment();
    }
    const auto out = p.x.data.elements<float>();
    return {out.begin(), out.end()};
  }

  std::vector<float> values(const std::string& name) const {
    for (const auto& e : store->entries())
      if (e.spec.name == "attention." + name + ".weight") {
        const auto from = store->values().begin() + std::ptrdiff_t(store->value_offset(e));
        return {from, from + std::ptrdiff_t(e.valid)};
      }
    throw std::logic_error("no parameter " + name);
  }
  doubles product(const std::string& name, const doubles& x) const {
    const auto weight = values(name);
    doubles y(weight.size() / x.size());
    for (std::size_t n = 0; n < y.size(); ++n)
      for (std::size_t k = 0; k < x.size(); ++k)
        y[n] += double(weight[n * x.size() + k]) * x[k];
    return y;
  }
  doubles normalized(const std::string& name, const doubles& x) const {
    const auto gain = values(name);
    double squares = 0;
    for (const double one : x)
      squares += one * one / double(x.size());
    doubles y(x.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = x[i] * double(gain[i]) / std::sqrt(squares + 1e-5);
    return y;
  }
  doubles rotated(doubles x, std::int64_t position) const {
    for (std::size_t i = 0; i < 2; ++i) {
      const double angle = double(position) * double(frequency[i]);
      const double cos = spec.rotary_magnitude * std::cos(angle);
      const double sin = spec.rotary_magnitude * std::sin(angle);
      double& first = spec.rotary_interleaved ? x[2 * i] : x[i];
      double& second = spec.rotary_interleaved ? x[2 * i + 1] : x[i + 2];
      const double a = first, b = second;
      first = a * cos - b * sin;
      second = b * cos + a * sin;
    }
    return x;
  }
  static doubles part(const doubles& x, std::int64_t first, std::int64_t n) {
    return {x.begin() + first, x.begin() + first + n};
  }
  static double dot(const doubles& a, const doubles& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += a[i] * b[i];
    return sum;
  }

  /// The products of one row: queries, keys with values, the shared key.
  struct products {
    doubles q, kv, shared;
  };
  products products_of(std::int64_t r) const {
    const doubles x(input.begin() + r * 16, input.begin() + (r + 1) * 16);
    const auto down = product("linear_kv_down_proj", x);
    const auto latent = normalized("kv_layernorm", part(down, 0, spec.kv_rank));
    const auto q = spec.q_rank == 0
                       ? product("linear_q_proj", x)
                       : product("linear_q_up_proj",
                                 normalized("q_layernorm", product("linear_q_down_proj", x)));
    return {q,
            product("linear_kv_up_proj", latent),
            rotated(part(down, spec.kv_rank, spec.rotated), r % T)};
  }
  doubles expected(std::int64_t r) const {
    const auto own = spec.own_size, Dv = spec.value_size;
    const auto mine = products_of(r);
    doubles heads;
    for (std::int64_t h = 0; h < spec.heads; ++h) {
      const auto q = part(mine.q, h * spec.head_size(), spec.head_size());
      const auto turned = rotated(part(q, own, spec.rotated), r % T);
      doubles o(static_cast<std::size_t>(Dv));
      double sum = 0;
      for (std::int64_t j = r / T * T; j <= r; ++j) {
        const auto other = products_of(j);
        const auto k = part(other.kv, h * (own + Dv), own);
        const auto v = part(other.kv, h * (own + Dv) + own, Dv);
        const double p
            = std::exp(spec.scale * (dot(part(q, 0, own), k) + dot(turned, other.shared)));
        sum += p;
        for (std::size_t d = 0; d < o.size(); ++d)
          o[d] += p * v[d];
      }
      for (const double one : o)
        heads.push_back(one / sum);
    }
    return product("linear_proj", heads);
  }
};

/// Rank 0 of two tensor ranks with the same arrays. Notes the array that each collective reads.
struct equal_ranks final : communicator {
  std::vector<const void*> read;

  axis_set along() const override { return axis::tensor; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void barrier() override {}
  void all_reduce_sum(stream&, dtype, std::span<const void* const>, void*, std::int64_t) override {
    throw std::logic_error("rows are sharded");
  }
  void reduce_scatter_sum(
      stream&, dtype, std::span<const void* const> parts, void* to, offsets ends) override {
    read.push_back(parts[0]);
    for (std::int64_t i = 0; i < ends[0]; ++i)
      static_cast<float*>(to)[i] = 2 * static_cast<const float*>(parts[0])[i];
  }
  void all_gather(stream&, const void* mine, void* to, offsets ends) override {
    read.push_back(mine);
    for (const auto end : ends)
      std::copy_n(static_cast<const std::byte*>(mine),
                  ends[0],
                  static_cast<std::byte*>(to) + end - ends[0]);
  }
  void all_to_all(stream&, const void*, offsets, void*, offsets) override {
    throw std::logic_error("no exchange");
  }
  void broadcast(stream&, void*, std::int64_t, int) override {
    throw std::logic_error("no broadcast");
  }
};

}  // namespace

TEST_CASE("segments of latent attention begin with their only collective", "[model]") {
  const bool low_rank = GENERATE(false, true);
  CAPTURE(low_rank);
  alone under_test(tiny_latent(low_rank), 2);
  equal_ranks group;
  tape graph(under_test.by,
             *under_test.store,
             {.groups = {{axis::tensor, &group}}, .sequence_parallel = true});
  auto p = under_test.begun(graph, {B * T / 2, 16}, placement::sequence_sharded);
  std::vector<std::size_t> forward, backward;
  for (const auto& x : under_test.program) {
    CAPTURE(x.name);
    group.read.clear();
    const auto* const input = p.x.data.raw();
    graph.begin_segment(0);
    x.forward(graph, p);
    graph.end_segment();
    forward.push_back(group.read.size());
    if (!group.read.empty())
      CHECK(group.read[0] == input);
  }
  CHECK(p.locals.empty());
  p.x.gradient->sum = filled<float>(under_test.by, {B, T, 16}, [](auto) { return 1; });
  for (int s = graph.segments() - 1; s >= 0; --s) {
    group.read.clear();
    graph.input_gradients(s);
    backward.push_back(group.read.size());
  }
  // down, qkv, core, proj: without a low rank, queries are a product of the gathered input.
  CHECK(forward == std::vector<std::size_t>{low_rank ? 0U : 1U, 1, 0, 0});
  CHECK(backward == std::vector<std::size_t>(forward.rbegin(), forward.rend()));
}

TEST_CASE("latent attention computes its formula", "[model]") {
  const bool low_rank = GENERATE(false, true);
  CAPTURE(low_rank);
  alone under_test(tiny_latent(low_rank));
  doubles expected;
  for (std::int64_t r = 0; r < B * T; ++r)
    for (const double one : under_test.expected(r))
      expected.push_back(one);
  CHECK(relative_error(under_test.output(), expected) < 1e-5);  // float sums of some tens of terms
  CHECK(under_test.caches == std::vector{shape{4, 7 + 5}});
  auto compressed = tiny_latent(low_rank);
  compressed.caches_latents = true;
  CHECK(alone(compressed).caches == std::vector{shape{1, 6 + 4}});
}

TEST_CASE("the scale of latent attention is that of its head size, if none is given", "[model]") {
  auto usual = tiny_latent(true), given = usual;
  usual.scale = 0;
  given.scale = 1 / std::sqrt(7.0);
  CHECK(alone(usual).output() == alone(given).output());
}

TEST_CASE("latent attention has the bits of the whole at every cut and with recomputation",
          "[model]") {
  const bool low_rank = GENERATE(false, true);
  const auto cut = GENERATE(range(std::int64_t{1}, std::int64_t{4}));
  const auto how = GENERATE(recompute_settings{},
                            recompute_settings{recompute_granularity::selective},
                            recompute_settings{recompute_granularity::full});
  CAPTURE(low_rank, cut, int(how.granularity));
  const auto model = latent_gpt(low_rank, 0.2);
  stream by(kernels::backend::cpu, 1, {});
  stages whole(model, {{0, 4}}, by), two(model, {{0, cut}, {cut, 4}}, by, how);
  for (int m = 0; m < 2; ++m) {
    const auto in = tiny_batch(by, model, 2, std::uint64_t(m), true);
    CHECK(two.forward_backward(m, in).total == whole.forward_backward(m, in).total);
  }
  CHECK(two.gradients() == whole.gradients());
}

TEST_CASE("LAYER-1: tensor ranks divide the heads of latent attention", "[model]") {
  const auto model = latent_gpt(true);
  CHECK_BREAKS("LAYER-1", chunk(model, all_of(model), {{axis::tensor, {0, 3}}}));
}

TEST_CASE("latent attention of DeepSeek-V3 has its published number of parameters and FLOPs",
          "[model]") {
  const latent_attention_spec v3{.hidden = 7168,
                                 .heads = 128,
                                 .q_rank = 1536,
                                 .kv_rank = 512,
                                 .own_size = 128,
                                 .rotated = 64,
                                 .value_size = 128,
                                 .norm = {.kind = kernels::normalization::rms}};
  unit_spec unit;
  std::vector<shape> caches;
  std::vector<segment> program;
  unit_under_construction in{.unit = unit, .caches = caches, .program = program};
  module_builder to(in, "attention");
  add(to, v3);
  std::int64_t parameters = 0;
  for (const auto& x : unit.parameters)
    parameters += whole_extents(x).size();
  CHECK(parameters == 187107328);
  // Two operations for each element of a matrix; the norms have 1536 and 512 other elements. Scores
  // of half of the square, of heads of 192 and 128.
  const auto flops = forward_flops(v3, 4096);
  CHECK(flops.parameters == 2.0 * 4096 * (187107328 - 1536 - 512));
  CHECK(flops.activations == 2.0 * 128 * (192 + 128) * 4096 * 4096 / 2);
}
