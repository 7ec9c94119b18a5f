// gather_rows and scatter_rows: the tokens' embedding, with rows of a variable as its table.

#include "kernels/op/cast.hpp"
#include "kernels/op/embedding.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"

#include <type_traits>
#include <utility>

namespace troupe::runtime {
namespace {

/// This rank's part of the numbered rows.
struct numbered_part {
  tensor index;
  std::int64_t first, rows;
  bool sums;  ///< over the tensor ranks

  std::int64_t numbers() const { return index.size(); }
};

numbered_part part_of(const tape& tape, const row_numbers& all, bool sharded) {
  const auto ranks = sharded ? tape.group_size() : 1;
  ensure(all.rows % ranks == 0, "TAPE-6: tensor ranks share whole rows");
  const auto each = all.rows / ranks;
  return {all.index, sharded ? tape.rank() * each : 0, each, ranks > 1};
}

/// (n, C), complete on each rank.
template <class T>
tensor rows_of_numbers(tape& tape, const tensor& x, const numbered_part& of) {
  const auto C = channels_of(x);
  auto out = tensor::empty<T>(tape.stream(), {of.numbers(), C});
  tape.stream().run(kernels::embedding_forward<T>{.y = out.template data<T>(),
                                                  .table = x.data<T>(),
                                                  .id = of.index.template data<std::int32_t>(),
                                                  .position_table = nullptr,
                                                  .position = nullptr,
                                                  .R = of.numbers(),
                                                  .C = C,
                                                  .first = std::int32_t(of.first),
                                                  .rows = std::int32_t(of.rows)});
  return of.sums ? summed(tape, out) : out;
}

/// This rank's rows, of these extents.
template <class T>
tensor sums_of_numbers(tape& tape, const tensor& x, const numbered_part& to, const shape& extents) {
  const auto C = channels_of(x);
  auto sums = tensor::empty<float>(tape.stream(), extents);
  tape.stream().run(kernels::embedding_backward<T>{.dtable = sums.template data<float>(),
                                                   .id = to.index.template data<std::int32_t>(),
                                                   .dposition_table = nullptr,
                                                   .position = nullptr,
                                                   .dy = x.data<T>(),
                                                   .R = to.numbers(),
                                                   .C = C,
                                                   .first = std::int32_t(to.first),
                                                   .rows = std::int32_t(to.rows),
                                                   .accumulates = false});
  if constexpr (std::is_same_v<T, float>) {
    return sums;
  } else {
    auto out = tensor::empty<T>(tape.stream(), extents);
    tape.stream().run(
        kernels::narrow<T>{out.template data<T>(), sums.template data<float>(), sums.size()});
    return out;
  }
}

void ensure_rows(bool kept) {
  ensure(kept, "ROWS-1: numbers are of the rows of the variable");
}

}  // namespace

row_numbers numbered_rows(stream& stream,
                          std::span<const std::int64_t> numbers,
                          std::int64_t rows,
                          std::string_view what) {
  if (rows > std::numeric_limits<std::int32_t>::max())
    throw input_error(
        "cannot number the rows of {}: there are {}, at most {} are possible; give "
        "smaller micro-batches",
        what,
        rows,
        std::numeric_limits<std::int32_t>::max());
  std::vector<std::int32_t> out;
  for (const auto x : numbers) {
    if (x < -1 || x >= rows)
      throw input_error(
          "cannot use entry {} of {}: row {} is not among the {} rows; give -1 for "
          "none{}",
          out.size(),
          what,
          x,
          rows,
          rows == 0 ? "" : fmt::format(", or a row from 0 to {}", rows - 1));
    out.push_back(std::int32_t(x));
  }
  const auto n = std::int64_t(out.size());
  return {uploaded<std::int32_t>(stream, out, {n}), rows};
}

row_numbers first_rows(const row_layout& rows) {
  return {rows.starts.slice(0, {rows.starts.size() - 1}), rows.positions.size()};
}

variable gather_rows(tape& tape, const variable& x, const row_numbers& rows) {
  require_residual(x, "gather_rows");
  const bool sharded = x.placements[axis::tensor] == placement::sequence_sharded;
  const auto from = part_of(tape, rows, sharded);
  ensure_rows(x.data.size() == from.rows * channels_of(x.data));
  return with_element(tape.type(), [&]<class T>(T) {
    auto y = tape.make(rows_of_numbers<T>(tape, x.data, from),
                       x.placements.with(axis::tensor, placement::replicated));
    if (x.gradient)
      tape.record([from, extents = x.data.extents(), dx = x.gradient, dy = y.gradient](auto& on) {
        const auto grad = std::move(dy->sum);
        on.add(*dx, sums_of_numbers<T>(on, grad, from, extents));
      });
    return y;
  });
}

variable scatter_rows(tape& tape, const variable& x, const row_numbers& rows) {
  require_placement(x, placement::replicated, "scatter_rows");
  ensure_rows(x.data.size() == rows.index.size() * channels_of(x.data));
  const auto result
      = tape.sequence_parallel() ? placement::sequence_sharded : placement::replicated;
  const auto to = part_of(tape, rows, tape.sequence_parallel());
  return with_element(tape.type(), [&]<class T>(T) {
    auto y = tape.make(sums_of_numbers<T>(tape, x.data, to, {to.rows, channels_of(x.data)}),
                       x.placements.with(axis::tensor, result));
    if (x.gradient)
      tape.record([to, dx = x.gradient, dy = y.gradient](auto& on) {
        const auto grad = std::move(dy->sum);
        on.add(*dx, rows_of_numbers<T>(on, grad, to));
      });
    return y;
  });
}

}  // namespace troupe::runtime
