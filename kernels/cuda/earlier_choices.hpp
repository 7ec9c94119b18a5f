// Choices of products that other processes made, and those among them that could not be taken.

#pragma once

#include "kernels/backend/cuda_library.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace troupe::kernels::cuda {

/// Any thread.
class earlier_choices {
 public:
  struct given_choice {
    product_choice choice;
    choices_of whose;
  };

  /// Of those of one product the last holds; but that of this run stays, whoever has another.
  void give(const std::map<std::string, product_choice>& known, choices_of whose);
  std::optional<given_choice> find(const std::string& product) const;

  /// The library does not take it: noted, and never offered again. Throws device_failure where
  /// the run is to have its bits or end.
  void replace(const given_choice& earlier, const std::string& why, bool strict);
  /// Whether this algorithm was not taken for the product.
  bool was_replaced(const std::string& product, const std::string& algorithm) const;
  std::vector<replaced_choice> replaced() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, given_choice> given_;
  std::vector<replaced_choice> replaced_;
  std::set<std::pair<std::string, std::string>> refused_;  ///< product, algorithm
};

}  // namespace troupe::kernels::cuda
