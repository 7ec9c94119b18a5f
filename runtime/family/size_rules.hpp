// Rules of sizes and numbers that model families share. Each adds a sentence for a violation, with
// the setting and the nearest valid value.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace troupe::runtime {

/// 2^31 - 1: a product of two sizes fits in 64 bits.
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t largest_depth = 10000;  ///< a spec of so many layers is small

struct named_size {
  const char* setting;  ///< behind "model."
  std::int64_t value = 0, least = 1, most = largest_size;
};
void require_sizes(const std::vector<named_size>& sizes, std::vector<std::string>& out);

void require_padding(std::int64_t vocabulary, std::int64_t padded, std::vector<std::string>& out);

/// Keeps the bytes of parameters, gradients and optimizer state within 64 bits. `layers` is the
/// setting of the depth.
void require_parameters(double count, const char* layers, std::vector<std::string>& out);

void require_numbers(double norm_epsilon,
                     const char* usual_epsilon,
                     double init_std,
                     double hidden_dropout,
                     double attention_dropout,
                     std::vector<std::string>& out);

/// The multiple of `heads` that is nearest to `hidden`, for sentences.
std::int64_t nearest_hidden(std::int64_t hidden, std::int64_t heads);

}  // namespace troupe::runtime
