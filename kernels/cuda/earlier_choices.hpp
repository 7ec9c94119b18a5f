// Product choices of earlier processes, and a record of those that could not be used here.

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

  /// Adds choices. A later choice for the same product replaces an earlier one, except that choices
  /// of this run have priority.
  void give(const std::map<std::string, product_choice>& known, choices_of whose);
  std::optional<given_choice> find(const std::string& product) const;

  /// Records that the library does not accept the choice; it is never returned again. Throws
  /// device_failure if `strict` and the run's bits depend on it.
  void replace(const given_choice& earlier, const std::string& why, bool strict);
  /// Whether this algorithm was refused for the product.
  bool was_replaced(const std::string& product, const std::string& algorithm) const;
  std::vector<replaced_choice> replaced() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, given_choice> given_;
  std::vector<replaced_choice> replaced_;
  std::set<std::pair<std::string, std::string>> refused_;  ///< (product, algorithm)
};

}  // namespace troupe::kernels::cuda
