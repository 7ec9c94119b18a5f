#include "runtime/optim/muon.hpp"

#include "kernels/op/linear.hpp"
#include "kernels/op/momentum.hpp"
#include "kernels/op/sum.hpp"
#include "runtime/core/error.hpp"
#include "runtime/tensor/tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace troupe::runtime {
namespace {

using numbers = std::array<float, 3>;

// Coefficients of Emerging-Optimizers v0.3.0, which Megatron-LM d98e8a64 uses (muon_utils.py).
// simple is Jordan's. quintic is from leloykun's search: five sets in turn. polar_express is from
// Amsel et al., "The Polar Express", 2025 (arXiv:2505.16932), divided by 1.01^degree as in its
// Algorithm 1. The library has this division since 2025-11-11. The last set of polar_express
// repeats.
constexpr numbers simple[] = {{3.4445F, -4.7750F, 2.0315F}};
constexpr numbers quintic[] = {{4.0848F, -6.8946F, 2.9270F},
                               {3.9505F, -6.3029F, 2.6377F},
                               {3.7418F, -5.5913F, 2.3037F},
                               {2.8769F, -3.1427F, 1.2046F},
                               {2.8366F, -3.0525F, 1.2012F}};
constexpr numbers polar_express[] = {{8.2051F, -22.9019F, 16.4607F},
                                     {4.0664F, -2.8612F, 0.5184F},
                                     {3.9096F, -2.8234F, 0.5250F},
                                     {3.2856F, -2.4153F, 0.4853F},
                                     {2.2779F, -1.6198F, 0.3985F},
                                     {1.8726F, -1.2307F, 0.3585F},
                                     {1.8564F, -1.2132F, 0.3568F},
                                     {1.8750F, -1.2500F, 0.3750F}};

const numbers& numbers_of(muon_coefficients which, std::size_t step) {
  switch (which) {
    case muon_coefficients::simple:
      return simple[0];
    case muon_coefficients::quintic:
      return quintic[step % std::size(quintic)];
    case muon_coefficients::polar_express:
      break;
  }
  return polar_express[std::min(step, std::size(polar_express) - 1)];
}

struct matrix {
  float* x;
  std::int64_t R, C;
  std::int64_t size() const { return R * C; }
};

void normalize(stream& stream, const matrix& m, communicator* group) {
  const int ranks = group ? group->size() : 1;
  auto squares = tensor::empty<double>(stream, {ranks});
  double* const own = squares.data<double>() + (group ? group->rank() : 0);
  stream.run(kernels::square_norm<float>{own, m.x, m.size()});
  if (group)
    group->all_gather(stream, own, squares.raw(), equal_ends(8 * std::int64_t{ranks}, ranks));
  stream.run(kernels::scaled_sum<float>{.y = m.x,
                                        .x = m.x,
                                        .z = nullptr,
                                        .n = m.size(),
                                        .squares = squares.data<double>(),
                                        .count = ranks,
                                        .eps = 1e-7F});
}

/// `left`: use the Gram matrix of the rows.
void iterate(stream& stream,
             const muon_settings& settings,
             const matrix& m,
             bool left,
             communicator* group) {
  const auto S = left ? m.R : m.C;
  normalize(stream, m, group);
  auto gram = tensor::empty<float>(stream, {S, S}), square = tensor::empty<float>(stream, {S, S});
  auto change = tensor::empty<float>(stream, {m.R, m.C});
  float *const A = gram.data<float>(), *const AA = square.data<float>();
  float* const D = change.data<float>();
  for (int i = 0; i < settings.steps; ++i) {
    const auto& [a, b, c] = numbers_of(settings.coefficients, std::size_t(i));
    if (left)
      stream.run(kernels::linear_forward<float>{.y = A,
                                                .z = nullptr,
                                                .x = m.x,
                                                .weight = m.x,
                                                .bias = nullptr,
                                                .R = S,
                                                .N = S,
                                                .K = m.C});
    else
      stream.run(kernels::linear_backward_weight<float>{.dweight = A,
                                                        .dbias = nullptr,
                                                        .dz = m.x,
                                                        .x = m.x,
                                                        .R = m.R,
                                                        .N = S,
                                                        .K = S,
                                                        .accumulates = false});
    if (group) {
      const void* const part = A;
      group->all_reduce_sum(stream, dtype::f32, {&part, 1}, A, S * S);
    }
    stream.run(kernels::linear_backward_input<float>{
        .dx = AA, .dz = A, .weight = A, .R = S, .N = S, .K = S});
    stream.run(kernels::scaled_sum<float>{.y = A, .x = A, .z = AA, .n = S * S, .a = b, .b = c});
    if (left)
      stream.run(kernels::linear_backward_input<float>{
          .dx = D, .dz = A, .weight = m.x, .R = S, .N = S, .K = m.C});
    else
      stream.run(kernels::linear_backward_input<float>{
          .dx = D, .dz = m.x, .weight = A, .R = m.R, .N = S, .K = S});
    stream.run(
        kernels::scaled_sum<float>{.y = m.x, .x = m.x, .z = D, .n = m.size(), .a = a, .b = 1});
  }
}

/// Copies rows [begin, end) of each group of rows, group by group, to `m` or back.
void copy_rows(stream& stream,
               const matrix& of,
               std::int64_t group,
               std::int64_t begin,
               std::int64_t end,
               float* rows,
               bool back) {
  if (stream.pool().is_shadow())
    return;
  const auto n = (end - begin) * of.C;
  for (std::int64_t first = 0; first < of.R; first += group, rows += n) {
    float* const there = of.x + (first + begin) * of.C;
    stream.copy(back ? there : rows, back ? rows : there, std::size_t(n) * sizeof(float));
  }
}

/// Calls each(matrix) for each submatrix that is orthogonalized separately. Each group of rows has
/// the given number of rows of each kind.
template <class Each>
void for_each_kind(stream& stream,
                   const matrix& of,
                   const std::vector<std::int64_t>& kinds,
                   const Each& each) {
  const auto group = std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0});
  if (group == 0)
    return each(of);
  ensure(of.R % group == 0, "MUON-1: a shard has whole groups of rows");
  std::int64_t begin = 0;
  for (const auto rows : kinds) {
    auto apart = tensor::empty<float>(stream, {of.R / group * rows, of.C});
    const matrix one{apart.data<float>(), of.R / group * rows, of.C};
    copy_rows(stream, of, group, begin, begin + rows, one.x, false);
    each(one);
    copy_rows(stream, of, group, begin, begin + rows, one.x, true);
    begin += rows;
  }
}

