// A claim check for a tensor that a process holds.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/tensor/dtype.hpp"
#include "runtime/tensor/shape.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A plain value: a copy copies no data and takes no ownership. Redeeming it (runtime/transport)
/// returns the tensor, once. The lease ends, and the tensor is released, when the ticket is
/// redeemed, its generation ends or its holder dies.
struct ticket {
  std::uint64_t holder = 0;  ///< process that has the bytes
  std::uint64_t slot = 0;    ///< unique in that process; never reused within a run
  generation_id generation = {};
  dtype type = dtype::f32;
  shape extents;

  friend bool operator==(const ticket&, const ticket&) = default;
};

/// The content of one edge of a plan: named tensors, as tickets.
struct ticket_bundle {
  std::vector<std::string> names;
  std::vector<ticket> tickets;  ///< one per name

  friend bool operator==(const ticket_bundle&, const ticket_bundle&) = default;
};
/// Total size of the tensors.
inline std::uint64_t bytes_of(const ticket_bundle& x) {
  std::uint64_t out = 0;
  for (const auto& one : x.tickets)
    out += std::uint64_t(one.extents.size()) * size_of(one.type);
  return out;
}

}  // namespace troupe::runtime
