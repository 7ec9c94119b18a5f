#include "kernels/reference/reference.hpp"
#include "tests/support/gradient.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::bf16;
using kernels::f16;
using kernels::normalization;

namespace {

struct shape {
  std::int64_t R, G, heads, D;
};

// One element; odd; a vector and below; more than four vectors; several blocks of heads.
const auto shapes = {shape{1, 1, 1, 1},
                     shape{3, 2, 3, 5},
                     shape{7, 1, 2, 16},
                     shape{5, 2, 1, 64},
                     shape{9, 3, 2, 131},
                     shape{400, 2, 3, 33}};

// Some hundred roundings of 6e-8, adding up as a random walk does.
constexpr double rounding = 2e-6;

/// The elements that are of no head, of arrays (R, G, heads + 2, D).
template <class T>
std::vector<T> between(const head_norm_memory<T>& m, const std::vector<T>& from) {
  std::vector<T> out;
  for (std::int64_t group = 0; group < m.R * m.G; ++group) {
    const auto begin = from.begin() + group * (m.heads + 2) * m.D + m.heads * m.D;
    out.insert(out.end(), begin, begin + 2 * m.D);
  }
  return out;
}

template <class T>
void on_reference(head_norm_memory<T>& m) {
  kernels::reference::run(m.forward());
  kernels::reference::run(m.backward_input());
  kernels::reference::run(m.backward_weight());
}

template <class T>
head_norm_memory<T> computed(head_norm_memory<T> m, int threads) {
  on_cpu(m.forward(), threads);
  on_cpu(m.backward_input(), threads);
  on_cpu(m.backward_weight(), threads);
  return m;
}

template <class T>
bool same_bits(const head_norm_memory<T>& a, const head_norm_memory<T>& b) {
  return a.y == b.y && a.mean == b.mean && a.rstd == b.rstd && a.dx == b.dx && a.dgain == b.dgain
         && a.dbias == b.dbias;
}

}  // namespace

TEST_CASE("a norm of heads that fill their rows is a norm of rows",
          "[kernels][reference][head_norm]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  norm_memory<double> rows{.R = 24, .C = 5, .kind = kind};
  head_norm_memory<double> heads{.R = 4, .G = 2, .heads = 3, .D = 5, .kind = kind};
  heads.x = rows.x;
  heads.dy = rows.dy;
  heads.gain = rows.gain;
  heads.bias = rows.bias;
  heads.dgain = rows.dgain;
  heads.dbias = rows.dbias;
  const auto dense = [](auto op) {
    op.shape.row = 2 * 3 * 5;
    op.shape.group = 3 * 5;
    kernels::reference::run(op);
  };
  dense(heads.forward());
  dense(heads.backward_input());
  dense(heads.backward_weight());
  kernels::reference::run(rows.forward());
  kernels::reference::run(rows.backward_input());
  kernels::reference::run(rows.backward_weight());
  CHECK(std::equal(rows.y.begin(), rows.y.end(), heads.y.begin()));
  CHECK(relative_error(heads.dx, rows.dx) < 1e-14);  // the means are divided elsewhere
  CHECK(heads.mean == rows.mean);
  CHECK(heads.rstd == rows.rstd);
  CHECK(heads.dgain == rows.dgain);
  CHECK(heads.dbias == rows.dbias);
}

TEST_CASE("I and W of a norm of heads agree with finite differences",
          "[kernels][reference][head_norm][gradient]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  const auto gain_offset = GENERATE(0.f, 1.f);
  head_norm_memory<double> t{
      .R = 3, .G = 2, .heads = 2, .D = 7, .kind = kind, .gain_offset = gain_offset};
  const auto dgain = t.dgain, dbias = t.dbias;
  on_reference(t);
  CHECK(between(t, t.dx) == std::vector<double>(std::size_t(3 * 2 * 2 * 7), unwritten));

  const auto loss = [&t] {
    kernels::reference::run(t.forward());
    return weighted_sum(t.y, t.dy);
  };
  auto dx = t.dx;
  std::replace(dx.begin(), dx.end(), double(unwritten), 0.0);  // they change nothing
  // Mean and rstd are stored as float: 6e-8 of each, and a difference of them amplifies it.
  CHECK(relative_error(dx, slopes(t.x, loss)) < 1e-6);
  CHECK(relative_error(t.dgain, plus(dgain, slopes(t.gain, loss))) < 1e-6);
  CHECK(relative_error(t.dbias, plus(dbias, slopes(t.bias, loss))) < 1e-6);
}

