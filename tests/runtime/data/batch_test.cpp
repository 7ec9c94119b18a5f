#include "runtime/data/batch.hpp"

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
  const gpt_dataset data(std::make_shared<indexed_dataset>(folder / "data"),
                         split_matrix("1"),
                         data_split::train,
                         {.sequence_length = 4, .samples = 12, .vocabulary = 97});
  batch b;
  fill(b, data, {.micro_batch_size = 2, .data_parallel = 2}, 4, 1, 1);
  CHECK(b.B == 2);
  CHECK(b.T == 4);
  CHECK(b.positions == std::vector<std::uint64_t>{10, 11});
  for (std::size_t row = 0; row < 2; ++row) {
    std::vector<std::int32_t> text(5);
    data.sample(b.positions[row], text);
    for (std::size_t t = 0; t < 4; ++t) {
      CHECK(b.tokens[row * 4 + t] == text[t]);
      CHECK(b.labels[row * 4 + t] == text[t + 1]);
      CHECK(b.loss_mask[row * 4 + t] == 1.0F);
      CHECK(b.position_ids[row * 4 + t] == std::int32_t(t));
    }
  }
  CHECK_THROWS_WITH(fill(b, data, {.micro_batch_size = 2, .data_parallel = 2}, 12, 0, 1),
                    Catch::Matchers::ContainsSubstring("cannot read sample 14"));
}
