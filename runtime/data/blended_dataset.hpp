// A data set that interleaves the samples of several data sets: Megatron's BlendedDataset.

#pragma once

#include "runtime/data/blend.hpp"
#include "runtime/data/sample_dataset.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Opens the data set at `prefix` with at least `samples` samples; nullopt: one epoch.
using dataset_opener = std::function<std::shared_ptr<const sample_dataset>(
    const std::filesystem::path& prefix, std::optional<std::uint64_t> samples)>;

class blended_dataset final : public sample_dataset {
 public:
  /// `blend` has at least one data set; all have the same schema (BLEND-1). With weights,
  /// the blend has at least `samples` samples. Without weights, each data set is used for at most
  /// one epoch: the blend has `samples` samples, or all of them when `samples` is larger or
  /// nullopt. Throws input_error when a data set has no samples, or fewer than the blend takes from
  /// it.
  blended_dataset(const data_blend& blend,
                  std::optional<std::uint64_t> samples,
                  const dataset_opener& open);

  std::uint64_t size() const override { return order_.dataset.size(); }
  batch_schema schema() const override { return sets_.front()->schema(); }
  void fill(std::uint64_t i, const sample_view& out) const override;
  void expect(std::uint64_t i) const override;

  const blend_order& order() const { return order_; }

 private:
  void order_by_weights(const data_blend& blend, std::uint64_t samples, const dataset_opener& open);
  void order_by_sizes(const data_blend& blend,
                      std::optional<std::uint64_t> samples,
                      const dataset_opener& open);
  void require_enough(const data_blend& blend) const;

  std::vector<std::shared_ptr<const sample_dataset>> sets_;
  blend_order order_;
};

}  // namespace troupe::runtime
