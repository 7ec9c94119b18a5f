// Cases of attention and of its KV cache (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <algorithm>
#include <array>

namespace troupe::tests {

/// Shape of a case. Queries, keys and values share one fused array if `fused`. The last query row
/// of a sequence has the position of its last key; key positions begin at `from`. With `anywhere`,
/// queries have arbitrary positions and keys ascend with gaps.
struct attention_extents {
  std::int64_t H, G, D;
  std::vector<std::int32_t> queries, keys;  ///< rows per sequence
  bool causal = true, fused = false;
  std::int32_t window = -1;
  float p_drop = 0;
  std::int32_t from = 0;
  bool anywhere = false;
  std::int64_t gap = 0;  ///< unused elements between rows
  std::int64_t Dv = D;
  bool biased = false;  ///< with a bias for every distance of a visible pair, and its gradient
  bool paged = false;   ///< keys of whole pages, in reverse order
  bool row_invariant = false;

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
  std::int64_t query_group() const { return H / G * D + (fused ? D + Dv : 0); }
  std::int64_t key_group() const { return fused ? query_group() : D; }
  std::int64_t value_group() const { return fused ? query_group() : Dv; }
  std::int64_t query_row() const { return G * query_group() + gap; }
  std::int64_t key_row() const { return G * key_group() + gap; }
  std::int64_t value_row() const { return G * value_group() + gap; }
  double units() const { return 2 * roundings_of_sum(longest(keys) + std::max(D, Dv)); }

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
  static const std::int32_t* positions(arrays& a,
                                       const std::string& name,
                                       const std::vector<double>& all) {
    const auto* const at = a.in<std::int32_t>(name, listed(all));
    a.counts(name, 0);
    return at;
  }
  std::vector<double> query_positions() const {
    std::vector<double> out;
    for (std::size_t s = 0; s < queries.size(); ++s)
      for (std::int32_t i = 0; i < queries[s]; ++i)
        out.push_back(anywhere ? double(out.size() * 7919 % 401)
                               : double(from + keys[s] - queries[s] + i));
    return out;
  }
  std::vector<double> key_positions() const {
    std::vector<double> out;
    for (const std::int32_t n : keys)
      for (std::int32_t j = 0, at = 3; j < n; ++j, at += j % 5 == 0 ? 3 : 1)
        out.push_back(double(anywhere ? at : from + j));
    return out;
  }
  /// The distances of visible pairs, without values.
  template <class T>
  kernels::score_bias<T> distances() const {
    const auto of_queries = query_positions(), of_keys = key_positions();
    double low = 1, high = 0;
    for (std::size_t s = 0, i = 0, first = 0; s < queries.size(); first += keys[s++])
      for (std::int32_t n = 0; n < queries[s]; ++n, ++i)
        for (std::int32_t j = 0; j < keys[s]; ++j) {
          const double x = of_keys[first + std::size_t(j)] - of_queries[i];
          if (causal && (x > 0 || (window >= 0 && x < -double(window))))
            continue;
          low = high < low ? x : std::min(low, x);
          high = std::max(high, x);
        }
    return {nullptr, std::int64_t(high - low) + 1, std::int32_t(low)};
  }
  template <class T>
  kernels::score_bias<T> bias(arrays& a) const {
    if (!biased)
      return {};
    auto out = distances<T>();
    out.values = a.in<kernels::accumulator<T>>("bias", normal_numbers(H * out.count));
    return out;
  }
  kernels::attention_shape shape(arrays& a) const {
    kernels::attention_shape out{
        .query_starts = starts(a, "query_starts", queries),
        .key_starts = starts(a, "key_starts", keys),
        .query_position = positions(a, "query_position", query_positions()),
        .key_position = positions(a, "key_position", key_positions()),
        .S = std::int64_t(queries.size()),
        .H = H,
        .G = G,
        .D = D,
        .Dv = Dv,
        .query_row = query_row(),
        .query_group = query_group(),
        .key_row = key_row(),
        .key_group = key_group(),
        .value_row = value_row(),
        .value_group = value_group(),
        .scale = float(1 / std::sqrt(double(D))),
        .causal = causal,
        .window = window,
        .p_drop = p_drop,
        .key = 0x5eed,
        .first_head = 3,
        .query_rows = query_rows(),
        .key_rows = key_rows(),
        .longest_query = longest(queries),
        .longest_key = longest(keys),
        .row_invariant = row_invariant};
    if (paged) {
      std::vector<double> pages;
      for (auto n = key_rows() / kernels::attention_page; n > 0; --n)
        pages.push_back(double(n - 1));
      out.pages = positions(a, "pages", pages);
    }
    if (p_drop > 0) {
      out.sample = a.in<std::uint64_t>("sample", whole_numbers(out.S, 1000));
      a.counts("sample", 0);
    }
    return out;
  }
  /// Makes q, k and v (or their gradients, with prefix `d`) by make(name, n, counted): n elements,
  /// of which bytes_moved() counts `counted`.
  template <class T, class Make>
  std::array<T*, 3> split(const std::string& d, const Make& make) const {
    const auto rows = [&](const std::string& name, std::int64_t n, std::int64_t row) {
      return make(d + name, n * row, n * (row - gap));
    };
    if (fused) {
      T* const all = rows("qkv", query_rows(), query_row());
      return {all, all + H / G * D, all + (H / G + 1) * D};
    }
    return {rows("q", query_rows(), query_row()),
            rows("k", key_rows(), key_row()),
            rows("v", key_rows(), value_row())};
  }
  template <class T>
  std::array<const T*, 3> inputs(arrays& a) const {
    return split<const T>("", [&](const std::string& name, std::int64_t n, std::int64_t counted) {
      const T* const at = a.in<T>(name, normal_numbers(n));
      a.counts(name, counted);
      return at;
    });
  }

