#include "runtime/autograd/ops.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;

TEST_CASE("a norm of rows takes all queries of a token together, and all keys", "[autograd]") {
  constexpr std::int64_t R = 3, H = 4, G = 2, D = 2, row = (H + 2 * G) * D, group = row / G;
  stream on(kernels::backend::cpu, 1, {});
  resident_store store(
      {{"unit",
        {{.name = "query_gain", .extents = {H * D}}, {.name = "key_gain", .extents = {G * D}}}}},
      1,
      {});
  for (std::size_t i = 0; i < store.values().size(); ++i)
    store.values()[i] = 1 + float(i) / 8;
  std::vector<float> x;
  for (std::int64_t i = 0; i < R * row; ++i)
    x.push_back(float(7 * i % 11) - 4);
  tape graph(on, store, {.recording = false});
  graph.begin_segment(0);
  const auto out = row_norm(graph,
                            graph.make(uploaded(on, x, {1, R, row}), placement::feature_sharded),
                            {.heads = H, .groups = G, .head_size = D},
                            {.kind = kernels::normalization::rms, .epsilon = 1e-6F},
                            {0},
                            {1});
  const auto y = elements_of<float>(on, out.data);
  for (std::int64_t r = 0; r < R; ++r)
    for (const bool keys : {false, true}) {
      const auto width = keys ? D : H / G * D, first = r * row + (keys ? H / G * D : 0);
      const auto* const gain
          = store.values().data() + store.value_offset(store.entries()[keys ? 1 : 0]);
      double squares = 0;
      for (std::int64_t i = 0; i < G * width; ++i)
        squares += std::pow(x[std::size_t(first + i / width * group + i % width)], 2);
      const auto scale = 1 / std::sqrt(squares / double(G * width) + 1e-6);
      for (std::int64_t i = 0; i < G * width; ++i) {
        const auto at = std::size_t(first + i / width * group + i % width);
        CHECK(y[at] == Catch::Approx(x[at] * scale * gain[i]).margin(1e-6));
      }
    }
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t g = 0; g < G; ++g)
      for (auto at = r * row + (g + 1) * group - D; at < r * row + (g + 1) * group; ++at)
        CHECK(y[std::size_t(at)] == x[std::size_t(at)]);  // values
}
