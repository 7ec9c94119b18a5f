// Cases of attention and of its cache: see op_case.hpp.

#pragma once

#include "tests/kernels/op_case.hpp"

#include <algorithm>
#include <array>

namespace troupe::tests {

/// Queries, keys and values in one fused product, or apart. The last query row of a sequence stands
/// at the position of its last key.
struct attention_extents {
  std::int64_t H, G, D;
  std::vector<std::int32_t> queries, keys;  ///< rows of each sequence
  bool causal = true, fused = false;
  std::int32_t window = -1;
  float p_drop = 0;

  static std::int32_t sum(const std::vector<std::int32_t>& lengths) {
    std::int32_t out = 0;
    for (const auto n : lengths)
      out += n;
    return out;
  }
  static std::int32_t longest(const std::vector<std::int32_t>& lengths) {
    return *std::max_element(lengths.begin(), lengths.end());
  }
  std::int64_t query_rows() const { return sum(queries); }
  std::int64_t key_rows() const { return sum(keys); }
  std::int64_t query_group() const { return (H / G + (fused ? 2 : 0)) * D; }
  std::int64_t key_group() const { return fused ? query_group() : D; }
  double units() const { return 2 * roundings_of_sum(longest(keys) + D); }

  static const std::int32_t* starts(arrays& a,
                                    const std::string& name,
                                    const std::vector<std::int32_t>& lengths) {
    std::vector<double> out{0};
    for (const auto n : lengths)
      out.push_back(out.back() + n);
    const auto* const at = a.in<std::int32_t>(name, listed(out));
    a.counts(name, 0);
    return at;
  }
  const std::int32_t* positions(arrays& a,
                                const std::string& name,
                                const std::vector<std::int32_t>& lengths) const {
    std::vector<double> out;
    for (std::size_t s = 0; s < lengths.size(); ++s)
      for (std::int32_t i = 0; i < lengths[s]; ++i)
        out.push_back(keys[s] - lengths[s] + i);
    const auto* const at = a.in<std::int32_t>(name, listed(out));
    a.counts(name, 0);
    return at;
  }
  kernels::attention_shape shape(arrays& a) const {
    kernels::attention_shape out{.query_starts = starts(a, "query_starts", queries),
                                 .key_starts = starts(a, "key_starts", keys),
                                 .query_position = positions(a, "query_position", queries),
                                 .key_position = positions(a, "key_position", keys),
                                 .S = std::int64_t(queries.size()),
                                 .H = H,
                                 .G = G,
                                 .D = D,
                                 .query_row = G * query_group(),
                                 .query_group = query_group(),
                                 .key_row = G * key_group(),
                                 .key_group = key_group(),
                                 .scale = float(1 / std::sqrt(double(D))),
                                 .causal = causal,
                                 .window = window,
                                 .p_drop = p_drop,
                                 .key = 0x5eed,
                                 .first_head = 3,
                                 .query_rows = query_rows(),
                                 .key_rows = key_rows(),
                                 .longest_query = longest(queries),
                                 .longest_key = longest(keys)};
    if (p_drop > 0) {
      out.sample = a.in<std::uint64_t>("sample", whole_numbers(out.S, 1000));
      a.counts("sample", 0);
    }
    return out;
  }
  /// q, k and v, or d of them: `make(name, n)` makes an array.
  template <class T, class Make>
  std::array<T*, 3> split(const std::string& d, const Make& make) const {
    if (fused) {
      T* const all = make(d + "qkv", query_rows() * G * query_group());
      return {all, all + H / G * D, all + (H / G + 1) * D};
    }
    return {make(d + "q", query_rows() * H * D),
            make(d + "k", key_rows() * G * D),
            make(d + "v", key_rows() * G * D)};
  }
  template <class T>
  std::array<const T*, 3> inputs(arrays& a) const {
    return split<const T>("", [&](const std::string& name, std::int64_t n) {
      return a.in<T>(name, normal_numbers(n));
    });
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const auto [q, k, v] = s.inputs<T>(a);
      return kernels::attention_forward<T>{
          .o = a.out<T>("o", s.query_rows() * s.H * s.D, s.units()),
          .lse = a.out<float>("lse", s.query_rows() * s.H, s.units(), 8),  // of scores below 8
          .q = q,
          .k = k,
          .v = v,
          .shape = s.shape(a)};
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const auto [q, k, v] = s.inputs<T>(a);
      // A softmax of one number has no slope: what is left are roundings of products near 1, and
      // those of o, which was rounded to its type.
      const double of_o = sizeof(T) >= 4 ? 0 : std::is_same_v<T, kernels::bf16> ? 0x1p16 : 0x1p13;
      const auto [dq, dk, dv] = s.split<T>("d", [&](const std::string& name, std::int64_t n) {
        return a.out<T>(name, n, s.units() + of_o, 4);
      });
      return kernels::attention_backward<T>{
          .dq = dq,
          .dk = dk,
          .dv = dv,
          .d_o = a.in<T>("do", normal_numbers(s.query_rows() * s.H * s.D)),
          .o = a.in<T>("o", normal_numbers(s.query_rows() * s.H * s.D)),
          .lse = a.in<float>("lse", normal_numbers(s.query_rows() * s.H)),
          .q = q,
          .k = k,
          .v = v,
          .shape = s.shape(a)};
    });
  }
};