  op_maker forward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const auto [q, k, v] = s.inputs<T>(a);
      return kernels::attention_forward<T>{
          .o = a.out<T>("o", s.query_rows() * s.H * s.Dv, s.units()),
          .lse = a.out<float>("lse", s.query_rows() * s.H, s.units(), 8),  // for scores below 8
          .q = q,
          .k = k,
          .v = v,
          .shape = s.shape(a),
          .bias = s.bias<T>(a)};
    });
  }
  op_maker backward() const {
    return makes([s = *this](auto t, arrays& a) {
      using T = decltype(t);
      const auto [q, k, v] = s.inputs<T>(a);
      // The softmax of a single key has zero gradient. The rest are rounding errors of products
      // near 1 and of o, which was rounded to its type.
      const double of_o = sizeof(T) >= 4 ? 0 : std::is_same_v<T, kernels::bf16> ? 0x1p16 : 0x1p13;
      const auto [dq, dk, dv]
          = s.split<T>("d", [&](const std::string& name, std::int64_t n, std::int64_t counted) {
              T* const at = a.out<T>(name, n, s.units() + of_o, 4);
              a.counts(name, counted);
              return at;
            });
      return kernels::attention_backward<T>{
          .dq = dq,
          .dk = dk,
          .dv = dv,
          .d_o = a.in<T>("do", normal_numbers(s.query_rows() * s.H * s.Dv)),
          .o = a.in<T>("o", normal_numbers(s.query_rows() * s.H * s.Dv)),
          .lse = a.in<float>("lse", normal_numbers(s.query_rows() * s.H)),
          .q = q,
          .k = k,
          .v = v,
          .shape = s.shape(a),
          .bias = s.bias<T>(a),
          .dbias = s.biased ? a.out<kernels::accumulator<T>>(
                       "dbias",
                       s.H * s.distances<T>().count,
                       s.units() + roundings_of_sum(s.query_rows()) + of_o,
                       4)
                            : nullptr};
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
                                            {"Dv", s.Dv},
                                            {"queries", s.query_rows()},
                                            {"keys", s.key_rows()}});
    out.cases.push_back({.shape = shape, .op = s.forward()});
    // Gradients of queries are summed over key parts; their number depends on the thread count.
    out.cases.push_back(
        {.shape = shape, .op = s.backward(), .before = s.forward(), .same_bits_by_threads = false});
  };
  for (const std::int64_t D : {1, 3, 20, 40, 64, 80, 96, 128, 131, 256})
    add({2, 1, D, {70}, {70}}, "of every head size");
  for (const std::int32_t T : {1, 2, 5, 63, 64, 65, 127, 128, 131})
    add({1, 1, 16, {T, 40}, {T, 40}}, "of every length");
  for (const std::int32_t keys : {130, 131, 132, 133})
    add({1, 1, 16, {69}, {keys}}, "from anywhere in a tile");
  add({3, 3, 24, {70, 3}, {131, 77}, false}, "not causal");
  add({2, 1, 37, {3}, {70}, false}, "not causal");
  add({6, 2, 32, {5, 130, 1, 67}, {5, 130, 1, 67}, true, true}, "fused and packed");
  for (const std::int64_t D : {16, 21, 64})
    add({4, 2, D, {70}, {70}, true, true, -1, 0, 0, false, 8}, "with gaps between rows");
  add({4, 2, 20, {1, 4, 2}, {200, 64, 65}}, "decoding");
  add({2, 1, 64, {7}, {150}}, "decoding");
  // A device splits the keys: three parts, the last with one tile; six parts; parts without visible
  // keys.
  for (const std::int32_t keys : {257, 641})
    for (const std::int32_t window : {-1, 100})
      add({2, 1, 24, {1, 0, 3}, {keys, 7, 70}, true, false, window, 0.2F}, "decoding of many keys");
  add({2, 2, 136, {2}, {641}}, "decoding of many keys");
  add({2, 2, 16, {5, 0, 3}, {5, 0, 3}}, "with an empty sequence");
  add({2, 1, 16, {0, 9, 0}, {0, 9, 0}}, "with empty sequences");
  add({2, 1, 16, {3, 0}, {0, 70}}, "with queries without keys");
  add({2, 1, 16, {0}, {0}}, "of nothing");
  // Window: only itself; within a vector, a block of rows, a tile; one tile; several tiles.
  for (const std::int32_t window : {0, 1, 5, 17, 63, 64, 65, 125, 126, 127, 130, 199}) {
    const float p = window % 2 == 0 ? 0 : 0.3F;
    add({2, 1, 20, {5, 200}, {5, 200}, true, true, window, p}, "through a window");
  }
  for (const std::int32_t window : {0, 3, 64, 250})
    add({4, 2, 20, {1, 4, 2}, {300, 64, 165}, true, false, window}, "decoding through a window");
  for (const std::int32_t window : {3, 40, 100})
    add({2, 1, 64, {70}, {300}, true, false, window, 0.2F}, "through a window of more keys");
  // With window 0 many queries see no key, because keys have gaps.
  for (const std::int32_t window : {-1, 0, 2, 30, 100})
    for (const float p : {0.0F, 0.3F})
      add({2, 2, 16, {150, 70}, {140, 66}, true, false, window, p, 0, true}, "at any positions");
  // Beyond tiles of 16, 32, 64 and 128, at both ends of every extent.
  for (const std::int64_t D : {24, 40, 64, 96, 128}) {
    add({4, 2, D, {161, 37}, {290, 37}, true, false, 70, 0.2F},
        "through a window of several tiles");
    add({2, 1, D, {17, 97}, {17, 289}}, "of several tiles");
    add({1, 1, D, {33}, {145}, false}, "not causal, of several tiles");
  }
  // Values with smaller and larger heads than queries and keys: within a vector, beyond one, and of
  // other sizes of a tile.
  for (const auto& [D, Dv] : {std::pair<std::int64_t, std::int64_t>{20, 5},
                              {5, 20},
                              {24, 16},
                              {40, 72},
                              {192, 128},
                              {64, 136}}) {
    const auto with_values = [Dv = Dv](attention_extents s) {
      s.Dv = Dv;
      return s;
    };
    add(with_values({4, 2, D, {5, 70, 67}, {5, 70, 67}, true, true}), "fused, with other values");
    add(with_values({4, 4, D, {70}, {131}, true, false, 70, 0.2F, 0, false, 8}),
        "with other values and gaps");
    add(with_values({4, 2, D, {1, 4, 2}, {200, 64, 641}}), "decoding with other values");
    add(with_values({1, 1, D, {33}, {145}, false}), "not causal, with other values");
  }
  add({2, 1, 32, {70, 33}, {70, 33}, true, true, -1, 0.3F}, "with dropout");
  for (const std::int64_t D : {64, 72, 128})
    add({4, 2, D, {67, 9}, {67, 9}, true, true, -1, 0.1F}, "with dropout");
  for (const std::int32_t keys : {90, 91, 92, 93})
    add({3, 1, 16, {70, 33}, {keys, 33}, true, false, -1, 0.25F, keys}, "dropping from anywhere");

  // Biases: of both directions, one direction and a window; keys in tiles and parts of tiles; few
  // queries; unequal lengths; other values; fused rows; dropout; keys with gaps.
  const auto add_biased = [&add](attention_extents s, const std::string& text) {
    s.biased = true;
    add(s, "with biases, " + text);
  };
  for (const std::int32_t T : {1, 3, 16, 63, 65, 131}) {
    add_biased({2, 1, 16, {T, 40}, {T, 40}, false}, "not causal");
    add_biased({2, 2, 20, {T, 40}, {T, 40}, true, true}, "fused");
  }
  add_biased({4, 2, 24, {70, 3}, {131, 77}, false, false, -1, 0.2F}, "not causal, unequal");
  add_biased({4, 2, 24, {131, 7}, {40, 77}, false}, "not causal, unequal");
  add_biased({4, 2, 20, {1, 4, 2}, {200, 64, 65}}, "decoding");
  add_biased({2, 1, 24, {1, 0, 3}, {641, 7, 70}, true, false, 100, 0.2F}, "decoding of many keys");
  add_biased({2, 1, 20, {5, 200}, {5, 200}, true, true, 70, 0.3F}, "through a window");
  add_biased({2, 1, 16, {3, 0}, {0, 70}}, "with queries without keys");
  add_biased({4, 2, 72, {70}, {131}, true, false, 70, 0, 0, false, 8, 40}, "with other values");
  for (const bool causal : {true, false})
    add_biased({2, 2, 16, {150, 70}, {140, 66}, causal, false, -1, 0.3F, 0, true},
               "at any positions");
  add_biased({2, 1, 16, std::vector<std::int32_t>(40, 9), std::vector<std::int32_t>(40, 9), false},
             "of many sequences");

  // Keys in pages, in the forward pass; also with rows that have the same bits in any number.
  for (const bool row_invariant : {false, true}) {
    const auto add_paged = [&](attention_extents s, const std::string& text) {
      s.paged = true;
      s.row_invariant = row_invariant;
      out.cases.push_back({.shape = text + ", in pages" + (row_invariant ? ", invariant" : ""),
                           .op = s.forward(),
                           .on_devices = false});
    };
    for (const std::int64_t D : {20, 64}) {
      add_paged({4, 2, D, {1, 4, 2}, {192, 64, 128}, true, false, -1, 0.2F}, "decoding");
      add_paged({4, 2, D, {1, 70, 3}, {64, 192, 128}, true, false, 70, 0, 0, false, 8, 40},
                "through a window, with other values and gaps");
    }
    add_paged({6, 2, 24, {3, 130}, {192, 128}, true, false, 30, 0, 0, true}, "at any positions");
    add_paged({2, 1, 32, {5, 2}, {64, 128}, false}, "not causal");
    add_paged({2, 1, 16, {3, 65}, {192, 128}, true, false, 100, 0, 0, false, 0, 16, true},
              "with biases");
  }

  // lse is stored in float between the passes.
  const auto gradient = [&out](const attention_extents& s, const std::string& text) {
    out.gradients.push_back(
        {.shape = text, .forward = {s.forward()}, .backward = {s.backward()}, .tolerance = 1e-6});
  };
  for (const bool causal : {true, false})
    for (const float p : {0.0F, 0.2F})
      for (const std::int32_t window : {-1, 1}) {
        gradient({6, 2, 5, {3, 1, 4}, {3, 1, 4}, causal, true, window, p}, "fused");
        // Fewer queries than keys, as with a KV cache.
        gradient({4, 2, 3, {2, 3, 1}, {5, 3, 4}, causal, false, window, p}, "apart");
        attention_extents biased{4, 2, 3, {2, 3, 1}, {5, 3, 4}, causal, false, window, p};
        biased.biased = true;
        gradient(biased, "with biases");
        for (const std::int64_t Dv : {2, 5})
          gradient({4, 2, 3, {2, 3, 1}, {5, 3, 4}, causal, false, window, p, 0, false, 0, Dv},
                   "apart, with other values");
      }

  // Each row goes to a different place of a cache that is about twice as long.
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
