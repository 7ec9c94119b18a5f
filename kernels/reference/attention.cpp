#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace troupe::kernels::reference {

namespace {

/// Query row i and head h of sequence s.
struct query_index {
  std::int64_t s, h, i;
};

struct geometry : attention_shape {
  explicit geometry(const attention_shape& shape) : attention_shape(shape) {}

  std::int64_t group_of(std::int64_t h) const { return h / (H / G); }
  std::int64_t query(const query_index& at) const {
    const std::int64_t g = group_of(at.h);
    return at.i * query_row + g * query_group + (at.h - g * (H / G)) * D;
  }
  std::int64_t output(const query_index& at) const { return (at.i * H + at.h) * Dv; }
  std::int64_t lse(const query_index& at) const {
    return lse_at(H, query_starts[at.s], query_starts[at.s + 1], at.h, at.i);
  }
  std::int64_t key_of(const query_index& at, std::int64_t j) const {
    return key_place(*this, j) * key_row + group_of(at.h) * key_group;
  }
  std::int64_t value_of(const query_index& at, std::int64_t j) const {
    return key_place(*this, j) * value_row + group_of(at.h) * value_group;
  }
  bool sees(const query_index& at, std::int64_t j) const {
    return !causal
           || (key_position[j] <= query_position[at.i]
               && key_position[j] >= attention_horizon(*this, query_position[at.i]));
  }
  /// The dropout factor m of (row, key).
  double mask(const query_index& at, std::int64_t j) const {
    if (p_drop == 0)
      return 1;  // sample may be null
    const auto stream = attention_stream(sample[at.s], query_position[at.i]);
    const auto word = philox_word(key, stream, attention_word(first_head + at.h, key_position[j]));
    return word < drop_threshold(p_drop) ? 0 : 1 / (1 - double(p_drop));
  }
  std::int64_t distance(const query_index& at, std::int64_t j) const {
    return std::int64_t{key_position[j]} - query_position[at.i];
  }
  template <class Visit>
  void each_row(Visit visit) const {
    for (std::int64_t s = 0; s < S; ++s) {
      for (std::int64_t i = query_starts[s]; i < query_starts[s + 1]; ++i) {
        for (std::int64_t h = 0; h < H; ++h)
          visit(query_index{s, h, i});
      }
    }
  }
  template <class Visit>
  void each_visible_key(const query_index& at, Visit visit) const {
    for (std::int64_t j = key_starts[at.s]; j < key_starts[at.s + 1]; ++j) {
      if (sees(at, j))
        visit(j);
    }
  }
};

template <class T>
std::int64_t bias_at(const score_bias<T>& bias, std::int64_t h, std::int64_t distance) {
  return h * bias.count + distance - bias.first;
}
template <class T>
double bias_of(const score_bias<T>& bias, std::int64_t h, std::int64_t distance) {
  return bias.values == nullptr ? 0.0 : double(bias.values[bias_at(bias, h, distance)]);
}

template <class A, class B>
double dot(const A* a, const B* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t d = 0; d < n; ++d)
    sum += double(a[d]) * double(b[d]);
  return sum;
}

}  // namespace

template <class T>
void run(const attention_forward<T>& op) {
  const geometry a{op.shape};
  std::vector<double> o(static_cast<std::size_t>(a.Dv));
  a.each_row([&](const query_index& at) {
    const T* q = op.q + a.query(at);
    const auto score = [&](std::int64_t j) {
      return double(a.scale) * dot(q, op.k + a.key_of(at, j), a.D)
             + bias_of(op.bias, at.h, a.distance(at, j));
    };
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    a.each_visible_key(at, [&](std::int64_t j) { largest = std::max(largest, score(j)); });
    a.each_visible_key(at, [&](std::int64_t j) { sum += std::exp(score(j) - largest); });

    o.assign(o.size(), 0);
    a.each_visible_key(at, [&](std::int64_t j) {
      const double pm = std::exp(score(j) - largest) / sum * a.mask(at, j);
      for (std::int64_t d = 0; d < a.Dv; ++d)
        o[std::size_t(d)] += pm * double(op.v[a.value_of(at, j) + d]);
    });
    for (std::int64_t d = 0; d < a.Dv; ++d)
      op.o[a.output(at) + d] = T(o[std::size_t(d)]);
    op.lse[a.lse(at)] = float(largest + std::log(sum));
  });
}

template <class T>
void run(const attention_backward<T>& op) {
  const geometry a{op.shape};
  const std::int64_t keys = a.key_starts[a.S] * a.G;
  std::vector<double> dq(static_cast<std::size_t>(a.D));
  std::vector<double> dk(static_cast<std::size_t>(keys * a.D));   // (.., G, D)
  std::vector<double> dv(static_cast<std::size_t>(keys * a.Dv));  // (.., G, Dv)
  std::vector<double> dbias(op.dbias == nullptr ? 0 : std::size_t(a.H * op.bias.count));

  a.each_row([&](const query_index& at) {
    const T* q = op.q + a.query(at);
    const T* d_o = op.d_o + a.output(at);
    const double delta = dot(d_o, op.o + a.output(at), a.Dv);
    const double lse = op.lse[a.lse(at)];
    dq.assign(dq.size(), 0);
    a.each_visible_key(at, [&](std::int64_t j) {
      const T* k = op.k + a.key_of(at, j);
      const T* v = op.v + a.value_of(at, j);
      const double score
          = double(a.scale) * dot(q, k, a.D) + bias_of(op.bias, at.h, a.distance(at, j));
      const double p = std::exp(score - lse), m = a.mask(at, j);
      const double ds = p * (m * dot(d_o, v, a.Dv) - delta);
      if (op.dbias != nullptr)
        dbias[std::size_t(bias_at(op.bias, at.h, a.distance(at, j)))] += ds;
      const std::int64_t key = j * a.G + a.group_of(at.h);
      for (std::int64_t d = 0; d < a.D; ++d) {
        dq[std::size_t(d)] += double(a.scale) * ds * double(k[d]);
        dk[std::size_t(key * a.D + d)] += double(a.scale) * ds * double(q[d]);
      }
      for (std::int64_t d = 0; d < a.Dv; ++d)
        dv[std::size_t(key * a.Dv + d)] += p * m * double(d_o[d]);
    });
    for (std::int64_t d = 0; d < a.D; ++d)
      op.dq[a.query(at) + d] = T(dq[std::size_t(d)]);
  });

  std::copy(dbias.begin(), dbias.end(), op.dbias);
  for (std::int64_t j = 0; j < a.key_starts[a.S]; ++j) {
    for (std::int64_t g = 0; g < a.G; ++g) {
      const std::int64_t key = j * a.G + g;
      for (std::int64_t d = 0; d < a.D; ++d)
        op.dk[j * a.key_row + g * a.key_group + d] = T(dk[std::size_t(key * a.D + d)]);
      for (std::int64_t d = 0; d < a.Dv; ++d)
        op.dv[j * a.value_row + g * a.value_group + d] = T(dv[std::size_t(key * a.Dv + d)]);
    }
  }
}

template void run(const attention_forward<float>&);
template void run(const attention_forward<double>&);
template void run(const attention_forward<bf16>&);
template void run(const attention_forward<f16>&);
template void run(const attention_backward<float>&);
template void run(const attention_backward<double>&);
template void run(const attention_backward<bf16>&);
template void run(const attention_backward<f16>&);

}  // namespace troupe::kernels::reference
