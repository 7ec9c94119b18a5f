// One sample of a data set, read alone.

#pragma once

#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/token_schema.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace troupe::tests {

struct sample_row {
  std::vector<std::int32_t> tokens, labels, positions, cuts;
  std::vector<float> mask;

  friend bool operator==(const sample_row&, const sample_row&) = default;
};

inline sample_row row_of(const runtime::sample_dataset& data, std::uint64_t i) {
  runtime::memory_pool pool;
  const auto batch = runtime::empty_batch(data.schema(), 1, pool);
  sample_row out;
  runtime::document_cuts cuts;
  const runtime::sample_view view(batch, 0, &cuts);
  data.fill(i, view);
  out.cuts = cuts["documents"];
  const runtime::token_row row(view);
  out.tokens.assign(row.tokens.begin(), row.tokens.end());
  out.labels.assign(row.labels.begin(), row.labels.end());
  out.positions.assign(row.positions.begin(), row.positions.end());
  out.mask.assign(row.mask.begin(), row.mask.end());
  return out;
}

/// True if `fill` writes each element of sample i: it leaves none as the memory was.
inline bool writes_all(const runtime::sample_dataset& data, std::uint64_t i) {
  runtime::memory_pool pool;
  const auto filled = [&](int byte) {
    auto out = runtime::empty_batch(data.schema(), 1, pool);
    for (auto [name, x] : out)
      std::memset(x.raw(), byte, x.bytes());
    data.fill(i, runtime::sample_view(out, 0));
    return out;
  };
  const auto a = filled(0), b = filled(0xff);
  return std::ranges::all_of(data.schema().tensors, [&](const auto& of) {
    const auto &x = a.at(of.name), &y = b.at(of.name);
    return std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
  });
}

/// Fills a sample of another length.
inline void fill_other_length(const runtime::sample_dataset& data, std::int64_t length) {
  runtime::memory_pool pool;
  const auto batch = runtime::empty_batch(runtime::token_schema(length), 1, pool);
  data.fill(0, runtime::sample_view(batch, 0));
}

}  // namespace troupe::tests
