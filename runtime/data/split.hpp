// The split of a data set into training, validation and test parts.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::runtime {

enum class data_split : std::uint8_t { train, valid, test };

std::string_view to_string(data_split split);  ///< "train", "valid", "test"

/// A range of fractions of the whole, 0 <= begin < end.
struct bookends {
  double begin = 0;
  double end = 1;

  friend bool operator==(const bookends&, const bookends&) = default;
};

/// Sequences [begin, end).
struct sequence_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const sequence_range&, const sequence_range&) = default;
};

/// Megatron's split: "969,30,1" are the weights of training, validation and test, normalized to
/// sum 1. Missing weights are 0; a part of weight 0 is absent.
class split_matrix {
 public:
  /// Throws input_error for anything but one to three weights, not all zero.
  explicit split_matrix(std::string_view weights);

  const std::optional<bookends>& share(data_split split) const {
    return shares_[static_cast<std::size_t>(split)];
  }

  /// The part's range of `count` sequences, rounded to nearest (ties to even). May be empty.
  sequence_range of(data_split split, std::int64_t count) const;

 private:
  std::array<std::optional<bookends>, 3> shares_;
};

}  // namespace troupe::runtime
