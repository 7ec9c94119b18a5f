// Formats the extents of an operation as text, for error messages and profiles.

#pragma once

#include <concepts>
#include <cstdint>
#include <string>

namespace troupe::kernels {

// X(extent): member names used by the operation headers.
#define TROUPE_EVERY_EXTENT(X) \
  X(S)                         \
  X(R)                         \
  X(N)                         \
  X(K)                         \
  X(C)                         \
  X(V)                         \
  X(E)                         \
  X(k)                         \
  X(vocabulary)                \
  X(H)                         \
  X(G)                         \
  X(heads)                     \
  X(D)                         \
  X(width)                     \
  X(T_)                        \
  X(query_rows)                \
  X(key_rows)                  \
  X(longest_query)             \
  X(longest_key)               \
  X(window)                    \
  X(rotated)                   \
  X(n)                         \
  X(count)                     \
  X(slots)                     \
  X(sources)                   \
  X(parts)                     \
  X(grain)

/// "R 8192 N 3072 K 768", including those of `op.shape` and `op.rules`; empty if there are none.
/// The head size of values is named where it differs from that of keys.
template <class Op>
std::string extents_of(const Op& op) {
  std::string out;
  const auto add = [&out](const char* name, std::int64_t value) {
    out += (out.empty() ? "" : " ") + std::string(name) + " " + std::to_string(value);
  };
#define TROUPE_ADD_EXTENT(extent)                                     \
  if constexpr (requires {                                            \
                  { op.extent } -> std::convertible_to<std::int64_t>; \
                }) /* attention's keys are named k, too */            \
    add(#extent, std::int64_t(op.extent));
  TROUPE_EVERY_EXTENT(TROUPE_ADD_EXTENT)
#undef TROUPE_ADD_EXTENT
  if constexpr (requires { op.Dv; })
    if (op.Dv != op.D)
      add("Dv", op.Dv);
  if constexpr (requires { op.groups.G; })
    add("groups", op.groups.G);
  if constexpr (requires { op.shape; })
    out += (out.empty() ? "" : " ") + extents_of(op.shape);
  if constexpr (requires { op.rules; })
    out += (out.empty() ? "" : " ") + extents_of(op.rules);
  return out;
}

}  // namespace troupe::kernels
