#include "runtime/data/batch_source.hpp"

#include "runtime/data/gpt_dataset.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <set>

using namespace troupe::runtime;
using namespace troupe::tests;

TEST_CASE("replica r takes rows r m to (r + 1) m - 1 of each micro-batch across replicas",
          "[data]") {
  const batch_layout layout{.micro_batch_size = 2, .data_parallel = 3};
  CHECK(sample_position(layout, 0, 0, 0, 0) == 0);
  CHECK(sample_position(layout, 0, 0, 0, 1) == 1);
  CHECK(sample_position(layout, 0, 0, 2, 1) == 5);
  CHECK(sample_position(layout, 0, 1, 0, 0) == 6);
  CHECK(sample_position(layout, 100, 1, 2, 1) == 111);
}

TEST_CASE("a global batch is dealt out completely and once, however it is split", "[data]") {
  for (const std::uint64_t micro : {1, 2, 4})
    for (const std::uint64_t replicas : {1, 2, 3}) {
      const batch_layout layout{micro, replicas};
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < 24 / (micro * replicas); ++i)
        for (std::uint64_t r = 0; r < replicas; ++r)
          for (std::uint64_t b = 0; b < micro; ++b)
            seen.insert(sample_position(layout, 48, i, r, b));
      CHECK(seen.size() == 24);
      CHECK(*seen.begin() == 48);
      CHECK(*seen.rbegin() == 71);
    }
}

TEST_CASE("DATA-1: a batch holds the samples of its positions, row by row", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "data", 97, {{5}, {3}, {7}, {2}, {9}, {4}});
  const auto data = std::make_shared<gpt_dataset>(
      std::make_shared<indexed_dataset>(folder / "data"),
      split_matrix("1"),
      data_split::train,
      gpt_dataset_options{.sequence_length = 4, .samples = 12, .vocabulary = 97});
  const dataset_source source(data, {.micro_batch_size = 2, .data_parallel = 2}, memory_pool());
  auto b = source.microbatch({.consumed = 4, .microbatch = 1, .replica = 1});
  CHECK(b.tokens.extents() == shape{2, 4});
  CHECK(b.samples.extents() == shape{2});
  for (std::int64_t r = 0; r < 2; ++r) {
    const auto sample = b.samples.elements<std::uint64_t>()[std::size_t(r)];
    CHECK(sample == 10 + std::uint64_t(r));
    std::vector<std::int32_t> text(5);
    data->sample(sample, text);
    const auto row = b.row(r);
    for (std::size_t t = 0; t < 4; ++t) {
      CHECK(row.tokens[t] == text[t]);
      CHECK(row.labels[t] == text[t + 1]);
      CHECK(row.mask[t] == 1.0F);
      CHECK(row.positions[t] == std::int32_t(t));
    }
  }
  CHECK_THROWS_WITH(source.microbatch({.consumed = 12, .microbatch = 0, .replica = 1}),
                    Catch::Matchers::ContainsSubstring("cannot read sample 14"));
}

TEST_CASE("attention is cut after each end of a document, but for the last token", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "data", 97, {{5}, {3}, {7}, {2}, {9}, {4}});
  const auto made = [&](bool cut) {
    return std::make_shared<gpt_dataset>(
        std::make_shared<indexed_dataset>(folder / "data"),
        split_matrix("1"),
        data_split::train,
        gpt_dataset_options{
            .sequence_length = 4, .samples = 6, .vocabulary = 97, .reset_attention_mask = cut});
  };
  const batch_layout layout{.micro_batch_size = 6, .data_parallel = 1};
  CHECK(!dataset_source(made(false), layout, memory_pool()).microbatch({}).documents);
  auto b = dataset_source(made(true), layout, memory_pool()).microbatch({});
  std::vector<std::int32_t> starts;
  std::vector<std::uint64_t> samples;
  for (std::int32_t r = 0; r < 6; ++r)
    for (std::int32_t t = 0; t < 4; ++t)
      if (t == 0 || b.row(r).tokens[std::size_t(t - 1)] == 0) {
        starts.push_back(4 * r + t);
        samples.push_back(std::uint64_t(r));
      }
  CHECK(starts.size() > 6);
  starts.push_back(24);
  const auto found = b.documents.elements<std::int32_t>();
  const auto of = b.document_samples.elements<std::uint64_t>();
  CHECK(std::vector<std::int32_t>(found.begin(), found.end()) == starts);
  CHECK(std::vector<std::uint64_t>(of.begin(), of.end()) == samples);
}