/// Copies a rank's shard, row-major at `shard`, to its place in the whole matrix or back.
void copy_shard(stream& stream,
                const parameter_spec& parameter,
                const axis_ranks& ranks,
                const matrix& whole,
                float* shard,
                bool back) {
  if (stream.pool().is_shadow())
    return;
  for (const auto& part : local_boxes(parameter, ranks)) {
    const auto rows = part.extents[0], columns = part.extents[1];
    const bool together = columns == whole.C;
    const auto n = together ? rows * columns : columns;
    for (std::int64_t r = 0; r < (together ? 1 : rows); ++r, shard += n) {
      float* const there = whole.x + (part.first[0] + r) * whole.C + part.first[1];
      stream.copy(back ? shard : there, back ? there : shard, std::size_t(n) * sizeof(float));
    }
  }
}

}  // namespace

double muon_factor(const muon_settings& settings, std::int64_t R, std::int64_t C) {
  const double rows = double(R), columns = double(C);
  const double square = settings.scale == muon_scale::spectral ? std::max(rows, columns)
                        : settings.scale == muon_scale::unit_rms_norm
                            ? rows / columns
                            : std::max(1.0, rows / columns);
  return std::sqrt(square) * settings.extra_scale;
}

void newton_schulz(
    stream& stream, const muon_settings& settings, float* x, std::int64_t R, std::int64_t C) {
  iterate(stream, settings, {x, R, C}, R <= C, nullptr);
}

void newton_schulz(stream& stream,
                   const muon_settings& settings,
                   float* x,
                   std::int64_t R,
                   std::int64_t C,
                   communicator& group,
                   bool rows_are_sharded) {
  iterate(stream, settings, {x, R, C}, !rows_are_sharded, &group);
}

void orthogonalize(stream& stream,
                   const muon_settings& settings,
                   const parameter_spec& parameter,
                   const axis_ranks& ranks,
                   communicator* group,
                   float* x) {
  const auto extents = local_extents(parameter, ranks);
  const matrix shard{x, extents[0], extents[1]};
  const auto along = axis_of_matrices(parameter);
  const auto& placement = parameter.placements[along];
  const bool sharded = group != nullptr && group->size() > 1 && placement.sharded();
  const auto kinds = settings.split_qkv ? parameter.row_kinds : decltype(parameter.row_kinds)();
  const auto scale = [&](const matrix& m, std::int64_t R, std::int64_t C) {
    stream.run(kernels::scaled_sum<float>{
        .y = m.x, .x = m.x, .z = nullptr, .n = m.size(), .a = float(muon_factor(settings, R, C))});
  };
  const auto alone = [&](const matrix& m) {
    newton_schulz(stream, settings, m.x, m.R, m.C);
    scale(m, m.R, m.C);
  };
  if (!sharded || settings.tensor_mode == muon_tensor_mode::blockwise)
    return for_each_kind(stream, shard, kinds, alone);
  if (settings.tensor_mode == muon_tensor_mode::distributed)
    return for_each_kind(stream, shard, kinds, [&](const matrix& m) {
      const bool rows = placement.dimension == 0;
      newton_schulz(stream, settings, m.x, m.R, m.C, *group, rows);
      scale(m, m.R * (rows ? group->size() : 1), m.C * (rows ? 1 : group->size()));
    });
  auto shards = tensor::empty<float>(stream, {group->size(), shard.size()});
  auto put_together = tensor::empty<float>(stream, parameter.extents);
  const matrix whole{put_together.data<float>(), parameter.extents[0], parameter.extents[1]};
  if (parameter.valid_rows >= 0)
    stream.clear(whole.x, std::size_t(whole.size()) * sizeof(float));
  const auto bytes = std::int64_t(sizeof(float)) * shard.size() * group->size();
  group->all_gather(stream, x, shards.raw(), equal_ends(bytes, group->size()));
  auto of = ranks;
  for (int r = 0; r < group->size(); ++r) {
    of[along] = {r, group->size()};
    copy_shard(stream, parameter, of, whole, shards.data<float>() + r * shard.size(), false);
  }
  for_each_kind(stream, whole, kinds, alone);
  copy_shard(stream, parameter, ranks, whole, x, true);
}

}  // namespace troupe::runtime
