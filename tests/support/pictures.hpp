// A data set of made-up pictures with captions: tensors of several types and lengths.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/data/sample_dataset.hpp"

#include <cstdint>

namespace troupe::tests {

/// Sample i has (3, 2) pixels of i + 0.5, a caption of 5 tokens i + t with a document that begins
/// at token 1 + i % 4, and the number 1000 i.
class pictures final : public runtime::sample_dataset {
 public:
  static constexpr std::int64_t caption = 5;

  std::uint64_t size() const override { return 16; }
  runtime::batch_schema schema() const override {
    using runtime::dtype;
    return {.tensors = {{.name = "pixels", .type = dtype::f32, .extents = {3, 2}},
                        {.name = "caption", .type = dtype::i32, .extents = {caption}, .rows = 0},
                        {.name = "number", .type = dtype::u64, .extents = {}}},
            .documents_of = "caption"};
  }
  void fill(std::uint64_t i, const runtime::sample_view& out) const override {
    if (i >= size())
      throw runtime::input_error("there is no picture {}", i);
    for (auto& pixel : out.at<float>("pixels"))
      pixel = float(i) + 0.5F;
    std::int32_t t = 0;
    for (auto& token : out.at<std::int32_t>("caption"))
      token = std::int32_t(i) + t++;
    out.at<std::uint64_t>("number").front() = 1000 * i;
    out.cut(std::int64_t(1 + i % 4));
  }
};

}  // namespace troupe::tests