inline op_family attention_family() {
  op_family out{.name = "attention"};
  const auto add = [&out](const attention_extents& s, const std::string& text) {
    const std::string shape = text + " "
                              + shape_text({{"H", s.H},
                                            {"G", s.G},
                                            {"D", s.D},
                                            {"queries", s.query_rows()},
                                            {"keys", s.key_rows()}});
    out.cases.push_back({.shape = shape, .op = s.forward()});
    // Gradients of queries are summed over parts of the keys, of which each thread has some.
    out.cases.push_back(
        {.shape = shape, .op = s.backward(), .before = s.forward(), .same_bits_by_threads = false});
  };
  for (const std::int64_t D : {1, 3, 20, 64, 80, 96, 128, 131})
    add({2, 1, D, {70}, {70}}, "of every head size");
  for (const std::int32_t T : {1, 2, 5, 63, 64, 65, 127, 131})
    add({1, 1, 16, {T, 40}, {T, 40}}, "of every length");
  for (const std::int32_t keys : {130, 131, 132, 133})
    add({1, 1, 16, {69}, {keys}}, "from anywhere in a tile");
  add({3, 3, 24, {70, 3}, {131, 77}, false}, "not causal");
  add({6, 2, 32, {5, 130, 1, 67}, {5, 130, 1, 67}, true, true}, "fused and packed");
  add({4, 2, 20, {1, 4, 2}, {200, 64, 65}}, "decoding");
  add({2, 1, 64, {7}, {150}}, "decoding");
  add({2, 2, 16, {5, 0, 3}, {5, 0, 3}}, "with an empty sequence");
  for (const std::int32_t window : {0, 1, 17, 100})
    add({2, 1, 16, {90}, {90}, true, false, window}, "through a window");
  add({2, 1, 32, {70, 33}, {70, 33}, true, true, -1, 0.3F}, "with dropout");

  for (const bool fused : {false, true}) {
    const attention_extents s{4, 2, 3, {4, 2}, {4, 2}, true, fused, fused ? -1 : 2, 0.2F};
    // lse is kept in float between the passes.
    out.gradients.push_back({.shape = fused ? "fused" : "apart",
                             .forward = s.forward(),
                             .backward = {s.backward()},
                             .tolerance = 1e-6});
  }

  // Each row goes to another place of a cache that is twice as long.
  for (const auto& [R, G, width, row, group] : {std::array<std::int64_t, 5>{0, 1, 8, 8, 8},
                                                {1, 1, 2, 2, 2},
                                                {5, 3, 14, 60, 20},
                                                {7, 4, 128, 1024, 256}})
    out.cases.push_back(
        {.shape = shape_text({{"R", R}, {"G", G}, {"width", width}}),
         .op = makes([R = R, G = G, width = width, row = row, group = group](auto t, arrays& a) {
           using T = decltype(t);
           const std::int64_t cached = 2 * R + 1;
           std::vector<double> at;
           for (std::int64_t r = 0; r < R; ++r)
             at.push_back(double(2 * (R - r) - 1));
           const kernels::cache_rows<T> op{
               .entries = a.out<T>("entries", cached * G * width, 0),
               .positions = a.out<std::int32_t>("positions", cached, 0),
               .kv = a.in<T>("kv", normal_numbers(R * row)),
               .position = a.in<std::int32_t>("position", whole_numbers(R, 4096)),
               .at = a.in<std::int32_t>("at", listed(at)),
               .R = R,
               .G = G,
               .width = width,
               .row = row,
               .group = group};
           a.counts("entries", R * G * width);
           a.counts("positions", R);
           a.counts("kv", R * G * width);
           a.counts("at", 0);
           return op;
         })});
  return out;
}

}  // namespace troupe::tests
