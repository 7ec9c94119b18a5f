// Helpers for tests of how NCCL groups end.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/nccl_ranks.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::tests {

using namespace runtime;

inline nccl_groups groups_of(const cancel_token& token) {
  return {token, 7, collective_mode::ordered};
}

inline tensor ones(stream& stream, std::int64_t n) {
  return uploaded(stream, std::vector<float>(std::size_t(n), 1), {n});
}

inline void sum(communicator& group, stream& stream, tensor& x) {
  const void* const part = x.raw();
  group.all_reduce_sum(stream, dtype::f32, {&part, 1}, x.raw(), x.size());
}

/// The error text that the work ends with; empty if it succeeds.
inline std::string ending(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const cancelled&) {
    return "cancelled";
  } catch (const broken_promise& x) {
    return x.what();
  } catch (const device_failure& x) {
    return x.what();
  } catch (const input_error& x) {
    return x.what();
  }
}

}  // namespace troupe::tests
