// A shard: a box of a named tensor, the unit of checkpoints from a worker to a file and back.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/tensor/box.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace troupe::runtime {

/// A box of the tensor `name`. The type of the elements says where they are:
///   std::span<float>     in the memory of the worker that owns them
///   tensor               in a snapshot
///   ticket               in a message to another actor
///   elements_to_write    on the way into a file
///   stored_elements      in a file
template <class Elements>
struct tensor_shard {
  std::string name = {};
  shape whole = {};  ///< extents of the full tensor, without padding
  box part = {};     ///< the part of it in this shard
  Elements elements = {};

  /// The same shard with its elements elsewhere.
  template <class Other>
  tensor_shard<Other> with(Other other) const {
    return {name, whole, part, std::move(other)};
  }

  friend bool operator==(const tensor_shard&, const tensor_shard&) = default;
};

/// Fills a shard from the elements of its full tensor, row-major.
inline void fill(const tensor_shard<std::span<float>>& to, std::span<const float> all) {
  ensure(std::int64_t(all.size()) == to.whole.size(), "SHARD-1: a shard is filled from its whole");
  copy_common(whole(to.whole), all.data(), to.part, to.elements.data(), sizeof(float));
}

}  // namespace troupe::runtime
