#include "runtime/state/state_check.hpp"

#include "kernels/op/grain.hpp"
#include "runtime/core/random.hpp"
#include "runtime/optim/fingerprints.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// Digests of one chunk, equal to those of optimizer_state::digests on the rank.
chunk_digests digests_of_chunk(const rank_state::part& x, stream& by) {
  const auto& told = *x.digested;
  ensure(told.parts.size() == x.weights.size(), "STATE-1: a state says of what its digests are");
  std::vector<std::uint64_t> keys;  // must live until the reads finish
  std::vector<fingerprint_piece> pieces;
  std::vector<const digested_part*> of;
  const auto add = [&](const digested_part& part, std::uint64_t array, const float* at) {
    pieces.push_back({at, part.end - part.begin, nullptr});
    add_keys_of_grains(part, array, told.grain, keys);
    of.push_back(&part);
  };
  for (std::size_t i = 0; i < told.parts.size(); ++i) {
    const auto& part = told.parts[i];
    const auto n = part.end - part.begin;
    ensure(x.weights[i].size() == n, "STATE-1: a state says of what its digests are");
    add(part, 0, x.weights[i].data<float>());
    for (std::size_t array = 0; array < part.at.size(); ++array) {
      ensure(part.at[array] >= 0 && part.at[array] + n <= x.kept.size(),
             "STATE-1: a state says of what its digests are");
      add(part, array + 1, x.kept.data<float>() + part.at[array]);
    }
  }
  const auto* key = keys.data();
  for (auto& piece : pieces) {
    piece.keys = key;
    key += kernels::grains_in(piece.n, told.grain);
  }
  chunk_digests out;
  reads reading(by);
  read_fingerprints(reading, pieces, told.grain, [&](const std::vector<digest>& found) {
    for (std::size_t i = 0; i < found.size(); ++i)
      (of[i]->repeated ? out.copies : out.own)[of[i]->parameter] += found[i];
  });
  reading.finish();
  return out;
}

}  // namespace

state_digests digests_of(const rank_state& x) {
  stream by(kernels::backend::cpu, 1, {});
  state_digests out;
  for (const auto& [id, part] : x.parts) {
    ensure(part.digested != nullptr, "STATE-1: a state says of what its digests are");
    merge_digests(out, digests_of_chunk(part, by), part.digested->answers);
  }
  return out;
}

std::string damaged_parameter(const rank_state& x) {
  const auto found = digests_of(x);
  auto name = first_difference(x.digests.own, found.own);
  return name.empty() ? first_difference(x.digests.copies, found.copies) : name;
}

void flip_bit(rank_state& x, std::uint64_t key) {
  struct array {
    tensor* in;
    std::int64_t begin, size;
  };
  std::vector<array> all;
  for (auto& [id, part] : x.parts) {
    ensure(part.digested != nullptr, "STATE-1: a state says of what its digests are");
    const auto& told = part.digested->parts;
    for (std::size_t i = 0; i < told.size(); ++i)
      if (const auto size = told[i].end - told[i].begin; size > 0) {
        all.push_back({&part.weights[i], 0, size});
        for (const auto at : told[i].at)
          all.push_back({&part.kept, at, size});
      }
  }
  if (all.empty())
    throw input_error("cannot plant a wrong bit: the state has no elements");
  const auto below = [key](std::uint64_t draw, std::size_t count) {
    return std::min(std::size_t(uniform(key, draw) * double(count)), count - 1);
  };
  const auto& drawn = all[below(0, all.size())];
  tensor copy(memory_pool().allocate(drawn.in->bytes()), drawn.in->type(), drawn.in->extents());
  std::memcpy(copy.raw(), drawn.in->raw(), copy.bytes());
  auto& one = copy.data<float>()[drawn.begin + std::int64_t(below(1, std::size_t(drawn.size)))];
  one = std::bit_cast<float>(std::bit_cast<std::uint32_t>(one) ^ 1U << 20);
  *drawn.in = std::move(copy);
}

}  // namespace troupe::runtime