TEST_CASE("a norm of heads on the cpu agrees with the reference", "[kernels][cpu][head_norm]") {
  const auto [R, G, heads, D] = GENERATE_REF(values(shapes));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  const auto gain_offset = GENERATE(0.f, 1.f);
  const int threads = GENERATE(1, 2);
  head_norm_memory<float> a{
      .R = R, .G = G, .heads = heads, .D = D, .kind = kind, .gain_offset = gain_offset};
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), threads);
  CHECK(relative_error(b.y, a.y) < rounding);
  CHECK(relative_error(b.mean, a.mean) < rounding);
  CHECK(relative_error(b.rstd, a.rstd) < rounding);
  CHECK(between(b, b.y) == between(b, blank<float>(std::int64_t(b.y.size()))));

  b.mean = a.mean;
  b.rstd = a.rstd;
  kernels::reference::run(a.backward_input());
  on_cpu(b.backward_input(), threads);
  // A norm of one number has no gradient: what is left is cancellation.
  CHECK(relative_error(b.dx, a.dx) < (D > 1 ? rounding : 1));
  CHECK(between(b, b.dx) == between(b, blank<float>(std::int64_t(b.dx.size()))));

  kernels::reference::run(a.backward_weight());
  on_cpu(b.backward_weight(), threads);
  CHECK(relative_error(b.dgain, a.dgain) < rounding);
  CHECK(relative_error(b.dbias, a.dbias) < rounding);
}

TEMPLATE_TEST_CASE("a norm of heads in a narrow type on the cpu is that in double, rounded once",
                   "[kernels][cpu][head_norm][narrow]",
                   bf16,
                   f16) {
  const auto [R, G, heads, D] = GENERATE_REF(values(shapes));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  head_norm_memory<TestType> b{.R = R, .G = G, .heads = heads, .D = D, .kind = kind};
  head_norm_memory<double> a{.R = R, .G = G, .heads = heads, .D = D, .kind = kind};
  a.x = exactly(b.x);
  a.dy = exactly(b.dy);
  a.gain = exactly(b.gain);
  a.bias = exactly(b.bias);
  a.dgain = exactly(b.dgain);
  a.dbias = exactly(b.dbias);
  on_reference(a);
  on_cpu(b.forward(), 2);
  CHECK(beyond_rounding(b.y, a.y) < rounding);
  CHECK(relative_error(b.rstd, a.rstd) < rounding);
  b.mean = a.mean;
  b.rstd = a.rstd;
  on_cpu(b.backward_input(), 2);
  CHECK(beyond_rounding(b.dx, a.dx) < (D > 1 ? rounding : 1));  // of one number: cancellation
  on_cpu(b.backward_weight(), 2);
  CHECK(relative_error(b.dgain, a.dgain) < rounding);  // summed in float, not rounded
  CHECK(relative_error(b.dbias, a.dbias) < rounding);
}

TEST_CASE("a norm of heads on the cpu has the same bits again and for any number of threads",
          "[kernels][cpu][head_norm]") {
  const auto [R, G, heads, D] = GENERATE_REF(values(shapes));
  const head_norm_memory<float> m{
      .R = R, .G = G, .heads = heads, .D = D, .kind = normalization::layer};
  const auto one = computed(m, 1);
  CHECK(same_bits(one, computed(m, 1)));
  CHECK(same_bits(one, computed(m, 2)));
  CHECK(same_bits(one, computed(m, 3)));
  const head_norm_memory<bf16> n{.R = R, .G = G, .heads = heads, .D = D};
  CHECK(same_bits(computed(n, 1), computed(n, 2)));
  const head_norm_memory<f16> h{.R = R, .G = G, .heads = heads, .D = D};
  CHECK(same_bits(computed(h, 1), computed(h, 2)));
}

TEST_CASE("a norm of heads may be written where it was read", "[kernels][cpu][head_norm]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  head_norm_memory<float> a{.R = 5, .G = 2, .heads = 3, .D = 21, .kind = kind};
  on_cpu(a.forward());
  on_cpu(a.backward_input());
  auto b = a;
  auto input = b.backward_input();
  input.dx = b.dy.data();
  on_cpu(input);
  auto forward = b.forward();
  forward.y = b.x.data();
  forward.mean = forward.rstd = nullptr;
  on_cpu(forward);
  for (std::size_t i = 0; i < a.y.size(); ++i) {
    if (a.y[i] != unwritten) {
      REQUIRE(b.x[i] == a.y[i]);
      REQUIRE(b.dy[i] == a.dx[i]);
    } else {
      REQUIRE(b.x[i] == a.x[i]);
    }
  }
}

TEST_CASE("the counts of a norm of heads are right", "[kernels][reference][counts]") {
  head_norm_memory<float> t{.R = 2, .G = 3, .heads = 2, .D = 4};
  CHECK(flops(t.forward()) == 48 * 4);
  CHECK(flops(t.backward_input()) == 48 * 7);
  CHECK(flops(t.backward_weight()) == 48 * 3);
  CHECK(bytes_moved(t.forward()) == 4 * 2 * 48);
  CHECK(bytes_moved(t.backward_input()) == 4 * 3 * 48);
  CHECK(bytes_moved(t.backward_weight()) == 4 * 2 * 48);
}
