// How surprising a text is to a model.

#pragma once

#include "runtime/model/chunk.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Told (tokens predicted so far, all).
using score_progress = std::function<void(std::uint64_t, std::uint64_t)>;

/// Why a model's output may not be finite, and what to do, as the end of a sentence.
std::string why_not_finite(dtype precision);

/// Minus the natural logarithm of the probability of tokens[1] ... tokens[n - 1], summed; each is
/// predicted once. Windows of at most the model's sequence length move on by `stride` predictions,
/// 1 <= stride <= that length: what a window shares with the one before is its context. Throws
/// input_error when the sum is not finite.
double surprise(const chunk& whole,
                parameter_store& store,
                stream& stream,
                std::span<const std::int32_t> tokens,
                std::int64_t stride,
                const score_progress& progress = {});

/// Logits (T, vocabulary), row-major, padding left out, after each of 1 <= T <= sequence length
/// tokens.
std::vector<float> logits_of(const chunk& whole,
                             parameter_store& store,
                             stream& stream,
                             std::span<const std::int32_t> tokens);

}  // namespace troupe::runtime
