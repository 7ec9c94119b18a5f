// Rules of sizes and numbers that model families share. Each adds a sentence for a violation, with
// the setting and the nearest valid value.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// 2^31 - 1: a product of two sizes fits in 64 bits.
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t largest_depth = 10000;  ///< a spec of so many layers is small

/// The usual width of a gated layer. Megatron-LM gives it as many parameters as an ungated one of
/// width 4 C.
constexpr std::int64_t gated_ffn(std::int64_t hidden) {
  return std::int64_t(double(4 * hidden) * 2 / 3) / 64 * 64;
}

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

/// Checks the length of a table of learned positions.
void require_positions(std::int64_t positions,
                       std::int64_t sequence,
                       std::vector<std::string>& out);

/// `instead`: what else the sentence offers, ", or ...".
void require_multiple(std::int64_t hidden,
                      std::int64_t heads,
                      const char* instead,
                      std::vector<std::string>& out);

/// A text of a setting behind "model.", one of two or more.
void require_choice(const char* setting,
                    std::string_view value,
                    const std::vector<std::string_view>& all,
                    std::vector<std::string>& out);

/// Buckets of relative positions (relative_bias_spec), for both directions and for one.
void require_buckets(std::int64_t buckets,
                     std::int64_t most_distance,
                     std::vector<std::string>& out);

}  // namespace troupe::runtime
